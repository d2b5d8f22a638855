/*
 * Common uses of the CUDA driver API, one case each: every way to load a module, every kind of copy, every launch attribute,
 * captured graphs. Without arguments all cases run; a name runs one case, and --list prints the names. A case that the device
 * does not support is reported and passes. --work N runs N steps with a hundred launches and a copy each way, and prints their time. --hold
 * keeps a context until the end of input, so the device is not initialized for each program.
 * Runs on a GPU and on the fake driver.
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

enum { N = 1000, BYTES = 4 * N, BLOCK = 128, GRID = 8 };

static bool cant;

static void check(CUresult e, const char *what)
{
	if (e == CUDA_SUCCESS)
		return;
	const char *name = NULL;
	cuGetErrorName(e, &name);
	fprintf(stderr, "%s: %s\n", what, name ? name : "?");
	exit(1);
}
#define DO(call) check(call, #call)
/* Ends a case that the device does not support. */
#define TRY(call)                                                                                                          \
	do {                                                                                                               \
		CUresult e_ = (call);                                                                                      \
		if (e_ == CUDA_ERROR_INVALID_VALUE)                                                                         \
			fprintf(stderr, "%s: CUDA_ERROR_INVALID_VALUE\n", #call);                                              \
		if (e_ == CUDA_ERROR_INVALID_VALUE || e_ == CUDA_ERROR_NOT_SUPPORTED || e_ == CUDA_ERROR_INVALID_CLUSTER_SIZE || e_ == CUDA_ERROR_NO_BINARY_FOR_GPU) {           \
			cant = true;                                                                                       \
			return;                                                                                            \
		}                                                                                                          \
		check(e_, #call);                                                                                          \
	} while (0)

static CUdevice device;
static CUcontext context;
static CUmodule module;
static CUfunction add;
static float a[N], b[N], c[N];

struct data { CUdeviceptr a, b, c; };

static struct data bring(void)
{
	struct data d;
	for (int i = 0; i < N; i++)
		a[i] = (float)i, b[i] = (float)(2 * i);
	DO(cuMemAlloc(&d.a, BYTES));
	DO(cuMemAlloc(&d.b, BYTES));
	DO(cuMemAlloc(&d.c, BYTES));
	DO(cuMemcpyHtoD(d.a, a, BYTES));
	DO(cuMemcpyHtoD(d.b, b, BYTES));
	DO(cuMemsetD8(d.c, 0, BYTES));
	return d;
}

static void expect(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "wrong: %s\n", what);
	exit(1);
}

static void compare(struct data d)
{
	memset(c, 0, sizeof c);
	DO(cuMemcpyDtoH(c, d.c, BYTES));
	for (int i = 0; i < N; i++)
		expect(c[i] == a[i] + b[i], "a sum");
	DO(cuMemFree(d.a));
	DO(cuMemFree(d.b));
	DO(cuMemFree(d.c));
}

static void launch_with(CUfunction f, struct data d, CUstream s)
{
	uint32_t n = N;
	void *params[] = {&d.a, &d.b, &d.c, &n};
	DO(cuLaunchKernel(f, GRID, 1, 1, BLOCK, 1, 1, 0, s, params, NULL));
}

/* ---- ways to load ---- */

static void run_module(CUmodule m)
{
	CUfunction f;
	DO(cuModuleGetFunction(&f, m, "add"));
	struct data d = bring();
	launch_with(f, d, NULL);
	compare(d);
	DO(cuModuleUnload(m));
}

static void load_data(void)
{
	CUmodule m;
	DO(cuModuleLoadData(&m, ptx));
	run_module(m);
}

static void load_options(void)
{
	char log[256] = "";
	CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)sizeof log};
	CUmodule m;
	DO(cuModuleLoadDataEx(&m, ptx, 2, options, values));
	run_module(m);
}

static void load_file(void)
{
	char name[] = "/tmp/acltrace-cuda-XXXXXX.ptx";
	snprintf(name, sizeof name, "/tmp/acltrace-cuda-%06u.ptx", (unsigned)rand() % 1000000);
	FILE *f = fopen(name, "w");
	expect(f && fwrite(ptx, 1, sizeof ptx - 1, f) == sizeof ptx - 1, "a file");
	fclose(f);
	CUmodule m;
	DO(cuModuleLoad(&m, name));
	remove(name);
	run_module(m);
}

/* A fat binary with PTX, uncompressed. */
static void load_fat(void)
{
	static struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t size;
		uint16_t kind, entry_version;
		uint32_t entry_header;
		uint64_t body;
		uint32_t rest[18];
		char ptx[(sizeof ptx + 7) / 8 * 8];
	} fat = {0xba55ed50, 1, 16, 88 + sizeof fat.ptx, 1, 0x101, 88, sizeof fat.ptx, {[1] = 72 /* options */, [2] = 7 << 16, [3] = 70, [6] = 0x11 /* of 64 bits, for Linux */, [14] = 80}, ""};
	static const struct { uint32_t magic, version; const void *data; void *name; } wrapper = {0x466243b1, 1, &fat, NULL};
	memcpy(fat.ptx, ptx, sizeof ptx);
	CUmodule m;
	TRY(cuModuleLoadFatBinary(&m, &wrapper));
	run_module(m);
}

