/* One program through most of the interface: every way to launch gives the same sums. */
#include "../../include/aclsim/unknown.h"
#include "test.h"

enum { N = 1000, BYTES = 4 * N };

static const struct {
	uint32_t n, add;
} tiling = {N, 5};

static uint32_t in[N], out[N];

static void verify(void *d_out, aclrtStream s)
{
	OK(aclrtSynchronizeStream(s));
	OK(aclrtMemcpy(out, BYTES, d_out, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < N; i++)
		CHECK(out[i] == in[i] * 3 + 5);
	OK(aclrtMemset(d_out, BYTES, 0xff, BYTES));
}

int main(int argc, char **argv)
{
	void *d_in, *d_out, *d_tiling, *d_args, *pinned;
	aclrtStream s;
	aclrtBinHandle bin;
	aclrtFuncHandle add, same, unknown;
	uint32_t scale = 3;

	CHECK(argc == 2);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	for (int i = 0; i < N; i++)
		in[i] = i * i;
	OK(aclrtMalloc(&d_in, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMalloc(&d_out, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMalloc(&d_tiling, sizeof tiling, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMalloc(&d_args, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocHost(&pinned, BYTES));
	memcpy(pinned, in, BYTES);
	OK(aclrtMemcpyAsync(d_in, BYTES, pinned, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
	OK(aclrtMemcpy(d_tiling, sizeof tiling, &tiling, sizeof tiling, ACL_MEMCPY_HOST_TO_DEVICE));

	OK(aclrtBinaryLoadFromFile(argv[1], NULL, &bin));
	OK(aclrtBinaryGetFunction(bin, "test_add", &add));
	OK(aclrtBinaryGetFunction(bin, "test_add", &same));
	CHECK(add == same);
	WANT(ACL_ERROR_RT_KERNEL_LOOKUP, aclrtBinaryGetFunction(bin, "test_missing", &same));
	OK(aclrtBinaryGetFunctionByEntry(bin, 7, &same));
	OK(aclrtBinaryGetFunction(bin, "test_unknown", &unknown));

	/* arguments in host memory */
	struct {
		void *in, *out;
		uint64_t tiling;
		uint32_t scale, pad;
		uint32_t data[2];
	} host = {d_in, d_out, 0, scale, 0, {N, 5}};
	aclrtPlaceHolderInfo place = {16, 32};
	OK(aclrtLaunchKernelWithHostArgs(add, 8, s, NULL, &host, sizeof host, &place, 1));
	CHECK(host.tiling >= 0x100000000000 && host.tiling < 0x180000000000);
	verify(d_out, s);

	/* in device memory */
	host.tiling = (uint64_t)(uintptr_t)d_tiling;
	OK(aclrtMemcpy(d_args, 64, &host, 32, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtLaunchKernel(add, 1, d_args, 32, s));
	verify(d_out, s);
	aclrtLaunchKernelAttr attr = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE};
	aclrtLaunchKernelCfg cfg = {&attr, 1};
	OK(aclrtLaunchKernelV2(add, 65535, d_args, 32, &cfg, s));
	verify(d_out, s);
	WANT(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchKernel(add, 65536, d_args, 32, s));
	WANT(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchKernel(add, 0, d_args, 32, s));

	/* in lists, in the runtime's memory and in the program's */
	for (int own = 0; own < 2; own++) {
		aclrtArgsHandle list;
		aclrtParamHandle p, ph;
		void *buffer, *handle_memory = NULL, *block = NULL;
		size_t n;

		if (own) {
			OK(aclrtKernelArgsGetHandleMemSize(add, &n));
			list = handle_memory = malloc(n);
			OK(aclrtKernelArgsGetMemSize(add, 40, &n));
			block = malloc(n);
			OK(aclrtKernelArgsInitByUserMem(add, list, block, n));
		} else {
			OK(aclrtKernelArgsInit(add, &list));
		}
		OK(aclrtKernelArgsAppend(list, &d_in, 8, &p));
		OK(aclrtKernelArgsAppend(list, &d_out, 8, &p));
		OK(aclrtKernelArgsAppendPlaceHolder(list, &ph));
		uint32_t wrong = 4;
		OK(aclrtKernelArgsAppend(list, &wrong, 4, &p));
		OK(aclrtKernelArgsGetPlaceHolderBuffer(list, ph, sizeof tiling, &buffer));
		memcpy(buffer, &tiling, sizeof tiling);
		WANT(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchKernelWithConfig(add, 2, s, NULL, list, NULL));
		OK(aclrtKernelArgsFinalize(list));
		OK(aclrtKernelArgsParaUpdate(list, p, &scale, 4));
		OK(aclrtLaunchKernelWithConfig(add, 2, s, NULL, list, NULL));
		verify(d_out, s);
		free(handle_memory);
		free(block);
	}

	/* in an array */
	void *array[] = {&d_in, &d_out, &d_tiling, &scale};
	OK(aclrtLaunchKernelWithArgsArray(add, 3, s, NULL, array));
	verify(d_out, s);
	OK(aclrtLaunchSIMTKernelWithArgsArray(add, (dim3){2, 3, 4}, (dim3){32, 1, 1}, 0, s, NULL, array));
	verify(d_out, s);
	OK(aclrtLaunchSIMTKernelWithHostArgs(add, (dim3){5, 1, 1}, (dim3){1, 1, 1}, 0, s, NULL, &host, sizeof host, NULL, 0));
	verify(d_out, s);

	size_t count, offset, size;
	OK(aclrtFunctionGetParamCount(add, &count));
	OK(aclrtFunctionGetParamInfo(add, 3, &offset, &size));
	CHECK(count == 4 && offset == 24 && size == 4);

	char who[8];
	CHECK(aclsim_unknown(d_out, 4, NULL, 0) == 0);
	OK(aclrtLaunchKernel(unknown, 1, d_args, 32, s));
	OK(aclrtSynchronizeStream(s));
	CHECK(aclsim_unknown(d_out, 4, who, sizeof who) == 1 && !strcmp(who, "test_un"));
	CHECK(aclsim_unknown(who, sizeof who, NULL, 0) == 0);

	OK(aclrtFree(d_in));
	OK(aclrtLaunchKernel(add, 1, d_args, 32, s));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	const char *text = aclGetRecentErrMsg();
	CHECK(text && strstr(text, "test_add") && strstr(text, "(in)") && strstr(text, "freed"));
	CHECK(!aclGetRecentErrMsg());
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	OK(aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	OK(aclrtDestroyStream(s));
	OK(aclrtFreeHost(pinned));
	OK(aclrtBinaryUnLoad(bin));
	WANT(ACL_ERROR_RT_INVALID_HANDLE, aclrtLaunchKernel(add, 1, d_args, 32, NULL));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	printf("%s done\n", aclrtGetSocName());
	return 0;
}
