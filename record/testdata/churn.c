/* churn N: threads start and end, each with some calls and a copy whose result a later thread waits for. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) abort(); } while (0)

static aclrtStream stream;
static void *device, *host;

static void *work(void *arg)
{
	long n = (long)arg;
	int32_t id;
	MUST(aclrtSetDevice(0));
	for (int i = 0; i < 10; i++)
		MUST(aclrtGetDevice(&id));
	if (n % 2 == 0)
		MUST(aclrtMemcpyAsync(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	else
		MUST(aclrtSynchronizeStream(stream));
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 8, pause = argc > 2 ? atoi(argv[2]) : 300;
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&stream));
	MUST(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	MUST(aclrtMallocHost(&host, 64));
	for (long i = 0; i < n; i++) {
		pthread_t t;
		pthread_create(&t, NULL, work, (void *)i);
		pthread_join(t, NULL);
		usleep((useconds_t)pause * 1000);
	}
	return 0;
}