static void load_library(void)
{
	CUlibrary l;
	CUkernel k;
	CUfunction f;
	TRY(cuLibraryLoadData(&l, ptx, NULL, NULL, 0, NULL, NULL, 0));
	DO(cuLibraryGetKernel(&k, l, "add"));
	struct data d = bring();
	launch_with((CUfunction)k, d, NULL); /* a kernel may stand for its function */
	compare(d);
	DO(cuKernelGetFunction(&f, k));
	d = bring();
	launch_with(f, d, NULL);
	compare(d);
	CUmodule m;
	DO(cuLibraryGetModule(&m, l)); /* unloaded with the library */
	DO(cuModuleGetFunction(&f, m, "add"));
	d = bring();
	launch_with(f, d, NULL);
	compare(d);
	DO(cuLibraryUnload(l));
}

static void variable(void)
{
	CUdeviceptr at;
	size_t size;
	uint32_t there[16], back[16];
	DO(cuModuleGetGlobal(&at, &size, module, "table"));
	expect(size == sizeof there, "the size of a variable");
	for (int i = 0; i < 16; i++)
		there[i] = (uint32_t)i;
	DO(cuMemcpyHtoD(at, there, size));
	DO(cuMemcpyDtoH(back, at, size));
	expect(memcmp(there, back, size) == 0, "a variable");
	memset(there, 0, sizeof there);
	DO(cuMemcpyHtoD(at, there, size));
}

/* ---- ways to launch ---- */

static void packed(void)
{
	struct data d = bring();
	struct { CUdeviceptr a, b, c; uint32_t n; } block = {d.a, d.b, d.c, N};
	size_t size = sizeof block;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	DO(cuLaunchKernel(add, GRID, 1, 1, BLOCK, 1, 1, 0, NULL, NULL, extra));
	compare(d);
}

