/*
 * Results that a replay can't prove by comparing bytes. argv[2] chooses:
 *	inplace    a kernel whose output equals the previous content
 *	unwritten  a copy from unwritten memory
 *	half       a copy from memory whose first half a kernel has written
 *	sum        a kernel that adds to unwritten memory
 *	ignored    the same, and a copy of the kernel's result from written memory
 *	none       no result at all
 *	crash      a kernel that crashes between two copies of the same memory
 *	varies     a kernel whose output differs in each run
 */
#include "program.h"

enum { COUNT = 256 };

int main(int argc, char **argv)
{
	EXPECT(argc == 3);
	const char *how = argv[2];
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	uint32_t host[COUNT], *x = device_memory(sizeof host);
	for (uint32_t i = 0; i < COUNT; i++)
		host[i] = i;
	aclrtFuncHandle add = kernel(argv[1], strcmp(how, "varies") == 0 ? "stamp" : "add");
	uint64_t count = COUNT;
	if (strcmp(how, "unwritten") == 0)
		count = 0;
	else if (strcmp(how, "half") == 0)
		to_device(x, host, sizeof host / 2), count /= 2;
	else if (strcmp(how, "ignored") == 0)
		to_device(x, host, sizeof host / 2);
	else if (strcmp(how, "sum") != 0)
		to_device(x, host, sizeof host);
	struct add_args args = {x, count, strcmp(how, "inplace") == 0 ? 0 : 1, 0};
	if (count > 0)
		launch(add, 2, s, &args, sizeof args);
	CHECK(aclrtSynchronizeStream(s));
	if (strcmp(how, "none") != 0)
		to_host(host, x, strcmp(how, "ignored") == 0 ? sizeof host / 2 : sizeof host);
	if (strcmp(how, "crash") == 0) {
		launch(kernel(argv[1], "trap"), 1, s, &args, sizeof args);
		EXPECT(aclrtSynchronizeStream(s) == ACL_ERROR_RT_AICORE_EXCEPTION);
		to_host(host, x, sizeof host);
	}
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
