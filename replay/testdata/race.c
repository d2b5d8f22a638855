/*
 * Two streams use x without an order; y belongs to one stream. Copies of x and of results computed from x depend on the race, and the
 * copy of y does not.
 */
#include "program.h"

enum { COUNT = 64 };

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s[2];
	uint32_t host[COUNT] = {0}, *x = device_memory(sizeof host), *y = device_memory(sizeof host), *z = device_memory(sizeof host);
	to_device(x, host, sizeof host);
	to_device(y, host, sizeof host);
	aclrtFuncHandle add = kernel(argv[1], "add");
	for (int i = 0; i < 2; i++) {
		CHECK(aclrtCreateStream(&s[i]));
		struct add_args args = {x, COUNT, 1, 0};
		launch(add, 1, s[i], &args, sizeof args);
	}
	struct add_args args = {y, COUNT, 1, 0};
	launch(add, 1, s[0], &args, sizeof args);
	CHECK(aclrtSynchronizeDevice());
	to_host(host, x, sizeof host);
	CHECK(aclrtMemcpy(z, sizeof host, x, sizeof host, ACL_MEMCPY_DEVICE_TO_DEVICE));
	to_host(host, z, sizeof host);
	to_host(host, y, sizeof host);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
