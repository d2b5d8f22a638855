/* cycle THREADS: threads that repeat the same calls in the same order until they are killed. */
#include <pthread.h>
#include <stdlib.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) abort(); } while (0)

static void *work(void *arg)
{
	aclrtStream s;
	aclrtEvent e;
	aclrtStreamStatus done;
	int32_t device;
	void *memory, *host;
	MUST(aclrtSetDevice(0));
	for (;;) {
		MUST(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
		MUST(aclrtMemset(memory, 64, 1, 64));
		MUST(aclrtGetDevice(&device));
		MUST(aclrtMallocHost(&host, 64));
		MUST(aclrtCreateStream(&s));
		MUST(aclrtMemcpyAsync(host, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST, s));
		MUST(aclrtCreateEvent(&e));
		MUST(aclrtRecordEvent(e, s));
		MUST(aclrtStreamQuery(s, &done));
		MUST(aclrtSynchronizeEvent(e));
		MUST(aclrtDestroyEvent(e));
		MUST(aclrtSynchronizeStream(s));
		MUST(aclrtDestroyStream(s));
		MUST(aclrtFreeHost(host));
		MUST(aclrtFree(memory));
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t;
	MUST(aclInit(NULL));
	for (int i = 1; i < (argc > 1 ? atoi(argv[1]) : 1); i++)
		pthread_create(&t, NULL, work, NULL);
	work(NULL);
}
