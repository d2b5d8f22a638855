/*
 * pending WAY: asynchronous copies to the host whose results can't be captured, or can be captured in spite of earlier copies.
 *
 *	full          one more copy than the shim remembers, then again copies that it remembers
 *	many          very many asynchronous copies, then asynchronous and synchronous copies to parts of the same memory
 *	again         two copies to the same memory before the program waits
 *	streams       copies on each of very many streams, and a wait for every third
 *	event         copies on two streams before and after an event, and a wait for the event
 *	free          memory that is freed when the program waits
 *	unregister    memory that is no longer registered when the program waits
 *	unmap         memory that is gone when the program waits
 *	pinned        memory that was pinned when the shim had no room for more to remember
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); return 1; } } while (0)

enum { SIZE = 8192, TABLE = 65536 };

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	aclrtStream stream;
	char *device, *host;
	static char fill[SIZE];
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&stream));
	MUST(aclrtMalloc((void **)&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	memset(fill, 'A', SIZE);
	MUST(aclrtMemcpy(device, SIZE, fill, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
#define COPY(to, n) MUST(aclrtMemcpyAsync(to, n, device, n, ACL_MEMCPY_DEVICE_TO_HOST, stream))
/* Waits for a copy without a runtime call: for its first and last bytes, and a moment for the rest. */
#define COPIED(to) do { while (((volatile char *)to)[0] != 'A' || ((volatile char *)to)[SIZE - 1] != 'A') usleep(1000); usleep(50000); } while (0)
	if (strcmp(way, "full") == 0) {
		MUST(aclrtMallocHost((void **)&host, 16 * (TABLE + 1)));
		for (int i = 0; i <= TABLE; i++)
			COPY(host + 16 * i, 16);
		MUST(aclrtSynchronizeStream(stream));
		for (int i = 0; i < 3; i++)
			COPY(host + 16 * i, 16);
		COPY(host + 8, 16); /* over the first two */
		MUST(aclrtSynchronizeStream(stream));
		return 0;
	}
	if (strcmp(way, "many") == 0) {
		enum { MANY = 20000 };
		MUST(aclrtMallocHost((void **)&host, 16 * MANY));
		for (int i = 0; i < MANY; i++)
			COPY(host + 16 * i, 16);
		COPY(host + 8, 16);            /* over two */
		COPY(host + 16 * 15000, SIZE); /* over 512 */
		MUST(aclrtMemcpy(host + 16 * 100, 16, device, 16, ACL_MEMCPY_DEVICE_TO_HOST));
		MUST(aclrtSynchronizeStream(stream));
		return 0;
	}
	if (strcmp(way, "pinned") == 0) {
		for (int i = 0; i <= 8192; i++)
			MUST(aclrtMallocHost((void **)&host, SIZE));
		COPY(host, SIZE);
		MUST(aclrtSynchronizeStream(stream));
		return 0;
	}
	if (strcmp(way, "again") == 0) {
		MUST(aclrtMallocHost((void **)&host, 2 * SIZE));
		COPY(host, SIZE);
		COPY(host + SIZE / 2, SIZE);
		MUST(aclrtSynchronizeStream(stream));
		return 0;
	}
	if (strcmp(way, "streams") == 0) {
		enum { STREAMS = 1000, EACH = 65 }; /* more streams than the shim tracks, just few enough copies for it to remember */
		static aclrtStream streams[STREAMS];
		MUST(aclrtMallocHost((void **)&host, 16 * STREAMS * EACH));
		for (int i = 0; i < STREAMS; i++)
			MUST(aclrtCreateStream(&streams[i]));
		for (int i = 0; i < STREAMS * EACH; i++)
			MUST(aclrtMemcpyAsync(host + 16 * i, 16, device, 16, ACL_MEMCPY_DEVICE_TO_HOST, streams[i % STREAMS]));
		for (int i = 0; i < STREAMS; i += 3)
			MUST(aclrtSynchronizeStream(streams[i]));
		return 0;
	}
	if (strcmp(way, "event") == 0) {
		enum { EACH = 1000 };
		aclrtStream other;
		aclrtEvent event;
		MUST(aclrtCreateStream(&other));
		MUST(aclrtCreateEvent(&event));
		MUST(aclrtMallocHost((void **)&host, 16 * 4 * EACH));
		for (int i = 0; i < 4 * EACH; i++) {
			if (i == 2 * EACH)
				MUST(aclrtRecordEvent(event, stream));
			MUST(aclrtMemcpyAsync(host + 16 * i, 16, device, 16, ACL_MEMCPY_DEVICE_TO_HOST, i % 2 ? other : stream));
		}
		MUST(aclrtSynchronizeEvent(event));
		return 0;
	}
	if (strcmp(way, "free") == 0) {
		MUST(aclrtMallocHost((void **)&host, SIZE));
		COPY(host, SIZE);
		COPIED(host);
		MUST(aclrtFreeHost(host));
		MUST(aclrtSynchronizeStream(stream));
		return 0;
	}
	host = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (host == MAP_FAILED)
		return 1;
	MUST(aclrtHostRegisterV2(host, SIZE, ACL_HOST_REG_PINNED));
	COPY(host, SIZE);
	COPIED(host);
	if (strcmp(way, "unregister") == 0)
		MUST(aclrtHostUnregister(host));
	else
		munmap(host, SIZE);
	MUST(aclrtSynchronizeStream(stream));
	return 0;
}
