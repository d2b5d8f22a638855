/* Kernels with addresses of missing memory. */
#include "test.h"

int main(int argc, char **argv)
{
	struct {
		void *in, *out;
		uint64_t tiling;
		uint32_t scale, pad;
	} args = {0};
	/* within the device's addresses, NULL, and outside */
	uint64_t wild[] = {0, 0x124000000000 + (8ull << 30), 0x1234, 0x7f0000000000};
	aclrtBinHandle bin;
	aclrtFuncHandle add;

	CHECK(argc == 2);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtBinaryLoadFromFile(argv[1], NULL, &bin));
	OK(aclrtBinaryGetFunction(bin, "test_add", &add));
	OK(aclrtMalloc(&args.in, 64, 0));
	OK(aclrtMalloc(&args.out, 64, 0));
	for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
		aclrtStream s;

		OK(aclrtCreateStream(&s));
		args.tiling = wild[i];
		OK(aclrtLaunchKernelWithHostArgs(add, 1, s, NULL, &args, sizeof args, NULL, 0));
		WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
		CHECK(strstr(aclGetRecentErrMsg(), "(tiling)"));
		OK(aclrtDestroyStream(s));
	}
	OK(aclFinalize());
	return 0;
}
