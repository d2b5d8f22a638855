/* Queries and advice: attributes, limits, pointers, occupancy. */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	DEVICE(dev);
	if (prop == NULL)
		return INVALID;
	const int *a = device_attributes;
	*prop = (CUdevprop){
		.maxThreadsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
		.maxThreadsDim = {a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X], a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y], a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
		.maxGridSize = {a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X], a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y], a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
		.sharedMemPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK], .totalConstantMemory = a[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
		.SIMDWidth = a[CU_DEVICE_ATTRIBUTE_WARP_SIZE], .memPitch = a[CU_DEVICE_ATTRIBUTE_MAX_PITCH], .regsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
		.clockRate = a[CU_DEVICE_ATTRIBUTE_CLOCK_RATE], .textureAlign = a[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
	};
	return OK;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain, bus, slot;
	INITIALIZED;
	if (dev == NULL || pciBusId == NULL || (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3 && (domain = 0, sscanf(pciBusId, "%x:%x", &bus, &slot) != 2)))
		return INVALID;
	if (domain || slot || bus == 0 || bus > (unsigned)devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = (int)bus - 1;
	return OK;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format, uint32_t numChannels, CUdevice dev)
{
	DEVICE(dev);
	if (maxWidthInElements == NULL || element(format, numChannels) == 0)
		return INVALID;
	*maxWidthInElements = (size_t)device_attributes[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH];
	return OK;
}

/* The context that a call names, NULL for none; 0 means the current one. Call with the lock held. */
struct context *context_named(CUcontext ctx) { return ctx ? known(CONTEXT, ctx) : current(); }

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	INITIALIZED;
	FIND(context, c, context_named(ctx), CUDA_ERROR_INVALID_CONTEXT);
	return STORE(device, c->device);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	INITIALIZED;
	pthread_mutex_lock(&lock);
	struct context *c = context_named(ctx);
	return leave(c ? all_done(c) : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	ENTER(c);
	return STORE(pConfig, c->banks);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	ENTER(c);
	if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return leave(INVALID);
	c->banks = config;
	return leave(OK);
}

/* The event waits for the earlier work of all streams of the context. */
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	pthread_mutex_lock(&lock);
	struct context *c = context_named(hCtx);
	struct event *v = known(EVENT, hEvent);
	if (c == NULL || v == NULL)
		return leave(c ? HANDLE : CUDA_ERROR_INVALID_CONTEXT);
	if (c->watcher == NULL)
		c->watcher = new_stream(c, CU_STREAM_NON_BLOCKING, 0);
	struct task *t = new_task(NULL);
	EACH(stream, s, STREAM)
		if (s->ctx == c && s != c->watcher)
			wait_for(t, s, s->issued);
	put(c->watcher, t);
	record_on(c->watcher, v);
	return leave(OK);
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	pthread_mutex_lock(&lock);
	struct context *c = context_named(hCtx);
	struct event *v = known(EVENT, hEvent);
	if (c == NULL || v == NULL)
		return leave(c ? HANDLE : CUDA_ERROR_INVALID_CONTEXT);
	if (v->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	c->behind = v->place; /* applies to streams that are made later */
	EACH(stream, s, STREAM) {
		if (s->ctx != c || s->o.gone || s->capture || v->place.stream == NULL)
			continue;
		struct task *t = new_task(NULL);
		wait_for(t, v->place.stream, v->place.ticket);
		put(s, t);
	}
	return leave(OK);
}

CUresult cuStreamGetId(CUstream hStream, uint64_t *streamId)
{
	ON_STREAM(s, hStream);
	uint64_t n = 0;
	for (struct object *o = &s->o; o; o = o->next)
		n++;
	return STORE(streamId, n);
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	ON_STREAM(s, hStream);
	return STORE(device, s->ctx->device);
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	ON_STREAM(s, src);
	struct stream *d = stream_of(current(), dst);
	if (d)
		d->priority = s->priority;
	return leave(d ? OK : HANDLE);
}

CUresult cuStreamGetAttribute(CUstream hStream, CUlaunchAttributeID attr, CUlaunchAttributeValue *value_out)
{
	ON_STREAM(s, hStream);
	if (value_out == NULL || attr != CU_LAUNCH_ATTRIBUTE_PRIORITY)
		return leave(value_out ? CUDA_ERROR_NOT_SUPPORTED : INVALID);
	value_out->priority = s->priority;
	return leave(OK);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, uint32_t count, CUstreamBatchMemOpParams *paramArray, uint32_t flags)
{
	if (paramArray == NULL || count == 0 || count > 256 || flags)
		return INVALID;
	CUresult e = OK;
	for (uint32_t i = 0; i < count && e == OK; i++) {
		const CUstreamBatchMemOpParams *p = &paramArray[i];
		bool wait = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
		switch ((int)p->operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
			e = value_task(stream, p->writeValue.address, p->writeValue.value, 4, p->writeValue.flags, wait);
			break;
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			e = value_task(stream, p->writeValue.address, p->writeValue.value64, 8, p->writeValue.flags, wait);
			break;
		case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		case CU_STREAM_MEM_OP_BARRIER:
			break;
		default:
			e = INVALID;
		}
	}
	return e;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (mode == NULL)
		return INVALID;
	*mode = CU_MODULE_EAGER_LOADING;
	return initialized ? OK : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuModuleGetFunctionCount(uint32_t *count, CUmodule mod)
{
	FIND(module, m, module_of(mod), HANDLE);
	uint32_t n = 0;
	for (struct function *f = m->functions; f; f = f->sibling)
		n++;
	return STORE(count, n);
}

static CUresult list_functions(void **out, uint32_t most, const void *module, bool as_kernel)
{
	pthread_mutex_lock(&lock);
	struct module *m = module_of(module);
	uint32_t n = 0;
	for (struct function *f = m && out ? m->functions : NULL; f && n < most; f = f->sibling)
		out[n++] = as_kernel ? contextless(f) : f;
	return leave(m == NULL ? HANDLE : out ? OK : INVALID);
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, uint32_t numFunctions, CUmodule mod) { return list_functions((void **)functions, numFunctions, mod, false); }

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, uint32_t numKernels, CUlibrary lib) { return list_functions((void **)kernels, numKernels, lib, true); }

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	FIND(function, f, function_known(kernel, true), HANDLE);
	return STORE(pLib, (CUlibrary)f->module);
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	FIND(function, f, function_known(hfunc, false), HANDLE);
	return STORE(hmod, (CUmodule)((uintptr_t)f->module | (f->module->library ? OF_LIBRARY : 0)));
}

