/* cuMem: allocation, pools, reserved addresses, physical memory, and sharing between processes. */
#include "driver.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

CUresult cuMemGetInfo_v2(size_t *free_, size_t *total)
{
	ENTER(c);
	*free_ = room(c->device);
	return STORE(total, TOTAL / (uint64_t)devices);
}

static CUresult memory_call(CUdeviceptr *p, size_t size, int kind)
{
	ENTER(c);
	CUresult e = allocate(c->device, p, size, kind, placed());
	if (e == OK)
		block_at(*p, kind)->by = c;
	return leave(e);
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) { return memory_call(dptr, bytesize, PLAIN); }

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned flags)
{
	(void)flags;
	return memory_call(dptr, bytesize, MANAGED);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned ElementSizeBytes)
{
	if (pPitch == NULL || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return INVALID;
	*pPitch = (WidthInBytes + UNIT - 1) / UNIT * UNIT;
	return memory_call(dptr, *pPitch * Height, PLAIN);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	ENTER(c);
	if (dptr == 0)
		return leave(OK);
	if (owned_block(dptr))
		all_done(c);
	return leave(release_block(dptr));
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	ENTER(c);
	for (size_t i = 0; i < blocks_count; i++)
		if (blocks[i].kind <= MANAGED && dptr >= blocks[i].at && dptr < blocks[i].at + blocks[i].size) {
			if (pbase)
				*pbase = blocks[i].at;
			if (psize)
				*psize = blocks[i].size;
			return leave(OK);
		}
	return leave(CUDA_ERROR_NOT_FOUND);
}

static CUresult add_host(void *p, size_t size, unsigned flags, bool own_)
{
	struct host *h = calloc(1, sizeof *h);
	*h = (struct host){p, size, flags, own_, hosts};
	hosts = h;
	return OK;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned Flags)
{
	ENTER(c);
	if (pp == NULL || bytesize == 0)
		return leave(INVALID);
	void *p = mmap(NULL, bytesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	*pp = p;
	return leave(add_host(p, bytesize, Flags, true));
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) { return cuMemHostAlloc(pp, bytesize, 0); }

static CUresult end_host(void *p, bool own_)
{
	ENTER(c);
	if (host_of(p))
		all_done(c); /* releases the lock while it waits */
	for (struct host **h = &hosts; *h; h = &(*h)->next)
		if ((*h)->at == p && (*h)->own == own_) {
			struct host *gone = *h;
			*h = gone->next;
			if (own_)
				munmap(p, gone->size);
			free(gone);
			return leave(OK);
		}
	return leave(own_ ? INVALID : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult cuMemFreeHost(void *p) { return end_host(p, true); }

CUresult cuMemHostUnregister(void *p) { return end_host(p, false); }

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned Flags)
{
	ENTER(c);
	if (p == NULL || bytesize == 0)
		return leave(INVALID);
	return leave(host_of(p) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : add_host(p, bytesize, Flags, false));
}

CUresult cuMemHostGetFlags(unsigned *pFlags, void *p)
{
	ENTER(c);
	struct host *h = host_of(p);
	if (pFlags && h)
		*pFlags = h->flags;
	return leave(pFlags && h ? OK : INVALID);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned Flags)
{
	ENTER(c);
	if (pdptr == NULL || Flags || host_of(p) == NULL)
		return leave(INVALID);
	return STORE(pdptr, (CUdeviceptr)p);
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	ENTER(c);
	bool device = device_address(ptr) && seen(ptr, 1), host = !device && host_of((void *)ptr);
	if (!device && !host)
		return leave(INVALID);
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(uint64_t *)data = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = device ? holding(ptr, 1)->device : c->device;
		break;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(void **)data = device && holding(ptr, 1)->by ? holding(ptr, 1)->by : c;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(int *)data = device && holding(ptr, 1)->kind == MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(int *)data = 1;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(int *)data = device && holding(ptr, 1)->kind == PLAIN && holding(ptr, 1)->pool == NULL;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(uint64_t *)data = device ? holding(ptr, 1)->at : (uint64_t)host_of((void *)ptr)->at;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(uint64_t *)data = device ? holding(ptr, 1)->size : host_of((void *)ptr)->size;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(void **)data = device ? holding(ptr, 1)->pool : NULL;
		break;
	default:
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	return leave(OK);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
	(void)option;
	if (!initialized || granularity == NULL || prop == NULL)
		return initialized ? INVALID : CUDA_ERROR_NOT_INITIALIZED;
	*granularity = GRANULARITY;
	return OK;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, uint64_t flags)
{
	INITIALIZED;
	if (ptr == NULL || size == 0 || size % GRANULARITY || flags)
		return INVALID;
	pthread_mutex_lock(&lock);
	uint64_t align = alignment > GRANULARITY ? alignment : GRANULARITY, wish = placed();
	uint64_t at = find_room(RESERVE_AT, IMPORTS_AT, size, align, wish ? wish : addr);
	/* Mappings of the program at these addresses stay there. */
	if (at == 0 || mmap((void *)at, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, (off_t)(at - base)) != (void *)at)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	insert((struct block){.at = at, .size = size, .kind = RESERVED});
	return STORE(ptr, at);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	FIND(block, b, block_at(ptr, RESERVED), INVALID);
	if (b->size != size)
		return leave(INVALID);
	munmap((void *)ptr, size);
	erase(b);
	return leave(OK);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, uint64_t flags)
{
	INITIALIZED;
	if (handle == NULL || prop == NULL || size == 0 || size % GRANULARITY || flags)
		return INVALID;
	int device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : 0;
	DEVICE(device);
	pthread_mutex_lock(&lock);
	uint64_t at = size > room(device) ? 0 : find_room(PHYSICAL_AT, ARENA, size, GRANULARITY, 0);
	if (at == 0)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	struct physical *p = make(PHYSICAL, sizeof *p);
	p->at = at;
	p->size = size;
	p->device = device;
	p->as = *prop;
	used[device] += size;
	insert((struct block){.at = at, .size = size, .kind = BACKING, .device = device});
	return STORE(handle, (uint64_t)p);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	FIND(physical, p, known(PHYSICAL, (void *)handle), INVALID);
	p->o.gone = p->retained == 0; /* its mappings stay */
	p->retained -= p->retained > 0;
	return leave(OK);
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType, uint64_t flags)
{
	FIND(physical, p, known(PHYSICAL, (void *)handle), INVALID);
	if (p->from || p->wanted || shareableHandle == NULL || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return leave(INVALID);
	return leave(give_descriptor(shareableHandle, new_record(PHYSICAL, p->device, p->at - base, p->size)));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle, CUmemAllocationHandleType shHandleType)
{
	struct record r;
	pthread_mutex_lock(&lock);
	int from = handle == NULL || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? -1 : take_descriptor(osHandle, PHYSICAL, &r);
	if (from < 0)
		return leave(INVALID);
	struct physical *p = make(PHYSICAL, sizeof *p);
	p->at = base + r.at;
	p->size = r.size;
	p->device = r.device;
	p->from = from;
	return STORE(handle, (uint64_t)p);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, uint64_t flags)
{
	pthread_mutex_lock(&lock);
	struct physical *p = known(PHYSICAL, (void *)handle);
	bool in = false;
	for (size_t i = 0; i < blocks_count; i++)
		in = in || (blocks[i].kind == RESERVED && ptr >= blocks[i].at && ptr + size <= blocks[i].at + blocks[i].size);
	if (p == NULL || !in || flags || size % GRANULARITY || offset + size > p->size || seen(ptr, 1))
		return leave(INVALID);
	if (p->wanted) {
		insert((struct block){.at = ptr, .size = size, .kind = MULTICAST, .of = p, .offset = offset});
		return leave(OK);
	}
	if (mmap(arena + (ptr - base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->from ? p->from : file, (off_t)(p->at - base + offset)) == MAP_FAILED)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	insert((struct block){.at = ptr, .size = size, .kind = MAPPED, .device = p->device, .of = p});
	return leave(OK);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	pthread_mutex_lock(&lock);
	struct block *b = block_at(ptr, MAPPED);
	if (b == NULL)
		b = block_at(ptr, MULTICAST);
	if (b == NULL || b->size != size)
		return leave(INVALID);
	erase(b);
	return leave(OK);
}

static const char memory_magic[8] = "fakeipc";

const char event_magic[8] = "fakeevt";

const char pool_magic[8] = "fakeptr";

_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "a key holds it");

void give_key(void *out, const char magic[8], struct ipc key)
{
	key.process = getpid();
	key.file = file;
	memcpy(key.magic, magic, sizeof key.magic);
	memset(out, 0, sizeof(CUipcMemHandle));
	memcpy(out, &key, sizeof key);
}

/* Maps memory of another process from that process's file. */
CUresult take_memory(CUdeviceptr *out, int from, const struct ipc *key, struct pool *pool)
{
	uint64_t before = key->offset % PAGE, whole = (before + key->size + PAGE - 1) / PAGE * PAGE;
	uint64_t at = from < 0 ? 0 : find_room(IMPORTS_AT, PHYSICAL_AT, whole, PAGE, 0);
	if (at == 0 || mmap(arena + (at - base), whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, from, (off_t)(key->offset - before)) == MAP_FAILED)
		return CUDA_ERROR_MAP_FAILED;
	insert((struct block){.at = at, .size = whole, .kind = IMPORTED, .device = key->device, .open = ~0U, .pool = pool});
	*out = at + before;
	return OK;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	ENTER(c);
	struct block *b = block_at(dptr, PLAIN);
	if (pHandle == NULL || b == NULL)
		return leave(INVALID);
	give_key(pHandle, memory_magic, (struct ipc){.device = b->device, .offset = b->at - base, .size = b->size});
	return leave(OK);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags)
{
	struct ipc key;
	memcpy(&key, &handle, sizeof key);
	if (pdptr == NULL || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || memcmp(key.magic, memory_magic, sizeof key.magic) != 0)
		return INVALID;
	ENTER(c);
	if (key.process == getpid())
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	int from = open_file(key.process, key.file);
	CUresult e = take_memory(pdptr, from, &key, NULL);
	if (from >= 0)
		close(from);
	return leave(e);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	ENTER(c);
	all_done(c);
	struct block *b = block_at(dptr - dptr % PAGE, IMPORTED);
	if (b == NULL || b->pool)
		return leave(INVALID);
	leave_block(b);
	return leave(OK);
}

/* Grants device kernels access to memory, or revokes it. */
CUresult opened(uint32_t *open, const CUmemAccessDesc *desc, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			continue;
		if (desc[i].location.id < 0 || desc[i].location.id >= devices)
			return CUDA_ERROR_INVALID_DEVICE;
		uint32_t bit = 1U << desc[i].location.id;
		*open = desc[i].flags ? *open | bit : *open & ~bit;
	}
	return OK;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	pthread_mutex_lock(&lock);
	struct block *b = holding(ptr, size);
	if (b == NULL)
		b = block_at(ptr, MULTICAST);
	if (b == NULL || desc == NULL || count == 0)
		return leave(INVALID);
	return leave(opened(&b->open, desc, count));
}
