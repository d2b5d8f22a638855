/* Calls that fail and are repeated: no memory, a missing kernel, a copy that is too long or in the wrong place. */
#include "program.h"

enum { COUNT = 100 };

int main(int argc, char **argv)
{
	(void)argc;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	void *huge = NULL;
	size_t size = (size_t)1 << 46;
	while (aclrtMalloc(&huge, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
		size >>= 4;
	EXPECT(size < (size_t)1 << 46);
	CHECK(aclrtFree(huge));

	uint32_t host[COUNT], back[COUNT], *x = device_memory(sizeof host);
	for (int i = 0; i < COUNT; i++)
		host[i] = (uint32_t)i;
	EXPECT(aclrtMemcpy(x, 8, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS);
	/* The second copy of a batch contradicts its attribute's location. */
	void *to[] = {x, back}, *from[] = {host, host};
	size_t most[] = {8, 8}, sizes[] = {8, 8}, first = 0, bad = 7;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
	EXPECT(aclrtMemcpyBatch(to, most, from, sizes, 2, &attr, &first, 1, &bad) != ACL_SUCCESS && bad == 1);
	to_device(x, host, sizeof host);

	aclrtFuncHandle add = kernel(argv[1], "add"), none = NULL;
	aclrtBinHandle binary;
	CHECK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	EXPECT(aclrtBinaryGetFunction(binary, "no_such_kernel", &none) != ACL_SUCCESS);
	CHECK(aclrtBinaryUnLoad(binary));
	struct add_args args = {x, COUNT, 2, 0};
	for (int i = 0; i < 3; i++) {
		/* A launch that fails and is tried again with the same arguments. */
		EXPECT(aclrtLaunchKernelWithHostArgs(add, 0, s, NULL, &args, sizeof args, NULL, 0) != ACL_SUCCESS);
		launch(add, 2, s, &args, sizeof args);
	}
	CHECK(aclrtSynchronizeStream(s));
	to_host(back, x, sizeof back);
	for (uint32_t i = 0; i < COUNT; i++)
		EXPECT(back[i] == i + 6 * (i + 1));
	CHECK(aclrtDestroyStream(s));
	EXPECT(aclrtSynchronizeStream(s) != ACL_SUCCESS);
	CHECK(aclrtFree(x));
	EXPECT(aclrtFree(x) != ACL_SUCCESS);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
