/*
 * Copies random contents to the device, 4 KiB each: the largest that a trace stores among its calls, and the least compressible.
 *
 *	payloads CALLS
 */
#include <stdint.h>
#include <stdlib.h>

#include "acl/acl.h"

int main(int argc, char **argv)
{
	static uint64_t host[512];
	uint64_t x = 88172645463325252ULL;
	long calls = argc > 1 ? atol(argv[1]) : 1000000;
	void *device;
	aclrtStream stream;

	if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&device, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtCreateStream(&stream))
		abort();
	for (long i = 0; i < calls; i++) {
		for (int j = 0; j < 512; j++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			host[j] = x;
		}
		if (aclrtMemcpyAsync(device, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE, stream) ||
		    (i % 32 == 0 && aclrtSynchronizeStream(stream)))
			abort();
	}
	return aclrtSynchronizeStream(stream) || aclFinalize();
}