static CUresult function_name(const char **name, const void *h, bool as_kernel)
{
	FIND(function, f, function_known(h, as_kernel), HANDLE);
	return STORE(name, f->name);
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc) { return function_name(name, hfunc, false); }

CUresult cuKernelGetName(const char **name, CUkernel hfunc) { return function_name(name, hfunc, true); }

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	pthread_mutex_lock(&lock);
	bool there = function_known(function, false);
	if (there && state)
		*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return leave(!there ? HANDLE : state ? OK : INVALID);
}

CUresult cuFuncLoad(CUfunction function)
{
	pthread_mutex_lock(&lock);
	return leave(function_known(function, false) ? OK : HANDLE);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct function *f = function_known(kernel, true);
	pthread_mutex_unlock(&lock);
	return f ? cuFuncGetAttribute(pi, attrib, (CUfunction)f) : HANDLE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	DEVICE(dev);
	(void)attrib, (void)val;
	pthread_mutex_lock(&lock);
	return leave(function_known(kernel, true) ? OK : HANDLE);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	(void)config;
	return cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0, kernel, dev);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	CUdeviceptr at = 0;
	CUresult e = variable_of(&at, bytes, library, name);
	if (e)
		return e;
	pthread_mutex_lock(&lock);
	bool managed = block_at(at, MANAGED);
	if (managed && dptr)
		*dptr = at;
	return leave(managed ? OK : CUDA_ERROR_NOT_FOUND);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, uint32_t flags)
{
	return flags > 1 ? INVALID : cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize, dynamicSMemSize);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize shared, size_t dynamicSMemSize, int blockSizeLimit, uint32_t flags)
{
	return flags > 1 ? INVALID : cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func, shared, dynamicSMemSize, blockSizeLimit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
	if (dynamicSmemSize == NULL || numBlocks <= 0 || blockSize <= 0)
		return INVALID;
	pthread_mutex_lock(&lock);
	int most = device_attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] / numBlocks, one = device_attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK];
	*dynamicSmemSize = (size_t)(most < one ? most : one);
	return leave(function_known(func, false) ? OK : HANDLE);
}

static CUresult clusters(int *out, const void *func, const CUlaunchConfig *config, bool active)
{
	struct wishes w = {.cluster = {1, 1, 1}};
	if (out == NULL || config == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	CUresult e = launchable(func) ? attributes(config, false, &w) : HANDLE;
	int size = (int)(w.cluster[0] * w.cluster[1] * w.cluster[2]);
	*out = active ? device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] / size : 8;
	return leave(e);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config) { return clusters(clusterSize, func, config, false); }

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config) { return clusters(numClusters, func, config, true); }

