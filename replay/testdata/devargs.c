/*
 * Kernel arguments in device memory. They contain addresses of memory that is freed and allocated again, in the same place, after the copy.
 */
#include "program.h"

enum { COUNT = 64 };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream s;
	uint32_t host[COUNT] = {0};
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle add = kernel(argv[1], "add");
	void *args = device_memory(sizeof(struct add_args)), *was = device_memory(sizeof host);
	CHECK(aclrtFree(was));
	struct add_args a = {was, COUNT, 7, 0};
	to_device(args, &a, sizeof a);
	void *is = device_memory(2 * sizeof host);
	EXPECT(is == was);
	to_device(is, host, sizeof host);
	CHECK(aclrtLaunchKernel(add, 1, args, sizeof a, s));
	CHECK(aclrtSynchronizeStream(s));
	to_host(host, is, sizeof host);
	for (uint32_t i = 0; i < COUNT; i++)
		EXPECT(host[i] == 7 * (i + 1));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