/* More arguments than most kernels have. */
static void many(void)
{
	CUfunction f;
	CUdeviceptr out;
	uint32_t values[30], got = 0, want = 0;
	void *params[31] = {&out};
	DO(cuModuleGetFunction(&f, module, "sum"));
	DO(cuMemAlloc(&out, sizeof got));
	for (uint32_t i = 0; i < 30; i++) {
		values[i] = 3 * i + 1;
		params[i + 1] = &values[i];
		want += values[i];
	}
	for (int k = 0; k < 2; k++) {
		DO(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		DO(cuMemcpyDtoH(&got, out, sizeof got));
		expect(got == want, "the sum of many arguments");
		values[29]++, want++;
	}
	DO(cuMemFree(out));
}

static void cooperative(void)
{
	struct data d = bring();
	uint32_t n = N;
	void *params[] = {&d.a, &d.b, &d.c, &n};
	DO(cuLaunchCooperativeKernel(add, GRID, 1, 1, BLOCK, 1, 1, 0, NULL, params));
	compare(d);
}

/* The same bytes in each run, those between the fields too. */
static void configure(CUlaunchConfig *c, CUstream s, CUlaunchAttribute *at)
{
	memset(c, 0, sizeof *c);
	c->gridDimX = GRID, c->gridDimY = c->gridDimZ = 1;
	c->blockDimX = BLOCK, c->blockDimY = c->blockDimZ = 1;
	c->hStream = s, c->attrs = at, c->numAttrs = 1;
}

static void with_attribute(CUlaunchAttribute at)
{
	struct data d = bring();
	uint32_t n = N;
	void *params[] = {&d.a, &d.b, &d.c, &n};
	CUstream s;
	DO(cuCtxSynchronize());
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	if (at.id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
		at.value.accessPolicyWindow.base_ptr = (void *)d.a;
	CUlaunchConfig config;
	configure(&config, s, &at);
	TRY(cuLaunchKernelEx(&config, add, params, NULL));
	DO(cuStreamSynchronize(s));
	DO(cuStreamDestroy(s));
	compare(d);
}

/* An attribute of streams, inherited by their launches. */
static void at_sync(void)
{
	struct data d = bring();
	CUstream s;
	CUlaunchAttributeValue v = {.syncPolicy = CU_SYNC_POLICY_YIELD};
	DO(cuCtxSynchronize());
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	DO(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
	launch_with(add, d, s);
	DO(cuStreamSynchronize(s));
	DO(cuStreamDestroy(s));
	compare(d);
}

/* An attribute for graph nodes only, set on captured launches. */
static void at_node(void)
{
	struct data d = bring();
	uint32_t n = N;
	void *params[] = {&d.a, &d.b, &d.c, &n};
	CUstream s;
	CUgraph g;
	CUgraphExec x;
	DO(cuCtxSynchronize());
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUlaunchAttribute at = {.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE};
	CUlaunchConfig config;
	configure(&config, s, &at);
	DO(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	TRY(cuLaunchKernelEx(&config, add, params, NULL));
	DO(cuStreamEndCapture(s, &g));
	DO(cuGraphInstantiate(&x, g, 0));
	DO(cuGraphLaunch(x, s));
	DO(cuStreamSynchronize(s));
	DO(cuGraphExecDestroy(x));
	DO(cuGraphDestroy(g));
	DO(cuStreamDestroy(s));
	compare(d);
}

#define ATTRIBUTE(name, what, ...)                                                                                          \
	static void name(void) { with_attribute((CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_##what, .value = {__VA_ARGS__}}); }
ATTRIBUTE(at_window, ACCESS_POLICY_WINDOW, .accessPolicyWindow = {.num_bytes = 1024, .hitRatio = 1, .hitProp = CU_ACCESS_PROPERTY_PERSISTING, .missProp = CU_ACCESS_PROPERTY_STREAMING})
ATTRIBUTE(at_cooperative, COOPERATIVE, .cooperative = 1)
ATTRIBUTE(at_cluster, CLUSTER_DIMENSION, .clusterDim = {2, 1, 1})
ATTRIBUTE(at_policy, CLUSTER_SCHEDULING_POLICY_PREFERENCE, .clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD)
ATTRIBUTE(at_serialization, PROGRAMMATIC_STREAM_SERIALIZATION, .programmaticStreamSerializationAllowed = 1)
ATTRIBUTE(at_priority, PRIORITY, .priority = -1)
ATTRIBUTE(at_domain_map, MEM_SYNC_DOMAIN_MAP, .memSyncDomainMap = {0, 1})
ATTRIBUTE(at_domain, MEM_SYNC_DOMAIN, .memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)
ATTRIBUTE(at_preferred, PREFERRED_CLUSTER_DIMENSION, .preferredClusterDim = {2, 1, 1})
ATTRIBUTE(at_carveout, PREFERRED_SHARED_MEMORY_CARVEOUT, .sharedMemCarveout = 50)
ATTRIBUTE(at_nvlink, NVLINK_UTIL_CENTRIC_SCHEDULING, .nvlinkUtilCentricScheduling = 1)
ATTRIBUTE(at_portable, PORTABLE_CLUSTER_SIZE_MODE, .portableClusterSizeMode = CU_LAUNCH_PORTABLE_CLUSTER_MODE_REQUIRE_PORTABLE)
ATTRIBUTE(at_shared, SHARED_MEMORY_MODE, .sharedMemoryMode = CU_SHARED_MEMORY_MODE_REQUIRE_PORTABLE)

static void with_event(CUlaunchAttribute at, CUevent e)
{
	if (at.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
		at.value.programmaticEvent.event = e;
	else
		at.value.launchCompletionEvent.event = e;
	with_attribute(at);
	if (!cant)
		DO(cuEventSynchronize(e));
}

static void at_event(void)
{
	CUevent e;
	DO(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	with_event((CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT}, e);
	DO(cuEventDestroy(e));
}

static void at_completion(void)
{
	CUevent e;
	DO(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	with_event((CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT}, e);
	DO(cuEventDestroy(e));
}

/* ---- copies and fills ---- */

static void copies(void)
{
	struct data d = bring();
	float *pinned, registered[N];
	CUstream s;
	DO(cuMemAllocHost((void **)&pinned, BYTES));
	DO(cuMemHostRegister(registered, sizeof registered, 0));
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	memcpy(pinned, a, BYTES);
	memset(registered, 0, sizeof registered);
	DO(cuMemcpyHtoDAsync(d.c, pinned, BYTES, s));
	DO(cuMemcpyDtoDAsync(d.b, d.c, BYTES, s));
	DO(cuMemcpyDtoHAsync(registered, d.b, BYTES, s));
	DO(cuStreamSynchronize(s));
	expect(memcmp(registered, a, BYTES) == 0, "asynchronous copies");
	memset(pinned, 0, BYTES);
	DO(cuMemcpy((CUdeviceptr)pinned, d.c, BYTES));
	expect(memcmp(pinned, a, BYTES) == 0, "a copy from device to host by its addresses");
	DO(cuMemcpyDtoD(d.c, d.a, BYTES));
	DO(cuMemcpyAsync((CUdeviceptr)pinned, d.c, BYTES / 2, s));
	CUevent e;
	DO(cuEventCreate(&e, 0));
	DO(cuEventRecord(e, s));
	DO(cuEventSynchronize(e));
	DO(cuEventDestroy(e));
	expect(memcmp(pinned, a, BYTES) == 0, "a copy that an event was waited for");
	DO(cuStreamDestroy(s));
	DO(cuMemHostUnregister(registered));
	DO(cuMemFreeHost(pinned));
	DO(cuMemcpyDtoH(c, d.c, BYTES));
	DO(cuMemFree(d.a));
	DO(cuMemFree(d.b));
	DO(cuMemFree(d.c));
}

static void rows(void)
{
	enum { WIDTH = 40, HEIGHT = 7 };
	uint8_t from[HEIGHT][64], to[HEIGHT][48];
	CUdeviceptr d;
	size_t pitch;
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < 64; x++)
			from[y][x] = (uint8_t)(y * 64 + x);
	memset(to, 0, sizeof to);
	DO(cuMemAllocPitch(&d, &pitch, WIDTH, HEIGHT, 4));
	DO(cuMemsetD2D8(d, pitch, 0xee, WIDTH, HEIGHT));
	CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = from, .srcPitch = 64, .srcXInBytes = 8, .srcY = 1,
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = d, .dstPitch = pitch, .WidthInBytes = WIDTH, .Height = HEIGHT - 1};
	DO(cuMemcpy2D(&in));
	CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = d, .srcPitch = pitch,
			     .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = to, .dstPitch = 48, .dstXInBytes = 4, .WidthInBytes = WIDTH, .Height = HEIGHT};
	DO(cuMemcpy2DUnaligned(&out));
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			expect(to[y][4 + x] == (y < HEIGHT - 1 ? from[y + 1][8 + x] : 0xee), "a copy of rows");
	DO(cuMemFree(d));
}

static void planes(void)
{
	enum { WIDTH = 16, HEIGHT = 3, DEPTH = 4 };
	uint8_t from[DEPTH][HEIGHT][WIDTH], to[DEPTH][HEIGHT][WIDTH];
	CUdeviceptr d;
	CUstream s;
	for (unsigned i = 0; i < sizeof from; i++)
		((uint8_t *)from)[i] = (uint8_t)(3 * i);
	memset(to, 0, sizeof to);
	DO(cuStreamCreate(&s, 0));
	DO(cuMemAlloc(&d, sizeof from));
	CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = from, .srcPitch = WIDTH, .srcHeight = HEIGHT,
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = d, .dstPitch = WIDTH, .dstHeight = HEIGHT, .WidthInBytes = WIDTH, .Height = HEIGHT, .Depth = DEPTH};
	DO(cuMemcpy3D(&in));
	CUDA_MEMCPY3D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = d, .srcPitch = WIDTH, .srcHeight = HEIGHT,
			     .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = to, .dstPitch = WIDTH, .dstHeight = HEIGHT, .WidthInBytes = WIDTH, .Height = HEIGHT, .Depth = DEPTH};
	DO(cuMemcpy3DAsync(&out, s));
	DO(cuStreamSynchronize(s));
	expect(memcmp(from, to, sizeof from) == 0, "a copy of planes");
	DO(cuMemFree(d));
	DO(cuStreamDestroy(s));
}

static void fills(void)
{
	uint32_t back[64];
	CUdeviceptr d;
	CUstream s;
	DO(cuStreamCreate(&s, 0));
	DO(cuMemAlloc(&d, sizeof back));
	DO(cuMemsetD32(d, 0x01020304, 64));
	DO(cuMemsetD16(d, 0x0506, 4));
	DO(cuMemsetD8(d + 8, 7, 4));
	DO(cuMemsetD32Async(d + 16, 0x0a0b0c0d, 2, s));
	DO(cuMemsetD8Async(d + 24, 0x11, 4, s));
	DO(cuStreamSynchronize(s));
	DO(cuMemcpyDtoH(back, d, sizeof back));
	expect(back[0] == 0x05060506 && back[2] == 0x07070707 && back[5] == 0x0a0b0c0d && back[6] == 0x11111111 && back[63] == 0x01020304, "fills");
	DO(cuMemFree(d));
	DO(cuStreamDestroy(s));
}

/* ---- memory ---- */

static void pools(void)
{
	CUstream s;
	CUmemoryPool p;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUdeviceptr x, y;
	uint32_t back = 0;
	DO(cuStreamCreate(&s, 0));
	DO(cuMemPoolCreate(&p, &props));
	DO(cuMemAllocAsync(&x, 4096, s));
	DO(cuMemAllocFromPoolAsync(&y, 4096, p, s));
	DO(cuMemsetD32Async(x, 42, 1, s));
	DO(cuMemcpyDtoDAsync(y, x, 4, s));
	DO(cuMemcpyDtoHAsync(&back, y, 4, s));
	DO(cuStreamSynchronize(s));
	expect(back == 42, "memory of a pool");
	DO(cuMemFreeAsync(x, s));
	DO(cuMemFreeAsync(y, s));
	DO(cuStreamSynchronize(s));
	DO(cuMemPoolDestroy(p));
	DO(cuStreamDestroy(s));
}

static void mapped(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;
	size_t unit;
	uint32_t back = 0;
	DO(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	DO(cuMemAddressReserve(&at, 2 * unit, 0, 0, 0));
	DO(cuMemCreate(&h, unit, &prop, 0));
	DO(cuMemMap(at + unit, unit, 0, h, 0));
	DO(cuMemSetAccess(at + unit, unit, &access, 1));
	DO(cuMemsetD32(at + unit, 77, 16));
	DO(cuMemcpyDtoH(&back, at + unit + 4, 4));
	expect(back == 77, "mapped memory");
	DO(cuMemUnmap(at + unit, unit));
	DO(cuMemRelease(h));
	DO(cuMemAddressFree(at, 2 * unit));
}

/* ---- streams, events, graphs ---- */

static void order(void)
{
	struct data d = bring();
	CUstream s, t;
	CUevent e;
	DO(cuCtxSynchronize());
	DO(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -1));
	DO(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	DO(cuEventCreate(&e, 0));
	launch_with(add, d, s);
	DO(cuEventRecord(e, s));
	DO(cuStreamWaitEvent(t, e, 0));
	DO(cuMemcpyDtoDAsync(d.a, d.c, BYTES, t));
	while (cuStreamQuery(t) == CUDA_ERROR_NOT_READY)
		;
	while (cuEventQuery(e) == CUDA_ERROR_NOT_READY)
		;
	DO(cuMemcpyDtoH(c, d.a, BYTES));
	for (int i = 0; i < N; i++)
		expect(c[i] == a[i] + b[i], "the order of two streams");
	DO(cuEventDestroy(e));
	DO(cuStreamDestroy(s));
	DO(cuStreamDestroy(t));
	DO(cuMemFree(d.a));
	DO(cuMemFree(d.b));
	DO(cuMemFree(d.c));
}

static void count(void *n) { ++*(int *)n; }

static void callbacks(void)
{
	int n = 0;
	CUstream s;
	DO(cuStreamCreate(&s, 0));
	for (int i = 0; i < 3; i++)
		DO(cuLaunchHostFunc(s, count, &n));
	DO(cuStreamSynchronize(s));
	expect(n == 3, "host functions");
	DO(cuStreamDestroy(s));
}

static CUDA_KERNEL_NODE_PARAMS kernel_node(struct data *d, uint32_t *n, void **params)
{
	void *list[] = {&d->a, &d->b, &d->c, n};
	memcpy(params, list, sizeof list);
	return (CUDA_KERNEL_NODE_PARAMS){.func = add, .gridDimX = GRID, .gridDimY = 1, .gridDimZ = 1, .blockDimX = BLOCK, .blockDimY = 1, .blockDimZ = 1, .kernelParams = params};
}

static CUDA_MEMCPY3D copy_node(void *to, CUdeviceptr from)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = to, .WidthInBytes = BYTES, .Height = 1, .Depth = 1};
}

static void run_graph(CUgraphExec x, CUstream s)
{
	DO(cuGraphLaunch(x, s));
	DO(cuStreamSynchronize(s));
}

/* A graph built by calls: a fill, a launch, a copy to the host, a host function; changed, cloned, and nested. */
static void nodes(void)
{
	struct data d = bring();
	struct { float *first, *second; } to;
	CUcontext ctx;
	CUstream s;
	CUevent e;
	CUgraph g, outer, clone;
	CUgraphNode fill, launch, copy, host, end, child, found, more;
	CUgraphExec x, y;
	int n = 0;
	uint32_t count_ = N;
	void *params[4];
	size_t total = 0;
	DO(cuCtxGetCurrent(&ctx));
	DO(cuCtxSynchronize());
	DO(cuMemAllocHost((void **)&to.first, BYTES));
	DO(cuMemAllocHost((void **)&to.second, BYTES));
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	DO(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	DO(cuGraphCreate(&g, 0));
	CUDA_MEMSET_NODE_PARAMS zero = {.dst = d.c, .elementSize = 4, .width = N, .height = 1};
	CUDA_KERNEL_NODE_PARAMS kernel = kernel_node(&d, &count_, params);
	CUDA_MEMCPY3D back = copy_node(to.first, d.c);
	CUDA_HOST_NODE_PARAMS fn = {count, &n};
	DO(cuGraphAddMemsetNode(&fill, g, NULL, 0, &zero, ctx));
	DO(cuGraphAddKernelNode(&launch, g, &fill, 1, &kernel));
	DO(cuGraphAddMemcpyNode(&copy, g, &launch, 1, &back, ctx));
	DO(cuGraphAddHostNode(&host, g, &copy, 1, &fn));
	DO(cuGraphAddEventRecordNode(&end, g, &host, 1, e));
	DO(cuGraphGetNodes(g, NULL, &total));
	expect(total == 5, "the number of nodes");
	DO(cuGraphInstantiate(&x, g, 0));
	memset(to.first, 0, BYTES);
	run_graph(x, s);
	DO(cuEventSynchronize(e));
	for (int i = 0; i < N; i++)
		expect(to.first[i] == a[i] + b[i], "a graph of nodes");

	/* Another place for the result, other arguments: only in the executable graph. */
	back = copy_node(to.second, d.c);
	DO(cuGraphExecMemcpyNodeSetParams(x, copy, &back, ctx));
	struct data twice = {d.a, d.a, d.c};
	kernel = kernel_node(&twice, &count_, params);
	DO(cuGraphExecKernelNodeSetParams(x, launch, &kernel));
	memset(to.second, 0, BYTES);
	run_graph(x, s);
	for (int i = 0; i < N; i++)
		expect(to.second[i] == 2 * a[i] && to.first[i] == a[i] + b[i], "nodes of an executable graph that are set");

	/* A child of another graph, after a node that changes its input; and a copy that is replaced. */
	DO(cuGraphCreate(&outer, 0));
	CUDA_MEMSET_NODE_PARAMS one = {.dst = d.b, .value = 0x3f800000, .elementSize = 4, .width = N, .height = 1};
	DO(cuGraphAddMemsetNode(&fill, outer, NULL, 0, &one, ctx));
	DO(cuGraphAddChildGraphNode(&child, outer, NULL, 0, g));
	DO(cuGraphAddDependencies(outer, &fill, &child, 1));
	DO(cuGraphAddEmptyNode(&more, outer, &child, 1));
	DO(cuGraphInstantiate(&y, outer, 0));
	memset(to.first, 0, BYTES);
	run_graph(y, s);
	for (int i = 0; i < N; i++)
		expect(to.first[i] == a[i] + 1, "a graph within a graph");
	one.value = 0x40000000;
	DO(cuGraphExecMemsetNodeSetParams(y, fill, &one, ctx));
	memset(to.first, 0, BYTES);
	run_graph(y, s);
	for (int i = 0; i < N; i++)
		expect(to.first[i] == a[i] + 2, "a fill of an executable graph that is set");
	DO(cuGraphClone(&clone, g));
	DO(cuGraphNodeFindInClone(&found, launch, clone));
	kernel = kernel_node(&twice, &count_, params);
	DO(cuGraphKernelNodeSetParams(found, &kernel));
	CUgraphExecUpdateResultInfo info;
	DO(cuGraphExecUpdate(x, clone, &info));
	memset(to.first, 0, BYTES);
	run_graph(x, s);
	for (int i = 0; i < N; i++)
		expect(to.first[i] == 2 * a[i], "an executable graph that is updated");
	expect(n == 5, "a function of the host's as a node");
	DO(cuGraphExecDestroy(x));
	DO(cuGraphExecDestroy(y));
	DO(cuGraphDestroy(clone));
	DO(cuGraphDestroy(outer));
	DO(cuGraphDestroy(g));
	DO(cuEventDestroy(e));
	DO(cuStreamDestroy(s));
	DO(cuMemFreeHost(to.first));
	DO(cuMemFreeHost(to.second));
	DO(cuMemFree(d.a));
	DO(cuMemFree(d.b));
	DO(cuMemFree(d.c));
}

/* Nodes have type tags from CUDA 12.3 on, and conditions too. Conditional launches need 12.4. */
static bool older_than(int version)
{
	int v = 0;
	DO(cuDriverGetVersion(&v));
	return cant = v < version;
}

/* The same with tagged nodes, as the CUDA runtime makes them: every type that a single program can use. */
static CUgraphNode add_node(CUgraph g, CUgraphNode after, CUgraphNodeParams p)
{
	CUgraphNode n = NULL;
	check(cuGraphAddNode_v2(&n, g, after ? &after : NULL, NULL, after ? 1 : 0, &p), "cuGraphAddNode");
	return n;
}

static void tagged(void)
{
	if (older_than(12030))
		return;
	struct data d = bring(), twice = {d.a, d.a, d.c};
	float *to;
	CUstream s;
	CUevent e, f;
	CUgraph g, outer;
	CUgraphExec x, y;
	CUgraphNode fill, launch, copy, host, end, child;
	int n = 0;
	uint32_t count_ = N, value;
	void *params[4];
	DO(cuCtxSynchronize());
	DO(cuMemAllocHost((void **)&to, BYTES));
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	DO(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	DO(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
	DO(cuGraphCreate(&g, 0));
	CUDA_KERNEL_NODE_PARAMS k = kernel_node(&d, &count_, params);
	CUgraphNodeParams kernel = {.type = CU_GRAPH_NODE_TYPE_KERNEL}, back = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	memcpy(&kernel.kernel, &k, sizeof k);
	back.memcpy.copyCtx = context;
	back.memcpy.copyParams = copy_node(to, d.c);
	CUgraphNodeParams zero = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = {.dst = d.c, .elementSize = 4, .width = N, .height = 1, .ctx = context}};
	fill = add_node(g, NULL, zero);
	launch = add_node(g, fill, kernel);
	copy = add_node(g, launch, back);
	host = add_node(g, copy, (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST, .host = {count, &n}});
	end = add_node(g, host, (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {e}});
	DO(cuGraphInstantiate(&x, g, 0));
	memset(to, 0, BYTES);
	run_graph(x, s);
	DO(cuEventSynchronize(e));
	for (int i = 0; i < N; i++)
		expect(to[i] == a[i] + b[i], "a graph of nodes by tag");

	/* Set anew: in the executable graph, then in the graph itself. */
	k = kernel_node(&twice, &count_, params);
	memcpy(&kernel.kernel, &k, sizeof k);
	DO(cuGraphExecNodeSetParams(x, launch, &kernel));
	DO(cuGraphExecNodeSetParams(x, end, &(CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {f}}));
	memset(to, 0, BYTES);
	run_graph(x, s);
	DO(cuEventSynchronize(f));
	for (int i = 0; i < N; i++)
		expect(to[i] == 2 * a[i], "nodes by tag that are set in an executable graph");
	DO(cuGraphNodeSetParams(launch, &kernel));

	/* A child of another graph, after a node that changes its input. */
	DO(cuGraphCreate(&outer, 0));
	CUgraphNodeParams one = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = {.dst = d.a, .value = 0x3f800000, .elementSize = 4, .width = N, .height = 1, .ctx = context}};
	fill = add_node(outer, add_node(outer, NULL, (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY}), one);
	fill = add_node(outer, fill, (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {f}});
	child = add_node(outer, fill, (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = g}});
	CUstreamBatchMemOpParams write = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = d.b, .value = 0x40e00000}};
	child = add_node(outer, child, (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp = {.ctx = context, .count = 1, .paramArray = &write}});
	(void)child;
	DO(cuGraphInstantiate(&y, outer, 0));
	memset(to, 0, BYTES);
	run_graph(y, s);
	for (int i = 0; i < N; i++)
		expect(to[i] == 2, "a graph within a graph by tag");
	DO(cuMemcpyDtoH(&value, d.b, sizeof value));
	expect(value == 0x40e00000, "a value that a node writes");
	expect(n == 3, "a function of the host's as a node by tag");
	DO(cuGraphExecDestroy(x));
	DO(cuGraphExecDestroy(y));
	DO(cuGraphDestroy(outer));
	DO(cuGraphDestroy(g));
	DO(cuEventDestroy(e));
	DO(cuEventDestroy(f));
	DO(cuStreamDestroy(s));
	DO(cuMemFreeHost(to));
	DO(cuMemFree(d.a));
	DO(cuMemFree(d.b));
	DO(cuMemFree(d.c));
}

/* Memory that a graph allocates, and frees in the end. */
static void graph_memory(void)
{
	if (older_than(12030))
		return;
	struct data d = bring();
	CUstream s;
	CUgraph g;
	CUgraphExec x;
	CUgraphNode n, m;
	uint32_t count_ = N;
	void *params[4];
	DO(cuCtxSynchronize());
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	DO(cuGraphCreate(&g, 0));
	CUgraphNodeParams memory = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	memory.alloc.poolProps = (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	memory.alloc.bytesize = BYTES;
	TRY(cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &memory));
	/* b goes there, and a is added to that. */
	CUgraphNodeParams copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	copy.memcpy.copyCtx = context;
	copy.memcpy.copyParams = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = d.b, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = memory.alloc.dptr, .WidthInBytes = BYTES, .Height = 1, .Depth = 1};
	m = add_node(g, n, copy);
	struct data there = {d.a, memory.alloc.dptr, d.c};
	CUDA_KERNEL_NODE_PARAMS k = kernel_node(&there, &count_, params);
	CUgraphNodeParams kernel = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	memcpy(&kernel.kernel, &k, sizeof k);
	m = add_node(g, m, kernel);
	add_node(g, m, (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {memory.alloc.dptr}});
	DO(cuGraphInstantiate(&x, g, 0));
	run_graph(x, s);
	run_graph(x, s);
	DO(cuGraphExecDestroy(x));
	DO(cuGraphDestroy(g));
	DO(cuStreamDestroy(s));
	compare(d);
}

/* A conditional part of a graph, whose condition always holds here. */
static void conditional(void)
{
	if (older_than(12040))
		return;
	struct data d = bring();
	CUstream s;
	CUgraph g, body;
	CUgraphExec x;
	CUgraphNode n;
	CUgraphConditionalHandle handle;
	uint32_t count_ = N;
	void *params[4];
	DO(cuCtxSynchronize());
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	DO(cuGraphCreate(&g, 0));
	TRY(cuGraphConditionalHandleCreate(&handle, g, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	p.conditional.handle = handle;
	p.conditional.type = CU_GRAPH_COND_TYPE_IF;
	p.conditional.size = 1;
	p.conditional.ctx = context;
	TRY(cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &p));
	body = p.conditional.phGraph_out[0];
	CUDA_KERNEL_NODE_PARAMS k = kernel_node(&d, &count_, params);
	CUgraphNodeParams kernel = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	memcpy(&kernel.kernel, &k, sizeof k);
	add_node(body, NULL, kernel);
	DO(cuGraphInstantiate(&x, g, 0));
	run_graph(x, s);
	DO(cuGraphExecDestroy(x));
	DO(cuGraphDestroy(g));
	DO(cuStreamDestroy(s));
	compare(d);
}

static void graphs(void)
{
	struct data d = bring();
	float *pinned;
	CUstream s;
	CUgraph g;
	CUgraphExec x;
	DO(cuCtxSynchronize());
	DO(cuMemAllocHost((void **)&pinned, BYTES));
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	DO(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch_with(add, d, s);
	DO(cuMemcpyDtoHAsync(pinned, d.c, BYTES, s));
	DO(cuStreamEndCapture(s, &g));
	DO(cuGraphInstantiate(&x, g, 0));
	for (int k = 0; k < 2; k++) {
		memset(pinned, 0, BYTES);
		DO(cuGraphLaunch(x, s));
		DO(cuStreamSynchronize(s));
		for (int i = 0; i < N; i++)
			expect(pinned[i] == a[i] + b[i], "a graph");
	}
	DO(cuGraphExecDestroy(x));
	DO(cuGraphDestroy(g));
	DO(cuStreamDestroy(s));
	DO(cuMemFreeHost(pinned));
	compare(d);
}

static const struct { const char *name; void (*run)(void); } cases[] = {
	{"load-ptx", load_data}, {"load-options", load_options}, {"load-file", load_file}, {"load-fat", load_fat}, {"load-library", load_library}, {"variable", variable},
	{"packed", packed}, {"many-arguments", many}, {"cooperative", cooperative},
	{"attribute-access-policy-window", at_window}, {"attribute-cooperative", at_cooperative}, {"attribute-synchronization-policy", at_sync},
	{"attribute-cluster-dimension", at_cluster}, {"attribute-cluster-scheduling-policy", at_policy}, {"attribute-programmatic-stream-serialization", at_serialization},
	{"attribute-programmatic-event", at_event}, {"attribute-priority", at_priority}, {"attribute-mem-sync-domain-map", at_domain_map},
	{"attribute-mem-sync-domain", at_domain}, {"attribute-launch-completion-event", at_completion}, {"attribute-device-updatable-node", at_node},
	{"attribute-preferred-cluster-dimension", at_preferred}, {"attribute-shared-memory-carveout", at_carveout}, {"attribute-nvlink-scheduling", at_nvlink},
	{"attribute-portable-cluster-size", at_portable}, {"attribute-shared-memory-mode", at_shared},
	{"copies", copies}, {"rows", rows}, {"planes", planes}, {"fills", fills}, {"pools", pools}, {"mapped", mapped},
	{"order", order}, {"callbacks", callbacks}, {"graphs", graphs}, {"nodes", nodes},
	{"nodes-by-tag", tagged}, {"graph-memory", graph_memory}, {"conditional-node", conditional},
};
enum { CASES = sizeof cases / sizeof *cases };

static double milliseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Each step adds b to c a hundred times, and brings both anew. */
static void work(int steps)
{
	enum { LAUNCHES = 100 };
	struct data d = bring();
	struct data more = {d.c, d.b, d.c};
	CUstream s;
	DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	DO(cuCtxSynchronize());
	double from = milliseconds();
	for (int k = 0; k < steps; k++) {
		DO(cuMemcpyHtoDAsync(d.b, b, BYTES, s));
		DO(cuMemcpyHtoDAsync(d.c, a, BYTES, s));
		for (int i = 0; i < LAUNCHES; i++)
			launch_with(add, more, s);
		DO(cuMemcpyDtoHAsync(c, d.c, BYTES, s));
		DO(cuStreamSynchronize(s));
		for (int i = 0; i < N; i++)
			expect(c[i] == a[i] + LAUNCHES * b[i], "the sum of a step");
	}
	printf("work: %.3f ms: ok\n", milliseconds() - from);
	DO(cuStreamDestroy(s));
	DO(cuMemFree(d.a));
	DO(cuMemFree(d.b));
	DO(cuMemFree(d.c));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--list") == 0) {
		for (int i = 0; i < CASES; i++)
			puts(cases[i].name);
		return 0;
	}
	int devices;
	DO(cuInit(0));
	DO(cuDeviceGetCount(&devices));
	DO(cuDeviceGet(&device, 0));
	DO(cuDevicePrimaryCtxRetain(&context, device));
	DO(cuCtxSetCurrent(context));
	DO(cuModuleLoadData(&module, ptx));
	DO(cuModuleGetFunction(&add, module, "add"));
	if (argc > 1 && strcmp(argv[1], "--hold") == 0) {
		puts("held");
		fflush(stdout);
		while (getchar() != EOF)
			;
		return 0;
	}
	int ran = argc > 2 && strcmp(argv[1], "--work") == 0;
	if (ran)
		work(atoi(argv[2]));
	for (int i = 0; i < CASES; i++) {
		bool wanted = argc == 1;
		for (int k = 1; k < argc; k++)
			wanted = wanted || strcmp(argv[k], cases[i].name) == 0;
		if (!wanted)
			continue;
		cant = false;
		cases[i].run();
		printf("%s: %s\n", cases[i].name, cant ? "not on this device" : "ok");
		ran++;
	}
	DO(cuModuleUnload(module));
	DO(cuCtxSynchronize());
	DO(cuDevicePrimaryCtxRelease(device));
	if (ran == 0)
		fprintf(stderr, "no such case; --list names them\n");
	return ran == 0;
}
