/*
 * An argument that is a number and looks like an address: the kernel's binary distinguishes them.
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
	uint32_t *x = device_memory(sizeof host);
	to_device(x, host, sizeof host);
	struct add_args args = {x, COUNT, 0, 0};
	memcpy(&args.by, &x, sizeof x);
	launch(add, 1, s, &args, sizeof args);
	CHECK(aclrtSynchronizeStream(s));
	to_host(host, x, sizeof host);
	for (uint32_t i = 0; i < COUNT; i++)
		EXPECT(host[i] == args.by * (i + 1));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
