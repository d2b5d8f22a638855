/* Calls each function in runtime.c with values that the test knows. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s fails\n", #call); exit(1); } } while (0)

static void *work(void *arg)
{
	int32_t id = -1;
	for (int i = 0; i < 1000; i++)
		MUST(aclrtGetDevice(&id));
	return arg;
}

int main(void)
{
	aclrtStream stream;
	aclrtBinHandle binary;
	aclrtFuncHandle kernel;
	void *device, *host;
	static char in[8192], out[100];
	uint64_t args[3] = {0x1111, 0x2222222222222222, 3};
	int32_t id = -1;
	pthread_t t[4];

	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(5));
	MUST(aclrtGetDevice(&id));
	MUST(aclrtCreateStream(&stream));
	MUST(aclrtMalloc(&device, sizeof in, ACL_MEM_MALLOC_HUGE_FIRST));
	memset(in, 'i', sizeof in);
	MUST(aclrtMemcpy(device, sizeof in, in, sizeof in, ACL_MEMCPY_HOST_TO_DEVICE));
	MUST(aclrtBinaryLoad(aclrtCreateBinary("binary", 6), &binary));
	MUST(aclrtBinaryGetFunction(binary, "kernel", &kernel));
	MUST(aclrtLaunchKernelWithHostArgs(kernel, 8, stream, NULL, args, sizeof args, NULL, 0));
	MUST(aclrtMemcpy(out, sizeof out, device, sizeof out, ACL_MEMCPY_DEVICE_TO_HOST));
	MUST(aclrtMallocHost(&host, 64));
	MUST(aclrtMemcpyAsync(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	MUST(aclrtSynchronizeStream(stream));
	if (aclrtMemcpy(out, 1, device, sizeof out, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS)
		return 1;
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	MUST(aclFinalize());
	printf("%d %c%c\n", (int)id, out[0], out[99]);
	return 0;
}