/* The managed allocation that contains a range, NULL if there is none. Advice for it is stored and has no effect. */
struct block *managed(CUdeviceptr at, size_t count)
{
	struct block *b = count ? holding(at, count) : NULL;
	return b && b->kind == MANAGED ? b : NULL;
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	INITIALIZED;
	FIND(block, b, managed(devPtr, count), INVALID);
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && (location.id < 0 || location.id >= devices))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	switch ((int)advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		b->mostly_read = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		return leave(OK);
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		b->preferred = location;
		return leave(OK);
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		b->preferred = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_INVALID};
		return leave(OK);
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		return leave(OK);
	}
	return leave(INVALID);
}

/* A device number, or -1 for the host. */
static CUmemLocation device_location(CUdevice d) { return (CUmemLocation){d < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, d < 0 ? 0 : d}; }

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) { return cuMemAdvise_v2(devPtr, count, advice, device_location(device)); }

/* Nothing moves. */
static CUresult prefetch(CUdeviceptr at, size_t count, CUmemLocation to, CUstream h)
{
	ON_STREAM(s, h);
	struct block *b = managed(at, count);
	if (b == NULL || (to.type == CU_MEM_LOCATION_TYPE_DEVICE && (to.id < 0 || to.id >= devices)))
		return leave(b ? CUDA_ERROR_INVALID_DEVICE : INVALID);
	b->fetched = to;
	put(s, new_task(NULL));
	return leave(OK);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, uint32_t flags, CUstream hStream) { return flags ? INVALID : prefetch(devPtr, count, location, hStream); }

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) { return prefetch(devPtr, count, device_location(dstDevice), hStream); }

/* Discarded content is lost. */
static void discard(struct task *t)
{
	uint8_t *p = reach(t, t->dst, t->width);
	if (p)
		memset(p, 0, t->width);
}

static CUresult ranges(const CUdeviceptr *at, const size_t *sizes, size_t count, const CUmemLocation *to, const size_t *from, size_t locations, uint64_t flags, bool lost, CUstream h)
{
	bool located = to && from && locations && locations <= count && from[0] == 0;
	if (at == NULL || sizes == NULL || count == 0 || flags || h == NULL || (locations && !located))
		return INVALID;
	ON_STREAM(s, h);
	for (size_t i = 0; i < count; i++)
		if (managed(at[i], sizes[i]) == NULL)
			return leave(INVALID);
	for (size_t i = 0, k = 0; i < count; i++) {
		while (located && k + 1 < locations && from[k + 1] <= i)
			k++;
		struct task *t = new_task(lost ? discard : NULL);
		t->dst = at[i], t->width = sizes[i];
		put(s, t);
		if (located)
			managed(at[i], sizes[i])->fetched = to[k];
	}
	return leave(OK);
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags, CUstream hStream)
{
	return numPrefetchLocs ? ranges(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, false, hStream) : INVALID;
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, uint64_t flags, CUstream hStream) { return ranges(dptrs, sizes, count, NULL, NULL, 0, flags, true, hStream); }

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags,
					   CUstream hStream)
{
	return numPrefetchLocs ? ranges(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, true, hStream) : INVALID;
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count)
{
	if (data == NULL || dataSize != 4)
		return INVALID;
	FIND(block, b, managed(devPtr, count), INVALID);
	bool fetched = attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION || attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE ||
		attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID;
	CUmemLocation l = fetched ? b->fetched : b->preferred;
	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*(int *)data = b->mostly_read;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*(int *)data = l.type == CU_MEM_LOCATION_TYPE_DEVICE ? l.id : l.type == CU_MEM_LOCATION_TYPE_HOST ? -1 : -2;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*(int *)data = (int)l.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*(int *)data = l.id;
		break;
	default:
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	return leave(OK);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes_, size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	CUresult e = data && dataSizes && attributes_ && numAttributes ? OK : INVALID;
	for (size_t i = 0; i < numAttributes && e == OK; i++)
		e = cuMemRangeGetAttribute(data[i], dataSizes[i], attributes_[i], devPtr, count);
	return e;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, uint32_t flags)
{
	ON_STREAM(s, hStream);
	struct block *b = managed(dptr, 1);
	if (b == NULL || (length && length != b->size) || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE))
		return leave(INVALID);
	put(s, new_task(NULL));
	return leave(OK);
}

