/*
 * result: asynchronous copies to the host whose results arrive after a wait: by stream, by event, by query, never, and one whose memory
 * is freed before.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); return 1; } } while (0)

enum { SIZE = 8192, COPIES = 5 };

int main(void)
{
	aclrtStream stream, other;
	aclrtEvent event;
	void *device, *host[COPIES];
	static char fill[SIZE];
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&stream));
	MUST(aclrtCreateStream(&other));
	MUST(aclrtCreateEvent(&event));
	MUST(aclrtMalloc(&device, SIZE * COPIES, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int i = 0; i < COPIES; i++) {
		MUST(aclrtMallocHost(&host[i], SIZE));
		memset(fill, 'A' + i, SIZE);
		MUST(aclrtMemcpy((char *)device + SIZE * i, SIZE, fill, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	}
#define COPY(i, s) MUST(aclrtMemcpyAsync(host[i], SIZE, (char *)device + SIZE * (i), SIZE, ACL_MEMCPY_DEVICE_TO_HOST, s))
	COPY(0, stream);
	MUST(aclrtSynchronizeStream(stream));

	COPY(1, stream);
	MUST(aclrtRecordEvent(event, stream));
	COPY(2, stream); /* after the event: not covered by it */
	MUST(aclrtSynchronizeEvent(event));

	aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
	while (status != ACL_STREAM_STATUS_COMPLETE)
		MUST(aclrtStreamQuery(stream, &status));

	COPY(3, other);
	COPY(4, other);
	MUST(aclrtSynchronizeDevice());
	MUST(aclrtMemset(device, SIZE, 0, SIZE));
	COPY(0, stream); /* not awaited before the memory is freed */
	/* It is done by then, but the program has not queried it. */
	while (((volatile char *)host[0])[0] != 0 || ((volatile char *)host[0])[SIZE - 1] != 0)
		usleep(1000);
	usleep(50000);
	MUST(aclrtFreeHost(host[0]));
	MUST(aclrtSynchronizeStream(stream));
	COPY(1, stream); /* never awaited */
	return 0;
}
