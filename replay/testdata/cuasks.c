/* Queries, advice and settings for devices, contexts, functions, managed memory, pools, mapped memory, arrays, graphs.
 * Built twice: with KERNEL as the kernel alone, for the fake driver. */
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* out[0] = the first value of the tensor in a map */
void first(const struct fakecuda_launch *l)
{
	struct fakecuda_tensor t;
	uint64_t out;
	memcpy(&out, l->params[1], sizeof out);
	if (!l->tensor(l->params[0], &t))
		return;
	uint8_t *from = l->memory(t.address, 1), *to = l->memory(out, 1);
	if (from && to)
		*to = *from;
}
#else
#include <cuda.h>
#include <stdint.h>
#include <string.h>

#include "must.h"

enum { N = 4096, UNIT = 2 << 20 };

static const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

static void devices(void)
{
	CUdevprop p;
	CUdevice d = 7;
	char id[32];
	size_t n = 0;
	MUST(cuDeviceGetProperties(&p, 0) == 0 && p.SIMDWidth == 32 && cuDeviceGetTexture1DLinearMaxWidth(&n, CU_AD_FORMAT_FLOAT, 4, 0) == 0 && n > 0);
	MUST(cuDeviceGetPCIBusId(id, sizeof id, 0) == 0 && cuDeviceGetByPCIBusId(&d, id) == 0 && d == 0 && cuDeviceGetByPCIBusId(&d, "0000:77:00.0") == CUDA_ERROR_INVALID_DEVICE);
}

static void contexts(CUcontext ctx)
{
	CUdevice d = 7;
	CUevent e;
	CUstream s, later;
	CUsharedconfig banks;
	uint64_t id, other;
	uint8_t out[8], back[8];
	CUdeviceptr p;
	memset(out, 3, sizeof out);
	MUST(cuCtxGetDevice_v2(&d, ctx) == 0 && d == 0 && cuCtxGetDevice_v2(&d, NULL) == 0 && cuCtxGetDevice_v2(&d, (CUcontext)&d) == CUDA_ERROR_INVALID_CONTEXT);
	MUST(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) == 0 && cuCtxGetSharedMemConfig(&banks) == 0 && banks == CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuEventCreate(&e, CU_EVENT_DISABLE_TIMING) == 0 && cuMemAlloc(&p, 8) == 0);
	MUST(cuStreamGetDevice(s, &d) == 0 && d == 0 && cuStreamGetId(s, &id) == 0 && cuStreamGetId(NULL, &other) == 0 && id != other);
	MUST(cuMemcpyHtoDAsync(p, out, 8, s) == 0 && cuCtxRecordEvent(ctx, e) == 0 && cuCtxWaitEvent(ctx, e) == 0 && cuStreamCreate(&later, CU_STREAM_NON_BLOCKING) == 0);
	MUST(cuMemcpyDtoHAsync(back, p, 8, later) == 0 && cuCtxSynchronize_v2(ctx) == 0 && memcmp(out, back, 8) == 0);
	CUlaunchAttributeValue v = {.priority = -3};
	MUST(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v) == 0 && cuStreamCopyAttributes(later, s) == 0);
	v.priority = 0;
	MUST(cuStreamGetAttribute(later, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v) == 0 && v.priority == -3 && cuMemFree(p) == 0);
}

