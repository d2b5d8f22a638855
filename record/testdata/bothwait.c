/* Two threads wait for the same copy, and each overwrites the memory when its own wait has ended. */
#include <pthread.h>
#include <string.h>

#include "acl/acl.h"
#include "check.h"

enum { TIMES = 10, SIZE = 32 << 20 };

static aclrtContext context;
static aclrtStream stream;
static unsigned char *host;
static pthread_barrier_t both;

static void *waits(void *unused)
{
	CHECK(aclrtSetCurrentContext(context));
	for (int i = 0; i < TIMES; i++) {
		pthread_barrier_wait(&both);
		CHECK(aclrtSynchronizeStream(stream));
		memset(host + SIZE - 4096, 0xff, 4096);
		pthread_barrier_wait(&both);
	}
	return unused;
}

int main(void)
{
	void *device;
	pthread_t other;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtGetCurrentContext(&context));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMallocHost((void **)&host, SIZE));
	CHECK(aclrtMemset(device, SIZE, 7, SIZE));
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&other, NULL, waits, NULL);
	for (int i = 0; i < TIMES; i++) {
		CHECK(aclrtMemcpyAsync(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
		pthread_barrier_wait(&both);
		CHECK(aclrtSynchronizeStream(stream));
		memset(host + SIZE - 4096, 0xff, 4096);
		pthread_barrier_wait(&both);
	}
	pthread_join(other, NULL);
	return 0;
}
