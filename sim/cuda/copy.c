/* Copies and fills of memory, in rows and batches. */
#include "driver.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Memory of a task: device memory through this library's mapping, or host memory. */
uint8_t *reach(struct task *t, uint64_t at, uint64_t size)
{
	if (!device_address(at))
		return (uint8_t *)at;
	pthread_mutex_lock(&lock);
	uint8_t *p = seen(at, size);
	if (p == NULL)
		t->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
	return p;
}

static uint64_t span(const struct task *t, uint64_t pitch, uint64_t plane) { return (t->depth - 1) * pitch * plane + (t->height - 1) * pitch + t->width; }

void copy(struct task *t)
{
	if (t->width == 0 || t->height == 0 || t->depth == 0)
		return;
	uint8_t *d = reach(t, t->dst, span(t, t->dst_pitch, t->dst_plane)), *s = t->staged ? t->staged : reach(t, t->src, span(t, t->src_pitch, t->src_plane));
	for (uint64_t z = 0; d && s && z < t->depth; z++)
		for (uint64_t y = 0; y < t->height; y++)
			memmove(d + (z * t->dst_plane + y) * t->dst_pitch, s + (z * t->src_plane + y) * t->src_pitch, t->width);
}

void fill(struct task *t)
{
	if (t->width == 0 || t->height == 0)
		return;
	uint8_t *d = reach(t, t->dst, (t->height - 1) * t->dst_pitch + t->width * t->unit);
	for (uint64_t y = 0; d && y < t->height; y++)
		for (uint64_t x = 0; x < t->width; x++)
			memcpy(d + y * t->dst_pitch + x * t->unit, &t->value, t->unit);
}

bool there(uint64_t at, uint64_t size) { return device_address(at) ? seen(at, size) != NULL : at != 0; }

/* Puts a copy on a stream. Unpinned host memory is read or written before the call returns. */
CUresult put_copy(CUstream h, bool wait, struct task shape)
{
	ON_STREAM(s, h);
	if (shape.width && shape.height && shape.depth && (!there(shape.dst, span(&shape, shape.dst_pitch, shape.dst_plane)) || !there(shape.src, span(&shape, shape.src_pitch, shape.src_plane))))
		return leave(INVALID);
	struct task *t = new_task(copy);
	shape.run = copy;
	*t = shape;
	bool from_host = !device_address(t->src) && !host_of((void *)t->src), to_host = !device_address(t->dst) && !host_of((void *)t->dst);
	if (s->capture && wait) {
		drop(t);
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	if (from_host && !wait && t->width && t->height && t->depth) {
		uint64_t n = span(t, t->src_pitch, t->src_plane);
		t->staged = malloc(n);
		memcpy(t->staged, (void *)t->src, n);
	}
	struct place p = put(s, t);
	return leave((wait || to_host) && p.ticket ? await(p) : OK);
}

struct task line(uint64_t dst, uint64_t src, uint64_t n) { return (struct task){.dst = dst, .src = src, .width = n, .height = 1, .depth = 1}; }

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) { return put_copy(NULL, true, line(dst, src, ByteCount)); }

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) { return put_copy(hStream, false, line(dst, src, ByteCount)); }

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) { return put_copy(NULL, true, line(dstDevice, (uint64_t)srcHost, ByteCount)); }

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) { return put_copy(NULL, true, line((uint64_t)dstHost, srcDevice, ByteCount)); }

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) { return put_copy(NULL, true, line(dstDevice, srcDevice, ByteCount)); }

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return put_copy(hStream, false, line(dstDevice, (uint64_t)srcHost, ByteCount));
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return put_copy(hStream, false, line((uint64_t)dstHost, srcDevice, ByteCount));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return put_copy(hStream, false, line(dstDevice, srcDevice, ByteCount));
}

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream hStream)
{
	return attr == NULL ? INVALID : put_copy(hStream, false, line(dst, src, size));
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream)
{
	if (dsts == NULL || srcs == NULL || sizes == NULL || attrs == NULL || attrsIdxs == NULL || count == 0 || numAttrs == 0 || numAttrs > count || attrsIdxs[0] != 0 || hStream == NULL)
		return INVALID;
	CUresult e = OK;
	for (size_t i = 0; i < count && e == OK; i++)
		e = put_copy(hStream, false, line(dsts[i], srcs[i], sizes[i]));
	return e;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
			    CUstream hStream)
{
	(void)failIdx;
	return cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount)
{
	(void)dstContext, (void)srcContext;
	return put_copy(NULL, true, line(dstDevice, srcDevice, ByteCount));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	(void)dstContext, (void)srcContext;
	return put_copy(hStream, false, line(dstDevice, srcDevice, ByteCount));
}

