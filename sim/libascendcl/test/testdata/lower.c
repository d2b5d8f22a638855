/*
 * A job as frameworks on CANN 8 run one: the lower library is opened by name, kernels are registered under stubs or by binary, and every
 * launch, copy and event goes through rt* functions. aclInit is never called.
 */
#include <dlfcn.h>

#include "test.h"

#include "rt_gen.h"

enum { N = 1000, BYTES = 4 * N };

#define RT(name) __typeof__(name) *name##_ = (__typeof__(name) *)(uintptr_t)dlsym(lib, #name)
#define GO(call) WANT(0, call)

static const char stub, count_stub;
static int host_table[4], host_zeros[100];
static uint32_t in[N], out[N];

static char *slurp(const char *path, long *n)
{
	FILE *f = fopen(path, "rb");
	char *b;

	CHECK(f && !fseek(f, 0, SEEK_END) && (*n = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET));
	b = malloc((size_t)*n);
	CHECK(fread(b, 1, (size_t)*n, f) == (size_t)*n);
	fclose(f);
	return b;
}

int main(int argc, char **argv)
{
	void *lib = dlopen("libruntime.so", RTLD_NOW);
	struct {
		void *in, *out;
		uint64_t tiling;
		uint32_t scale, pad;
		uint32_t data[2];
	} args = {0};
	void *d_in, *d_out, *d_tiling, *d_count, *bin, *all, *found;
	rtStream_t s, s2;
	rtEvent_t ev;
	uint64_t counter = 0, sync;
	uint32_t task, stream_number, len;
	int32_t id, devices;
	char soc[32];
	long size;
	char *data;
	rtDevBinary_t b;

	CHECK(argc == 2 && lib);
	RT(rtSetDevice); RT(rtGetDevice); RT(rtDeviceReset); RT(rtGetDeviceCount); RT(rtGetSocVersion); RT(rtGetC2cCtrlAddr);
	RT(rtStreamCreate); RT(rtStreamDestroy); RT(rtStreamSynchronize); RT(rtStreamQuery); RT(rtGetStreamId); RT(rtGetTaskIdAndStreamID);
	RT(rtEventCreate); RT(rtEventRecord); RT(rtEventQuery); RT(rtEventDestroy); RT(rtStreamWaitEvent);
	RT(rtMalloc); RT(rtFree); RT(rtMemcpy); RT(rtMemcpyAsync); RT(rtMemset);
	RT(rtDevBinaryRegister); RT(rtDevBinaryUnRegister); RT(rtRegisterAllKernel); RT(rtFunctionRegister); RT(rtQueryFunctionRegistered);
	RT(rtGetFunctionByName); RT(rtRegisterFuncSymbol); RT(rtRegisterVariable);
	RT(rtKernelLaunch); RT(rtKernelLaunchWithFlagV2); RT(rtKernelLaunchWithHandleV2); RT(rtCCULaunch);

	/* Kernels are registered before any device is set, as static constructors do it. */
	data = slurp(argv[1], &size);
	b = (rtDevBinary_t){.magic = 0x43554245, .data = data, .length = (uint64_t)size};
	GO(rtDevBinaryRegister_(&b, &bin));
	WANT(ACL_ERROR_RT_KERNEL_LOOKUP, rtFunctionRegister_(bin, &stub, "add_stub", "test_missing", 0));
	GO(rtFunctionRegister_(bin, &stub, "add_stub", "test_add", 0));
	WANT(ACL_ERROR_RT_KERNEL_DUPLICATE, rtFunctionRegister_(bin, &stub, "add_stub", "test_add", 0));
	GO(rtFunctionRegister_(bin, &count_stub, "test_count", NULL, 0));
	GO(rtQueryFunctionRegistered_("add_stub"));
	WANT(ACL_ERROR_RT_KERNEL_LOOKUP, rtQueryFunctionRegistered_("other"));
	GO(rtGetFunctionByName_("add_stub", &found));
	CHECK(found == &stub);
	GO(rtRegisterAllKernel_(&b, &all));

	WANT(ACL_ERROR_RT_CONTEXT_NULL, rtMalloc_(&d_in, BYTES, 0, 0));
	GO(rtSetDevice_(0));
	GO(rtGetDevice_(&id));
	GO(rtGetDeviceCount_(&devices));
	GO(rtGetSocVersion_(soc, sizeof soc));
	CHECK(id == 0 && devices >= 1 && !strncmp(soc, "Ascend910B", 10));
	GO(rtGetC2cCtrlAddr_(&sync, &len));
	CHECK(sync && len);
	GO(rtStreamCreate_(&s, 0));
	GO(rtStreamCreate_(&s2, 0));
	GO(rtEventCreate_(&ev));
	for (int i = 0; i < N; i++)
		in[i] = i * i;
	GO(rtMalloc_(&d_in, BYTES, 2, 0));
	GO(rtMalloc_(&d_out, BYTES, 2, 0));
	GO(rtMalloc_(&d_tiling, 8, 2, 0));
	GO(rtMalloc_(&d_count, 8, 2, 0));
	GO(rtMemset_(d_count, 8, 0, 8));
	GO(rtMemcpy_(d_in, BYTES, in, BYTES, RT_MEMCPY_HOST_TO_DEVICE));
	args.data[0] = N;
	args.data[1] = 5;
	GO(rtMemcpy_(d_tiling, 8, args.data, 8, RT_MEMCPY_HOST_TO_DEVICE));

	/* by a stub, with all addresses known */
	args.in = d_in;
	args.out = d_out;
	args.tiling = (uint64_t)(uintptr_t)d_tiling;
	args.scale = 3;
	GO(rtKernelLaunch_(&stub, 8, &args, 32, NULL, s));
	GO(rtGetTaskIdAndStreamID_(&task, &stream_number));
	GO(rtGetStreamId_(s, &id));
	CHECK((uint32_t)id == stream_number);
	WANT(ACL_ERROR_RT_KERNEL_LOOKUP, rtKernelLaunch_(&in, 8, &args, 32, NULL, s));
	GO(rtStreamSynchronize_(s));
	GO(rtStreamQuery_(s));
	GO(rtMemcpy_(out, BYTES, d_out, BYTES, RT_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < N; i++)
		CHECK(out[i] == in[i] * 3 + 5);

	/* by a binary and a tiling key, with tiling data after the arguments; then by a stub with a configuration */
	args.scale = 7;
	rtArgsEx_t ex = {.args = &args, .argsSize = sizeof args, .tilingAddrOffset = 16, .tilingDataOffset = 32, .hasTiling = 1};
	GO(rtKernelLaunchWithHandleV2_(all, 7, 8, &ex, NULL, s, NULL));
	CHECK(args.tiling >= 0x100000000000 && args.tiling < 0x180000000000);
	GO(rtMemcpyAsync_(d_in, BYTES, d_out, BYTES, RT_MEMCPY_DEVICE_TO_DEVICE, s));
	GO(rtEventRecord_(ev, s));
	GO(rtStreamWaitEvent_(s2, ev));
	ex.argsSize = 8;
	ex.hasTiling = 0;
	ex.args = &d_count;
	for (int i = 0; i < 100; i++)
		GO(rtKernelLaunchWithFlagV2_(&count_stub, 1, &ex, NULL, s2, 0, NULL));
	GO(rtStreamSynchronize_(s2));
	GO(rtEventQuery_(ev));
	GO(rtMemcpy_(&counter, 8, d_count, 8, RT_MEMCPY_DEVICE_TO_HOST));
	CHECK(counter == 100);
	GO(rtMemcpy_(out, BYTES, d_in, BYTES, RT_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < N; i++)
		CHECK(out[i] == in[i] * 7 + 5);

	/* registrations by a compiler of mixed sources: kernels and variables by their names in the host part */
	rtRegisterVariable_(bin, host_table, "test_table", sizeof host_table, 0, NULL);
	rtRegisterVariable_(bin, host_zeros, "test_zeros", sizeof host_zeros, 0, NULL);
	GO(rtRegisterFuncSymbol_(bin, &in, "test_add", NULL));
#ifdef SYMBOLS
	size_t bytes;
	void *at;
	aclrtFuncHandle f;
	int back[4], more[2] = {8, 9};

	OK(aclInit(NULL));
	OK(aclrtGetSymbolSize(host_table, &bytes));
	CHECK(bytes == 16);
	OK(aclrtMemcpyFromSymbol(back, sizeof back, host_table, 16, 0, ACL_MEMCPY_DEFAULT));
	CHECK(back[0] == 1 && back[3] == 4);
	WANT(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyFromSymbol(back, sizeof back, host_table, 16, 4, ACL_MEMCPY_DEFAULT));
	WANT(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyFromSymbol(back, sizeof back, host_table, 16, 0, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtMemcpyToSymbolAsync(host_zeros, more, 8, 392, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
	OK(aclrtMemcpyToSymbol(host_table, more, 8, 8, ACL_MEMCPY_DEFAULT));
	OK(aclrtMemcpyFromSymbolAsync(back, sizeof back, host_zeros, 12, 388, ACL_MEMCPY_DEVICE_TO_HOST, NULL));
	CHECK(back[0] == 0 && back[1] == 8 && back[2] == 9);
	OK(aclrtGetSymbolAddress(host_table, &at));
	OK(aclrtMemcpy(back, 16, at, 16, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(back[1] == 2 && back[2] == 8 && back[3] == 9);
	WANT(ACL_ERROR_RT_INVALID_SYMBOL, aclrtGetSymbolAddress(&in, &at));
	OK(aclrtGetFuncBySymbol(&in, &f));
	WANT(ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, aclrtGetFuncBySymbol(host_table, &f));
	OK(aclrtBinaryGetGlobal(bin, "test_zeros", &at, &bytes));
	CHECK(bytes == 400);
	OK(aclrtBinaryGetGlobal(bin, "test_zeros", NULL, &bytes));
	WANT(ACL_ERROR_INVALID_PARAM, aclrtBinaryGetGlobal(bin, "test_zeros", NULL, NULL));
	WANT(ACL_ERROR_RT_SYMBOL_NOT_FOUND, aclrtBinaryGetGlobal(bin, "test_add", &at, &bytes));
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, rtCCULaunch_(NULL, s));
#else
	CHECK(rtCCULaunch_ && rtGetFunctionByName_);
	(void)host_table, (void)host_zeros;
#endif
	GO(rtEventDestroy_(ev));
	GO(rtStreamDestroy_(s2));
	GO(rtStreamDestroy_(s));
	GO(rtFree_(d_in));
	GO(rtFree_(d_out));
	GO(rtFree_(d_tiling));
	GO(rtFree_(d_count));
	GO(rtDevBinaryUnRegister_(all));
	GO(rtDevBinaryUnRegister_(bin));
	WANT(ACL_ERROR_RT_INVALID_HANDLE, rtKernelLaunch_(&stub, 8, &args, 32, NULL, NULL));
	GO(rtDeviceReset_(0));
	return 0;
}
