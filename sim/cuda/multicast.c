/* Multicast objects: one address for memory on several devices. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
	INITIALIZED;
	if (mcHandle == NULL || prop == NULL || prop->numDevices == 0 || prop->numDevices > (uint32_t)devices || prop->size == 0 || prop->size % GRANULARITY || prop->flags)
		return INVALID;
	pthread_mutex_lock(&lock);
	struct physical *p = make(PHYSICAL, sizeof *p);
	p->size = prop->size;
	p->wanted = prop->numDevices;
	return STORE(mcHandle, (uint64_t)p);
}

static struct physical *multicast_known(CUmemGenericAllocationHandle h)
{
	struct physical *p = known(PHYSICAL, (void *)h);
	return p && p->wanted ? p : NULL;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
	DEVICE(dev);
	FIND(physical, p, multicast_known(mcHandle), INVALID);
	if (p->added >> dev & 1 || (uint32_t)__builtin_popcount(p->added) == p->wanted)
		return leave(INVALID);
	p->added |= 1U << dev;
	return leave(OK);
}

/* Memory may be bound after all devices were added. Call with the lock held. */
static CUresult bind_multicast(CUmemGenericAllocationHandle h, size_t offset, int device, uint8_t *at, size_t size, uint64_t flags)
{
	struct physical *p = multicast_known(h);
	if (p == NULL || (uint32_t)__builtin_popcount(p->added) != p->wanted || !(p->added >> device & 1) || offset % GRANULARITY || size == 0 || size % GRANULARITY || offset + size > p->size || flags)
		return INVALID;
	for (struct binding *k = p->bindings; k; k = k->next)
		if (k->device == device && offset < k->offset + k->size && k->offset < offset + size)
			return INVALID;
	struct binding *k = calloc(1, sizeof *k);
	*k = (struct binding){device, offset, size, at, p->bindings};
	p->bindings = k;
	return OK;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size, uint64_t flags)
{
	FIND(physical, m, known(PHYSICAL, (void *)memHandle), INVALID);
	if (m->wanted || m->from || memOffset % GRANULARITY || memOffset + size > m->size)
		return leave(INVALID);
	return leave(bind_multicast(mcHandle, mcOffset, m->device, arena + (m->at - base) + memOffset, size, flags));
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size, uint64_t flags)
{
	pthread_mutex_lock(&lock);
	struct block *b = holding(memptr, size);
	return leave(b && b->kind == MAPPED ? bind_multicast(mcHandle, mcOffset, b->device, arena + (memptr - base), size, flags) : INVALID);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct physical *p = multicast_known(mcHandle);
	for (struct binding **k = p ? &p->bindings : NULL; k && *k; k = &(*k)->next)
		if ((*k)->device == dev && (*k)->offset == mcOffset && (*k)->size == size) {
			struct binding *gone = *k;
			*k = gone->next;
			free(gone);
			return leave(OK);
		}
	return leave(INVALID);
}
