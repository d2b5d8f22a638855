/* cuInit, devices, contexts, and errors as text. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* Loads the tool that CUDA_INJECTION64_PATH names, like any driver. */
static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *tool = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	int (*begin)(void) = tool ? (int (*)(void))dlsym(tool, "InitializeInjection") : NULL;
	if (begin)
		begin();
}

CUresult cuInit(unsigned Flags)
{
	if (Flags != 0)
		return INVALID;
	pthread_mutex_lock(&lock);
	if (!initialized) {
		const char *n = getenv("FAKECUDA_DEVICES");
		devices = n && *n ? atoi(n) : 1;
		if (devices < 1 || devices > MOST_DEVICES)
			return leave(CUDA_ERROR_NO_DEVICE);
		if (!open_arena())
			return leave(CUDA_ERROR_OPERATING_SYSTEM);
		pthread_atfork(NULL, NULL, after_fork);
		process = getpid();
		initialized = true;
		pthread_mutex_unlock(&lock);
		inject();
		return OK;
	}
	return leave(getpid() == process ? OK : CUDA_ERROR_NOT_INITIALIZED);
}

CUresult cuDriverGetVersion(int *v)
{
	if (v == NULL)
		return INVALID;
	*v = 13020;
	return OK;
}

struct error_text { CUresult code; const char *name, *text; };