/* One end of a copy: its first byte, 0 if it is not memory. An array has its own pitch and its own rows in a plane. */
uint64_t side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t x, size_t y, size_t z, uint64_t *pitch, uint64_t *rows)
{
	uint64_t at = type == CU_MEMORYTYPE_HOST ? (uint64_t)host : device;
	if (type == CU_MEMORYTYPE_ARRAY) {
		pthread_mutex_lock(&lock);
		struct array *a = known(ARRAY, array);
		at = a ? a->at : 0;
		if (a)
			*pitch = a->pitch, *rows = a->rows;
		pthread_mutex_unlock(&lock);
	}
	return at ? at + x + *pitch * (y + *rows * z) : 0;
}

static CUresult copy2d(const CUDA_MEMCPY2D *p, CUstream h, bool wait)
{
	if (p == NULL)
		return INVALID;
	struct task t = {.width = p->WidthInBytes, .height = p->Height, .depth = 1, .src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes,
		.dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes};
	t.src = side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, 0, &t.src_pitch, &t.src_plane);
	t.dst = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, 0, &t.dst_pitch, &t.dst_plane);
	return t.src_pitch < t.width || t.dst_pitch < t.width || t.src == 0 || t.dst == 0 ? INVALID : put_copy(h, wait, t);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) { return copy2d(pCopy, NULL, true); }

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) { return copy2d(pCopy, hStream, false); }

bool shape_of(const CUDA_MEMCPY3D *p, struct task *out)
{
	struct task t = {.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth, .src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes,
		.dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes, .src_plane = p->srcHeight ? p->srcHeight : p->Height, .dst_plane = p->dstHeight ? p->dstHeight : p->Height};
	t.src = side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, p->srcZ, &t.src_pitch, &t.src_plane);
	t.dst = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, p->dstZ, &t.dst_pitch, &t.dst_plane);
	*out = t;
	return t.src_pitch >= t.width && t.dst_pitch >= t.width && t.src != 0 && t.dst != 0;
}

CUresult copy3d(const CUDA_MEMCPY3D *p, CUstream h, bool wait)
{
	struct task t;
	return p == NULL || !shape_of(p, &t) ? INVALID : put_copy(h, wait, t);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) { return copy3d(pCopy, NULL, true); }

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) { return copy3d(pCopy, hStream, false); }

CUresult put_fill(CUstream h, bool wait, CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t unit, size_t width, size_t height)
{
	ON_STREAM(s, h);
	if (dst % unit || (width && height && seen(dst, (height - 1) * pitch + width * unit) == NULL))
		return leave(INVALID);
	struct task *t = new_task(fill);
	t->dst = dst, t->dst_pitch = pitch, t->value = value, t->unit = unit, t->width = width, t->height = height;
	struct place p = put(s, t);
	return leave(wait && p.ticket ? await(p) : OK);
}

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, uint8_t uc, size_t N) { return put_fill(NULL, true, dstDevice, 0, uc, 1, N, 1); }

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, uint16_t us, size_t N) { return put_fill(NULL, true, dstDevice, 0, us, 2, N, 1); }

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, uint32_t ui, size_t N) { return put_fill(NULL, true, dstDevice, 0, ui, 4, N, 1); }

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, uint8_t uc, size_t Width, size_t Height) { return put_fill(NULL, true, dstDevice, dstPitch, uc, 1, Width, Height); }

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, uint16_t us, size_t Width, size_t Height) { return put_fill(NULL, true, dstDevice, dstPitch, us, 2, Width, Height); }

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, uint32_t ui, size_t Width, size_t Height) { return put_fill(NULL, true, dstDevice, dstPitch, ui, 4, Width, Height); }

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, uint8_t uc, size_t N, CUstream hStream) { return put_fill(hStream, false, dstDevice, 0, uc, 1, N, 1); }

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, uint16_t us, size_t N, CUstream hStream) { return put_fill(hStream, false, dstDevice, 0, us, 2, N, 1); }

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, uint32_t ui, size_t N, CUstream hStream) { return put_fill(hStream, false, dstDevice, 0, ui, 4, N, 1); }

CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, uint8_t uc, size_t Width, size_t Height, CUstream hStream)
{
	return put_fill(hStream, false, dstDevice, dstPitch, uc, 1, Width, Height);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, uint32_t ui, size_t Width, size_t Height, CUstream hStream)
{
	return put_fill(hStream, false, dstDevice, dstPitch, ui, 4, Width, Height);
}

static void store_value(struct task *t)
{
	uint8_t *p = reach(t, t->dst, t->unit);
	if (p)
		memcpy(p, &t->wanted, t->unit);
}

CUresult value_task(CUstream h, CUdeviceptr addr, uint64_t value, uint32_t unit, unsigned flags, bool wait)
{
	ON_STREAM(s, h);
	if (seen(addr, unit) == NULL)
		return leave(INVALID);
	struct task *t = new_task(wait ? NULL : store_value);
	t->dst = addr, t->wanted = value, t->unit = unit, t->flags = flags, t->wait = wait;
	put(s, t);
	return leave(OK);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value, unsigned flags) { return value_task(stream, addr, value, 4, flags, false); }

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags) { return value_task(stream, addr, value, 8, flags, false); }

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value, unsigned flags) { return value_task(stream, addr, value, 4, flags, true); }

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags) { return value_task(stream, addr, value, 8, flags, true); }

