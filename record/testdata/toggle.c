/* toggle FILE: threads copy numbers to the device and back, into memory that is pinned for a few copies, and overwrite the results, until the file exists. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

enum { THREADS = 4, SIZE = 256, COPIES = 20 };

static const char *last;

static void wait_for(int way, aclrtStream s, aclrtEvent e)
{
	aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
	switch (way) {
	case 0:
		CHECK(aclrtRecordEvent(e, s));
		CHECK(aclrtSynchronizeEvent(e));
		return;
	case 1:
		while (status != ACL_STREAM_STATUS_COMPLETE)
			CHECK((usleep(20), aclrtStreamQuery(s, &status)));
		return;
	}
	CHECK(aclrtSynchronizeStream(s));
}

static void *work(void *number)
{
	uint64_t n = (uint64_t)(uintptr_t)number << 48;
	CHECK(aclrtSetDevice(0));
	while (access(last, F_OK) != 0) {
		aclrtStream s;
		aclrtEvent e;
		void *device, *host;
		uint64_t words[SIZE / 8];
		CHECK(aclrtCreateStream(&s));
		CHECK(aclrtCreateEvent(&e));
		CHECK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
		CHECK(aclrtMallocHost(&host, SIZE));
		for (int i = 0; i < COPIES; i++) {
			n++;
			for (int k = 0; k < SIZE / 8; k++)
				words[k] = n;
			CHECK(aclrtMemcpy(device, SIZE, words, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
			CHECK(aclrtMemcpyAsync(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, s));
			wait_for(i % 3, s, e);
			memset(host, 0xff, SIZE);
		}
		CHECK(aclrtFreeHost(host));
		CHECK(aclrtFree(device));
		CHECK(aclrtDestroyEvent(e));
		CHECK(aclrtDestroyStream(s));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	if (argc != 2)
		return 2;
	last = argv[1];
	CHECK(aclInit(NULL));
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