static const struct error_text errors[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
	{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

static CUresult error_text(CUresult code, const char **p, bool name)
{
	for (unsigned i = 0; p && i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code) {
			*p = name ? errors[i].name : errors[i].text;
			return OK;
		}
	if (p)
		*p = NULL;
	return INVALID;
}

CUresult cuGetErrorName(CUresult error, const char **pStr) { return error_text(error, pStr, true); }

CUresult cuGetErrorString(CUresult error, const char **pStr) { return error_text(error, pStr, false); }

static CUresult find_symbol(const char *symbol, void **pfn, int version, uint64_t flags, CUdriverProcAddressQueryResult *status)
{
	if (symbol == NULL || pfn == NULL)
		return INVALID;
	const struct fake_symbol *best = NULL;
	bool any = false;
	for (const struct fake_symbol *s = fake_symbols; s->base; s++) {
		if (strcmp(s->base, symbol) != 0)
			continue;
		any = true;
		if (s->since > version || (s->thread && flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
			continue;
		if (best == NULL || s->since > best->since || (s->since == best->since && s->thread > best->thread))
			best = s;
	}
	if (status)
		*status = best ? CU_GET_PROC_ADDRESS_SUCCESS : any ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*pfn = best ? best->fn : NULL;
	return best || status ? OK : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, uint64_t flags) { return find_symbol(symbol, pfn, cudaVersion, flags, NULL); }

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, uint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	return find_symbol(symbol, pfn, cudaVersion, flags, symbolStatus);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	DEVICE(ordinal);
	*device = ordinal;
	return OK;
}

CUresult cuDeviceGetCount(int *count)
{
	DEVICE(0);
	*count = devices;
	return OK;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	DEVICE(dev);
	if (name == NULL || len <= 0)
		return INVALID;
	snprintf(name, (size_t)len, "Fake GPU");
	return OK;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	DEVICE(dev);
	memset(uuid, 0xfa, sizeof *uuid);
	uuid->bytes[0] = (char)dev;
	return OK;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	DEVICE(dev);
	*bytes = TOTAL / (uint64_t)devices;
	return OK;
}

/* Properties of compute capability 9.0 on which programs rely; all others are 0. */
const int device_attributes[CU_DEVICE_ATTRIBUTE_MAX] = {
	[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9,
	[CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32,
	[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 8,
	[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR] = 32,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = INT32_MAX,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535,
	[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536,
	[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = 65536,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = 48 << 10,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = 227 << 10,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = 228 << 10,
	[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK] = 1 << 10,
	[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY] = 64 << 10,
	[CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 8 << 20,
	[CU_DEVICE_ATTRIBUTE_MAX_PITCH] = INT32_MAX,
	[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT] = UNIT,
	[CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT] = 32,
	[CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT] = UNIT,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH] = 131072,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH] = 1 << 28,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH] = 131072,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT] = 65536,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH] = 131072,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT] = 65000,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH] = 2097120,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH] = 16384,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT] = 16384,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH] = 16384,
	[CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1000000,
	[CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1000000,
	[CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 256,
	[CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT] = 2,
	[CU_DEVICE_ATTRIBUTE_GPU_OVERLAP] = 1,
	[CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS] = 1,
	[CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1,
	[CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1,
	[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1,
	[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
	[CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH] = 1,
};

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	DEVICE(dev);
	if (pi == NULL || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
		return INVALID;
	*pi = attrib == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? dev + 1 : device_attributes[attrib];
	return OK;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	DEVICE(dev);
	if (major == NULL || minor == NULL)
		return INVALID;
	*major = device_attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
	*minor = 0;
	return OK;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	DEVICE(dev);
	if (pciBusId == NULL || len <= 0)
		return INVALID;
	snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", dev + 1);
	return OK;
}

struct context *new_context(int device, unsigned flags)
{
	struct context *c = make(CONTEXT, sizeof *c);
	c->device = device;
	c->flags = flags;
	c->limits[CU_LIMIT_STACK_SIZE] = 1 << 10;
	c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	c->legacy = new_stream(c, 0, 0);
	c->legacy->legacy = true;
	return c;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	if (primary[dev] == NULL)
		primary[dev] = new_context(dev, 0);
	primary[dev]->references++;
	primary[dev]->o.gone = false;
	return STORE(pctx, (CUcontext)primary[dev]);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	if (primary[dev] == NULL || primary[dev]->references == 0)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	primary[dev]->o.gone = --primary[dev]->references == 0;
	return leave(OK);
}

/* Ends the context with its streams and its memory. The next reference makes a new context. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct context *c = primary[dev];
	if (c == NULL || c->references == 0)
		return leave(OK);
	all_done(c);
	EACH(stream, s, STREAM)
		if (s->ctx == c && !s->legacy)
			s->o.gone = true;
	for (size_t i = blocks_count; i-- > 0;)
		if (blocks[i].by == c)
			release_block(blocks[i].at);
	c->error = OK;
	c->o.gone = true;
	pthread_cond_broadcast(&moved);
	return leave(OK);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags)
{
	DEVICE(dev);
	(void)flags;
	return OK;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	DEVICE(dev);
	*flags = 0;
	*active = primary[dev] != NULL && primary[dev]->references > 0 && !primary[dev]->o.gone;
	return OK;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	DEVICE(dev);
	if (depth == sizeof stack / sizeof *stack)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	return STORE(pctx, (CUcontext)(stack[depth++] = new_context(dev, flags)));
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned flags, CUdevice dev)
{
	return paramsArray || numParams ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned flags, CUdevice dev)
{
	return params ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(pctx, flags, dev);
}

CUresult all_done(struct context *c)
{
	EACH(stream, s, STREAM)
		if (s->ctx == c)
			await((struct place){s, s->issued});
	return c->error;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	FIND(context, c, known(CONTEXT, ctx), CUDA_ERROR_INVALID_CONTEXT);
	if (c == primary[c->device])
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	all_done(c);
	c->o.gone = true;
	if (current() == c)
		depth--;
	return leave(OK);
}

/* Each attach delays the end of the context by one detach. */
CUresult cuCtxAttach(CUcontext *pctx, unsigned flags)
{
	if (pctx == NULL || flags)
		return INVALID;
	ENTER(c);
	c->references++;
	return STORE(pctx, (CUcontext)c);
}

CUresult cuCtxDetach(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	struct context *c = known(CONTEXT, ctx);
	bool kept = c && c != primary[c->device] && c->references > 0;
	if (kept)
		c->references--;
	pthread_mutex_unlock(&lock);
	return kept ? OK : cuCtxDestroy_v2(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	struct context *c = known(CONTEXT, ctx);
	for (int i = 0; c == NULL && i < devices; i++) /* a primary context may exist without being retained */
		c = ctx == (CUcontext)primary[i] ? primary[i] : NULL;
	pthread_mutex_unlock(&lock);
	if (c == NULL || depth == sizeof stack / sizeof *stack)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = c;
	return OK;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (pctx)
		*pctx = (CUcontext)stack[depth];
	return OK;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	if (depth > 0)
		depth--;
	return ctx ? cuCtxPushCurrent_v2(ctx) : OK;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	INITIALIZED;
	*pctx = (CUcontext)current();
	return OK;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	if (current() == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = current()->device;
	return OK;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	DEVICE(dev);
	DEVICE(peerDev);
	*canAccessPeer = dev != peerDev;
	return OK;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
	DEVICE(srcDevice);
	DEVICE(dstDevice);
	*value = srcDevice != dstDevice && attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
	return OK;
}

static CUresult peer_access(CUcontext peer, bool on)
{
	ENTER(c);
	struct context *p = known(CONTEXT, peer);
	if (p == NULL)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (p->device == c->device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	uint32_t bit = 1U << p->device;
	if (!(c->peers & bit) != on)
		return leave(on ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	c->peers ^= bit;
	return leave(OK);
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned Flags) { return Flags ? INVALID : peer_access(peerContext, true); }

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) { return peer_access(peerContext, false); }

CUresult cuCtxSynchronize(void)
{
	ENTER(c);
	return leave(all_done(c));
}

CUresult cuCtxGetFlags(unsigned *flags)
{
	ENTER(c);
	return STORE(flags, c->flags);
}

CUresult cuCtxSetFlags(unsigned flags)
{
	ENTER(c);
	c->flags = flags;
	return leave(OK);
}

CUresult cuCtxGetId(CUcontext ctx, uint64_t *ctxId)
{
	FIND(context, c, ctx ? known(CONTEXT, ctx) : current(), CUDA_ERROR_INVALID_CONTEXT);
	if (ctxId == NULL)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	*ctxId = 0;
	for (struct object *o = &c->o; o; o = o->next)
		++*ctxId;
	return leave(OK);
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
	pthread_mutex_lock(&lock);
	if (version == NULL || (ctx ? known(CONTEXT, ctx) : current()) == NULL)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	return STORE(version, 3020);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	if (limit < 0 || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	ENTER(c);
	c->limits[limit] = value;
	return leave(OK);
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	if (pvalue == NULL ? INVALID : limit < 0 || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	ENTER(c);
	return STORE(pvalue, c->limits[limit]);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	ENTER(c);
	c->cache = config;
	return leave(OK);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	if (pconfig == NULL)
		return INVALID;
	ENTER(c);
	return STORE(pconfig, c->cache);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return current() ? OK : CUDA_ERROR_INVALID_CONTEXT;
}

/* Unnamed functions that the CUDA runtime uses: the primary context, without a reference, and a function that makes a context current. */
static CUresult own_context(CUcontext *ctx, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	if (primary[dev] == NULL) {
		primary[dev] = new_context(dev, 0);
		primary[dev]->o.gone = true;
	}
	return STORE(ctx, (CUcontext)primary[dev]);
}

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	static const void *table[4] = {(void *)sizeof table, NULL, (void *)own_context, (void *)cuCtxSetCurrent};
	if (ppExportTable == NULL || pExportTableId == NULL)
		return INVALID;
	*ppExportTable = table;
	return OK;
}