static CUfunction functions(CUdeviceptr at)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry first(.param .align 64 .b8 map[128], .param .u64 out)\n{\n\tret;\n}\n";
	CUmodule m, same;
	CUfunction f, listed;
	CUlibrary lib, back;
	CUkernel k;
	CUmoduleLoadingMode mode;
	CUfunctionLoadingState state;
	const char *name = "";
	unsigned n = 0;
	int v;
	size_t bytes;
	MUST(cuModuleGetLoadingMode(&mode) == 0 && cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&f, m, "first") == 0);
	MUST(cuFuncGetName(&name, f) == 0 && strcmp(name, "first") == 0 && cuFuncGetModule(&same, f) == 0 && same == m && cuFuncLoad(f) == 0);
	MUST(cuFuncIsLoaded(&state, f) == 0 && state == CU_FUNCTION_LOADING_STATE_LOADED);
	MUST(cuModuleGetFunctionCount(&n, m) == 0 && n == 1 && cuModuleEnumerateFunctions(&listed, 1, m) == 0 && listed == f);
	MUST(cuLibraryLoadData(&lib, ptx, NULL, NULL, 0, NULL, NULL, 0) == 0 && cuLibraryGetKernelCount(&n, lib) == 0 && n == 1 && cuLibraryGetKernel(&k, lib, "first") == 0);
	MUST(cuKernelGetLibrary(&back, k) == 0 && back == lib && cuKernelGetName(&name, k) == 0 && strcmp(name, "first") == 0);
	MUST(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, 0) == 0 && v > 0 && cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 15, k, 0) == 0);
	MUST(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, 2, 128) == 0 && bytes > 0 && cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&v, f, 128, 0, 0) == 0 && v > 0);
	CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
	CUlaunchConfig c = {.gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .attrs = &a, .numAttrs = 1};
	MUST(cuOccupancyMaxPotentialClusterSize(&v, f, &c) == 0 && v > 0 && cuOccupancyMaxActiveClusters(&v, f, &c) == 0 && v > 0);

	_Alignas(64) CUtensorMap map;
	uint64_t dims[2] = {16, 16}, strides[1] = {16};
	uint32_t box[2] = {16, 1}, steps[2] = {1, 1};
	MUST(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)at, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
				    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == 0);
	CUdeviceptr out = at + 1024;
	uint8_t got = 0;
	void *params[] = {&map, &out};
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == 0 && cuMemcpyDtoH(&got, out, 1) == 0 && got == 42);
	return f;
}

static void memory(void)
{
	CUdeviceptr managed, at, p;
	CUmemGenericAllocationHandle h, same;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here}, told;
	CUmemAccessDesc access = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	CUmemoryPool pool, got;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
	uint64_t flags = 9, threshold = 1 << 20, used = 0;
	int is = 9, ordinal = 9, v = 9;
	void *values[] = {&is, &ordinal};
	uint8_t out[N], back[N];
	memset(out, 9, N);
	MUST(cuMemAllocManaged(&managed, N, CU_MEM_ATTACH_GLOBAL) == 0 && cuMemAdvise(managed, N, CU_MEM_ADVISE_SET_READ_MOSTLY, 0) == 0);
	MUST(cuMemAdvise_v2(managed, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here) == 0 && cuMemPrefetchAsync(managed, N, 0, NULL) == 0 && cuMemPrefetchAsync_v2(managed, N, here, 0, NULL) == 0);
	MUST(cuMemRangeGetAttribute(&v, sizeof v, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, N) == 0 && v == 1);
	MUST(cuMemRangeGetAttribute(&v, sizeof v, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed, N) == 0 && v == 0);
	MUST(cuStreamAttachMemAsync(NULL, managed, 0, CU_MEM_ATTACH_GLOBAL) == 0 && cuPointerGetAttributes(2, attributes, values, managed) == 0 && is == 1 && ordinal == 0);
	/* Of several ranges the first is discarded, and another keeps its content. */
	CUdeviceptr many[3] = {managed, managed + 1024, managed + 2048};
	size_t sizes[3] = {512, 512, 1024}, from[2] = {0, 2};
	CUmemLocation to[2] = {{CU_MEM_LOCATION_TYPE_HOST, 0}, here};
	CUstream s;
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuMemsetD8Async(managed, 6, N, s) == 0 && cuMemPrefetchBatchAsync(many, sizes, 3, to, from, 2, 0, s) == 0);
	MUST(cuMemRangeGetAttribute(&v, sizeof v, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed, N) == 0 && v == 0);
	MUST(cuMemDiscardBatchAsync(many, sizes, 1, 0, s) == 0 && cuMemDiscardAndPrefetchBatchAsync(many + 1, sizes, 1, to + 1, from, 1, 0, s) == 0);
	MUST(cuMemDiscardBatchAsync(many, sizes, 1, 0, NULL) == CUDA_ERROR_INVALID_VALUE && cuMemsetD8Async(managed, 7, 1536, s) == 0);
	MUST(cuMemcpyDtoHAsync(back, managed, N, s) == 0 && cuStreamSynchronize(s) == 0 && back[0] == 7 && back[1535] == 7 && back[1536] == 6 && back[N - 1] == 6);
	MUST(cuMemFree(managed) == 0 && cuMemAdvise(managed, N, CU_MEM_ADVISE_SET_READ_MOSTLY, 0) == CUDA_ERROR_INVALID_VALUE);

	/* A handle that is retained once more must be released once more. */
	MUST(cuMemCreate(&h, UNIT, &prop, 0) == 0 && cuMemAddressReserve(&at, UNIT, 0, 0, 0) == 0 && cuMemMap(at, UNIT, 0, h, 0) == 0 && cuMemSetAccess(at, UNIT, &access, 1) == 0);
	MUST(cuMemGetAccess(&flags, &here, at) == 0 && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE && cuMemGetAllocationPropertiesFromHandle(&told, h) == 0 && told.location.id == 0);
	MUST(cuMemRetainAllocationHandle(&same, (void *)(at + 100)) == 0 && same == h && cuMemRelease(h) == 0 && cuMemGetAllocationPropertiesFromHandle(&told, h) == 0);
	MUST(cuMemRelease(same) == 0 && cuMemRelease(h) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuMemcpyHtoD(at, out, N) == 0 && cuMemcpyDtoH(back, at, N) == 0 && memcmp(out, back, N) == 0);
	MUST(cuMemUnmap(at, UNIT) == 0 && cuMemAddressFree(at, UNIT) == 0);

	MUST(cuMemPoolCreate(&pool, &props) == 0 && cuDeviceSetMemPool(0, pool) == 0 && cuDeviceGetMemPool(&got, 0) == 0 && got == pool);
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == 0 && cuMemAllocAsync(&p, N, NULL) == 0);
	MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == 0 && used >= N && cuMemFreeAsync(p, NULL) == 0 && cuCtxSynchronize() == 0);
	MUST(cuMemPoolTrimTo(pool, 0) == 0 && cuDeviceGetDefaultMemPool(&got, 0) == 0 && got != pool && cuDeviceSetMemPool(0, got) == 0 && cuMemPoolDestroy(pool) == 0);
}