CUresult cuPointerGetAttributes(uint32_t numAttributes, CUpointer_attribute *attributes_, void **data, CUdeviceptr ptr)
{
	CUresult e = attributes_ && data && numAttributes ? OK : INVALID;
	for (uint32_t i = 0; i < numAttributes && e == OK; i++)
		/* This query succeeds for addresses outside device memory and reports kind 0. */
		if ((e = cuPointerGetAttribute(data[i], attributes_[i], ptr)) == INVALID) {
			memset(data[i], 0, attributes_[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER || attributes_[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ? 8 : 4);
			e = OK;
		}
	return e;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	ENTER(c);
	return leave(value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && seen(ptr, 1) ? OK : INVALID);
}

CUresult cuMemGetAccess(uint64_t *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	FIND(block, b, holding(ptr, 1), INVALID);
	if (b->kind != MAPPED || flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 || location->id >= devices)
		return leave(INVALID);
	return STORE(flags, b->open >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	FIND(physical, p, known(PHYSICAL, (void *)handle), INVALID);
	return STORE(prop, p->as);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	pthread_mutex_lock(&lock);
	struct block *b = holding((uint64_t)addr, 1);
	if (handle == NULL || b == NULL || b->kind != MAPPED)
		return leave(INVALID);
	b->of->retained = b->of->o.gone ? 0 : b->of->retained + 1;
	b->of->o.gone = false;
	return STORE(handle, (uint64_t)b->of);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	(void)minBytesToKeep;
	pthread_mutex_lock(&lock);
	return leave(known(POOL, pool) ? OK : INVALID);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	FIND(pool, p, known(POOL, pool), INVALID);
	if (value == NULL)
		return leave(INVALID);
	uint64_t n = 0;
	for (size_t i = 0; i < blocks_count; i++)
		n += blocks[i].pool == p && blocks[i].kind == PLAIN ? blocks[i].size : 0;
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value = 1;
		return leave(OK);
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(uint64_t *)value = p->threshold;
		return leave(OK);
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(uint64_t *)value = n;
		return leave(OK);
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(uint64_t *)value = p->high;
		return leave(OK);
	}
	return leave(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	FIND(pool, p, known(POOL, memPool), INVALID);
	if (flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 || location->id >= devices)
		return leave(INVALID);
	return STORE(flags, location->id == p->device || p->open >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	DEVICE(dev);
	FIND(pool, p, known(POOL, pool), INVALID);
	if (p->from || p->device != dev)
		return leave(INVALID);
	chosen_pools[dev] = p;
	return leave(OK);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	return pool_out && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED ? cuDeviceGetDefaultMemPool(pool_out, location->id) : INVALID;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	return pool && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED ? cuDeviceGetMemPool(pool, location->id) : INVALID;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	return location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED ? cuDeviceSetMemPool(location->id, pool) : INVALID;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	DEVICE(device);
	return OK;
}

/* Copies of one row to or from arrays. */
static CUresult array_copy(CUarray to, CUdeviceptr dst, CUarray from, CUdeviceptr src, size_t dst_offset, size_t src_offset, size_t n, CUstream h, bool wait)
{
	uint64_t pitch = 0, rows = 0;
	uint64_t d = side(to ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE, NULL, dst, to, dst_offset, 0, 0, &pitch, &rows);
	uint64_t s = side(from ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE, NULL, src, from, src_offset, 0, 0, &pitch, &rows);
	return d && s ? put_copy(h, wait, line(d, s, n)) : INVALID;
}

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) { return array_copy(dstArray, 0, NULL, srcDevice, dstOffset, 0, ByteCount, NULL, true); }

CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) { return array_copy(NULL, dstDevice, srcArray, 0, 0, srcOffset, ByteCount, NULL, true); }

CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return array_copy(dstArray, 0, srcArray, 0, dstOffset, srcOffset, ByteCount, NULL, true);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return array_copy(dstArray, 0, NULL, (CUdeviceptr)srcHost, dstOffset, 0, ByteCount, hStream, false);
}

CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)
{
	return array_copy(NULL, (CUdeviceptr)dstHost, srcArray, 0, 0, srcOffset, ByteCount, hStream, false);
}

/* Contexts add nothing here: addresses are unique. */
static CUresult copy3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream h, bool wait)
{
	_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D) && offsetof(CUDA_MEMCPY3D_PEER, Depth) == offsetof(CUDA_MEMCPY3D, Depth) &&
		offsetof(CUDA_MEMCPY3D_PEER, dstPitch) == offsetof(CUDA_MEMCPY3D, dstPitch), "one is as the other");
	return copy3d((const CUDA_MEMCPY3D *)p, h, wait);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy) { return copy3d_peer(pCopy, NULL, true); }

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream) { return copy3d_peer(pCopy, hStream, false); }

CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, uint16_t us, size_t Width, size_t Height, CUstream hStream)
{
	return put_fill(hStream, false, dstDevice, dstPitch, us, 2, Width, Height);
}
