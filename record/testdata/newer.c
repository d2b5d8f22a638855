/*
 * Threads copy to the host, one after the other, and another thread waits for their copies. Before each thread begins, and when its
 * result is there, the program creates the file DIR/N and waits for DIR/Ngo.
 */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdint.h>

#include "acl/acl.h"
#include "check.h"
#include "step.h"

enum { SIZE = 512 };

static void *device, *host;
static aclrtStream stream;

static void *copy(void *letter)
{
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtMemset(device, SIZE, *(const char *)letter, SIZE));
	CHECK(aclrtMemcpyAsync(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	dir = argv[1];
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMallocHost(&host, SIZE));
	for (int n = 0; n < 2; n++) {
		pthread_t t;
		int32_t id;
		CHECK(aclrtGetDevice(&id));
		step(2 * n);
		if (pthread_create(&t, NULL, copy, n == 0 ? "A" : "B") != 0 || pthread_join(t, NULL) != 0)
			return 2;
		CHECK(aclrtSynchronizeStream(stream));
		step(2 * n + 1);
	}
	return 0;
}