static void arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR as = {.Width = 256, .Height = 0, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	CUarray a, b;
	CUdeviceptr p;
	CUstream s;
	uint8_t out[256], back[256];
	for (int i = 0; i < 256; i++)
		out[i] = (uint8_t)i;
	MUST(cuArrayCreate(&a, &as) == 0 && cuArrayCreate(&b, &as) == 0 && cuMemAlloc(&p, 256) == 0 && cuStreamCreate(&s, 0) == 0);
	MUST(cuMemcpyHtoD(p, out, 256) == 0 && cuMemcpyDtoA(a, 0, p, 256) == 0 && cuMemcpyAtoA(b, 128, a, 0, 128) == 0 && cuMemcpyHtoAAsync(b, 0, out + 128, 128, s) == 0);
	MUST(cuMemcpyAtoD(p, b, 64, 128) == 0 && cuMemcpyDtoH(back, p, 128) == 0 && back[0] == 192 && back[64] == 0);
	MUST(cuMemcpyAtoHAsync(back, b, 0, 256, s) == 0 && cuStreamSynchronize(s) == 0 && memcmp(back, out + 128, 128) == 0 && memcmp(back + 128, out, 128) == 0);
	MUST(cuArrayDestroy(a) == 0 && cuArrayDestroy(b) == 0 && cuMemFree(p) == 0);
}

