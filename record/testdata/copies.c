/* copies: synchronous copies in both directions, and an asynchronous one to pinned memory, whose result is captured at the wait. */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); return 1; } } while (0)

enum { SIZE = 256 << 10 };

int main(void)
{
	aclrtStream stream;
	void *device, *pinned, *own = calloc(1, SIZE);
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&stream));
	MUST(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	MUST(aclrtMallocHost(&pinned, SIZE));
	MUST(aclrtMemcpy(device, SIZE, own, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	MUST(aclrtMemcpy(own, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	MUST(aclrtMemcpyAsync(pinned, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	MUST(aclrtSynchronizeStream(stream));
	MUST(aclrtDestroyStream(stream));
	MUST(aclrtFree(device));
	MUST(aclrtFreeHost(pinned));
	MUST(aclrtResetDevice(0));
	MUST(aclFinalize());
	free(own);
	return 0;
}