/* Stream-ordered memory: allocated at once, freed when the stream reaches the free. */
struct pool *chosen_pools[MOST_DEVICES];

static CUresult pooled(CUdeviceptr *dptr, size_t size, struct pool *p)
{
	CUresult e = allocate(p->device, dptr, size, PLAIN, placed());
	if (e == OK) {
		block_at(*dptr, PLAIN)->pool = p;
		uint64_t n = 0;
		for (size_t i = 0; i < blocks_count; i++)
			n += blocks[i].pool == p ? blocks[i].size : 0;
		p->high = n > p->high ? n : p->high;
	}
	return e;
}

static struct pool *default_pool(int device)
{
	static struct pool *pools[MOST_DEVICES];
	if (pools[device] == NULL) {
		pools[device] = make(POOL, sizeof(struct pool));
		pools[device]->device = device;
	}
	return pools[device];
}

/* The pool for allocations that name none. */
static struct pool *pool_of(int device) { return chosen_pools[device] && !chosen_pools[device]->o.gone ? chosen_pools[device] : default_pool(device); }

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	ON_STREAM(s, hStream);
	return leave(pooled(dptr, bytesize, pool_of(s->ctx->device)));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	ON_STREAM(s, hStream);
	struct pool *p = known(POOL, pool);
	return leave(p && !p->from ? pooled(dptr, bytesize, p) : INVALID);
}

static void give_back(struct task *t)
{
	pthread_mutex_lock(&lock);
	release_block(t->dst);
	pthread_mutex_unlock(&lock);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	ON_STREAM(s, hStream);
	struct block *b = owned_block(dptr);
	if (b == NULL || b->kind == MANAGED || b->going)
		return leave(INVALID);
	b->going = s->capture == NULL;
	struct task *t = new_task(give_back);
	t->dst = dptr;
	put(s, t);
	return leave(OK);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	INITIALIZED;
	if (pool == NULL || poolProps == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	bool there = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE && poolProps->location.id >= 0 && poolProps->location.id < devices;
	struct pool *p = there ? make(POOL, sizeof *p) : NULL;
	if (p) {
		p->device = poolProps->location.id;
		p->shareable = poolProps->handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	}
	*pool = (CUmemoryPool)p;
	return leave(p ? OK : INVALID);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	FIND(pool, p, known(POOL, pool), INVALID);
	if (map == NULL)
		return leave(INVALID);
	return leave(opened(&p->open, map, count));
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	pthread_mutex_lock(&lock);
	struct object *p = known(POOL, pool);
	if (p)
		p->gone = true;
	return leave(p ? OK : INVALID);
}

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, uint64_t flags)
{
	FIND(pool, p, known(POOL, pool), INVALID);
	if (!p->shareable || handle_out == NULL || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return leave(INVALID);
	if (p->record == NULL)
		p->record = new_record(POOL, p->device, 0, 1);
	return leave(give_descriptor(handle_out, p->record));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType, uint64_t flags)
{
	struct record r;
	pthread_mutex_lock(&lock);
	int from = pool_out == NULL || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags ? -1 : take_descriptor(handle, POOL, &r);
	if (from < 0)
		return leave(INVALID);
	struct pool *p = make(POOL, sizeof *p);
	p->device = r.device;
	p->from = from;
	return STORE(pool_out, (CUmemoryPool)p);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	ENTER(c);
	struct block *b = block_at(ptr, PLAIN);
	if (shareData_out == NULL || b == NULL || b->pool == NULL || b->pool->record == NULL)
		return leave(INVALID);
	give_key(shareData_out, pool_magic, (struct ipc){.device = b->device, .offset = b->at - base, .size = b->size, .record = record_at(b->pool->record)});
	return leave(OK);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	struct ipc key;
	ENTER(c);
	struct pool *p = known(POOL, pool);
	if (p == NULL || p->from == 0 || ptr_out == NULL || shareData == NULL)
		return leave(INVALID);
	memcpy(&key, shareData, sizeof key);
	bool of_it = memcmp(key.magic, pool_magic, sizeof key.magic) == 0 && (uint64_t)lseek(p->from, 0, SEEK_CUR) == key.record;
	return leave(of_it ? take_memory(ptr_out, p->from, &key, p) : INVALID);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	pthread_mutex_lock(&lock);
	struct pool *p = known(POOL, pool);
	if (p && value && attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		memcpy(&p->threshold, value, sizeof p->threshold);
	return leave(p && value ? OK : INVALID);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	return STORE(pool_out, (CUmemoryPool)default_pool(dev));
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	return STORE(pool, (CUmemoryPool)pool_of(dev));
}