static void graphs(void)
{
	CUgraph g;
	CUgraphNode n[3], found[3], to[3];
	CUgraphExec x;
	CUdeviceptr p;
	CUstream s;
	uint32_t enabled = 9, back[2];
	size_t count = 3;
	CUcontext ctx;
	MUST(cuCtxGetCurrent(&ctx) == 0 && cuMemAlloc(&p, 8) == 0 && cuMemsetD32(p, 1, 2) == 0 && cuGraphCreate(&g, 0) == 0 && cuStreamCreate(&s, 0) == 0);
	for (unsigned i = 0; i < 3; i++) {
		CUDA_MEMSET_NODE_PARAMS set = {.dst = p, .value = 5 + i, .elementSize = 4, .width = 1, .height = 1};
		MUST(cuGraphAddMemsetNode(&n[i], g, i ? &n[i - 1] : NULL, i ? 1 : 0, &set, ctx) == 0);
	}
	MUST(cuGraphGetRootNodes(g, found, &count) == 0 && count == 1 && found[0] == n[0] && (count = 3, cuGraphGetEdges(g, found, to, &count)) == 0 && count == 2 && to[1] == n[2]);
	MUST((count = 3, cuGraphNodeGetDependencies(n[1], found, &count)) == 0 && count == 1 && found[0] == n[0] && (count = 3, cuGraphNodeGetDependentNodes(n[1], found, &count)) == 0 && count == 1);
	MUST(cuGraphRemoveDependencies(g, &n[1], &n[2], 1) == 0 && cuGraphAddDependencies_v2(g, &n[1], &n[2], NULL, 1) == 0 && cuGraphDestroyNode(n[2]) == 0);
	MUST(cuGraphInstantiateWithFlags(&x, g, 0) == 0 && cuGraphNodeGetEnabled(x, n[1], &enabled) == 0 && enabled == 1);
	MUST(cuGraphLaunch(x, s) == 0 && cuStreamSynchronize(s) == 0 && cuMemcpyDtoH(back, p, 8) == 0 && back[0] == 6 && back[1] == 1);
	/* Captured tasks are nodes of their type. */
	CUgraphNodeType type;
	CUstreamBatchMemOpParams ops[2] = {{.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = p, .value = 11}}, {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = p, .value = 11}}};
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == 0 && cuMemsetD32Async(p, 8, 1, s) == 0 && cuStreamEndCapture(s, &g) == 0);
	MUST((count = 1, cuGraphGetNodes(g, found, &count)) == 0 && cuGraphNodeGetType(found[0], &type) == 0 && type == CU_GRAPH_NODE_TYPE_MEMSET);
	MUST(cuStreamBatchMemOp(s, 2, ops, 0) == 0 && cuStreamSynchronize(s) == 0 && cuMemcpyDtoH(back, p, 8) == 0 && back[0] == 11);
}

/* Functions of CUDA 8 to 11 for the thread's own default stream. Later functions have replaced them. */
static void older(void)
{
	CUdeviceptr p;
	CUgraph g;
	CUgraphExec x;
	CUstreamCaptureStatus status;
	CUstream s;
	uint64_t id, back[2];
	MUST(cuMemAlloc(&p, 16) == 0 && cuMemsetD32(p, 0, 4) == 0 && cuStreamCreate(&s, 0) == 0);
	CUstreamBatchMemOpParams op = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = p + 4, .value = 7}};
	MUST(cuStreamWriteValue32_ptsz(NULL, p, 5, 0) == 0 && cuStreamWaitValue32_ptsz(NULL, p, 5, CU_STREAM_WAIT_VALUE_EQ) == 0 && cuStreamBatchMemOp_ptsz(NULL, 1, &op, 0) == 0);
	MUST(cuStreamWriteValue64_ptsz(NULL, p + 8, 6, 0) == 0 && cuStreamWaitValue64_ptsz(NULL, p + 8, 6, CU_STREAM_WAIT_VALUE_EQ) == 0 && cuStreamSynchronize_ptsz(NULL) == 0);
	MUST(cuMemcpyDtoH(back, p, 16) == 0 && back[0] == (5 | 7ULL << 32) && back[1] == 6);
	MUST(cuStreamBeginCapture_ptsz(s) == 0 && cuMemsetD32Async(p, 9, 1, s) == 0 && cuStreamGetCaptureInfo_ptsz(s, &status, &id) == 0 && status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	MUST(cuStreamEndCapture(s, &g) == 0 && cuGraphInstantiateWithFlags(&x, g, 0) == 0 && cuGraphLaunch(x, s) == 0 && cuStreamSynchronize(s) == 0);
	MUST(cuMemcpyDtoH(back, p, 16) == 0 && back[0] == (9 | 7ULL << 32));
}

int main(void)
{
	CUcontext ctx;
	CUdeviceptr at;
	unsigned flags;
	int active = 9;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	devices();
	contexts(ctx);
	MUST(cuMemAlloc(&at, N) == 0 && cuMemsetD8(at, 42, N) == 0);
	functions(at);
	memory();
	arrays();
	graphs();
	older();
	/* The reset destroys everything in the context; the next retain makes a new one. */
	MUST(cuDevicePrimaryCtxReset(0) == 0 && cuMemFree(at) != 0 && cuDevicePrimaryCtxGetState(0, &flags, &active) == 0 && active == 0);
	MUST(cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0 && cuMemAlloc(&at, N) == 0 && cuMemsetD8(at, 1, N) == 0 && cuMemFree(at) == 0);
	return 0;
}
#endif
