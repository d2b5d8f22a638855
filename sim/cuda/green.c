/* Green contexts, which own a part of a device. */
#include "driver.h"

#include <string.h>

enum { SMS = 1, LEAST_SMS = 2 }; /* the resource type, and the smallest number of processors in a part */

/* Hidden content of a resource: its processors and device, and a mark of this library and this run. */
struct share { uint64_t secret; uint32_t device, first; };

_Static_assert(sizeof(struct share) <= sizeof(((CUdevResource *)0)->_internal_padding) - 4, "a resource holds it");

struct resource { struct object o; int device; uint32_t count; };

struct green {
	struct object o;
	struct context *ctx;
	uint32_t count;
};

static struct share share_of(uint32_t device, uint32_t first) { return (struct share){base ^ (uint64_t)process << 48, device, first}; }

static CUdevResource resource_of(uint32_t device, uint32_t first, uint32_t count)
{
	CUdevResource r = {.type = SMS, .sm = {.smCount = count, .minSmPartitionSize = LEAST_SMS, .smCoscheduledAlignment = LEAST_SMS}};
	struct share s = share_of(device, first);
	memcpy(r._internal_padding + 4, &s, sizeof s);
	return r;
}

static bool right(const CUdevResource *r, struct share *s)
{
	if (r == NULL || r->type != SMS)
		return false;
	memcpy(s, r->_internal_padding + 4, sizeof *s);
	return s->secret == share_of(0, 0).secret && s->device < (uint32_t)devices;
}

static uint32_t processors(void) { return (uint32_t)device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]; }

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	DEVICE(device);
	if (resource == NULL || type != SMS)
		return INVALID;
	*resource = resource_of((uint32_t)device, 0, processors());
	return OK;
}

/* Makes groups of at least the wanted size, up to the wanted number, and returns the rest. */
CUresult cuDevSmResourceSplitByCount(CUdevResource *result, uint32_t *nbGroups, const CUdevResource *input, CUdevResource *remaining, uint32_t useFlags, uint32_t minCount)
{
	struct share s;
	(void)useFlags;
	INITIALIZED;
	if (nbGroups == NULL || !right(input, &s) || minCount > input->sm.smCount)
		return INVALID;
	uint32_t size = minCount < LEAST_SMS ? LEAST_SMS : (minCount + LEAST_SMS - 1) / LEAST_SMS * LEAST_SMS, most = input->sm.smCount / size;
	if (result && *nbGroups < most)
		most = *nbGroups;
	for (uint32_t i = 0; result && i < most; i++)
		result[i] = resource_of(s.device, s.first + i * size, size);
	if (remaining && result)
		*remaining = resource_of(s.device, s.first + most * size, input->sm.smCount - most * size);
	*nbGroups = most;
	return OK;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, uint32_t nbResources)
{
	struct share s, first = {0};
	uint32_t count = 0;
	if (phDesc == NULL || resources == NULL || nbResources == 0)
		return INVALID;
	for (uint32_t i = 0; i < nbResources; i++) {
		if (!right(&resources[i], &s) || (i && s.device != first.device) || resources[i].sm.smCount == 0)
			return INVALID;
		first = s;
		count += resources[i].sm.smCount;
	}
	pthread_mutex_lock(&lock);
	struct resource *r = make(RESOURCE, sizeof *r);
	r->device = (int)first.device;
	r->count = count;
	return STORE(phDesc, (CUdevResourceDesc)r);
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, uint32_t flags)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct resource *r = known(RESOURCE, desc);
	if (phCtx == NULL || r == NULL || r->device != dev || flags != 1 /* with a default stream */)
		return leave(INVALID);
	struct green *g = make(GREEN, sizeof *g);
	g->ctx = new_context(dev, 0);
	g->count = r->count;
	return STORE(phCtx, (CUgreenCtx)g);
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	FIND(green, g, known(GREEN, hCtx), CUDA_ERROR_INVALID_CONTEXT);
	all_done(g->ctx);
	g->o.gone = g->ctx->o.gone = true;
	return leave(OK);
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	FIND(green, g, known(GREEN, hCtx), CUDA_ERROR_INVALID_CONTEXT);
	return STORE(pContext, (CUcontext)g->ctx);
}

static struct green *green_of(const struct context *c)
{
	EACH(green, g, GREEN)
		if (g->ctx == c)
			return g;
	return NULL;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	FIND(green, g, known(GREEN, hCtx), CUDA_ERROR_INVALID_CONTEXT);
	if (resource == NULL || type != SMS)
		return leave(INVALID);
	return STORE(resource, resource_of((uint32_t)g->ctx->device, 0, g->count));
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	FIND(context, c, context_named(hCtx), CUDA_ERROR_INVALID_CONTEXT);
	if (resource == NULL || type != SMS)
		return leave(INVALID);
	struct green *g = green_of(c);
	return STORE(resource, resource_of((uint32_t)c->device, 0, g ? g->count : processors()));
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, uint32_t flags, int priority)
{
	FIND(green, g, known(GREEN, greenCtx), CUDA_ERROR_INVALID_CONTEXT);
	if (phStream == NULL || flags != CU_STREAM_NON_BLOCKING)
		return leave(INVALID);
	return STORE(phStream, (CUstream)new_stream(g->ctx, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority));
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	ON_STREAM(s, hStream);
	return STORE(phCtx, (CUgreenCtx)green_of(s->ctx));
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	ON_STREAM(s, hStream);
	return STORE(pctx, (CUcontext)s->ctx);
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	CUcontext c;
	CUresult e = cuCtxFromGreenCtx(&c, hCtx);
	return e ? e : cuCtxRecordEvent(c, hEvent);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	CUcontext c;
	CUresult e = cuCtxFromGreenCtx(&c, hCtx);
	return e ? e : cuCtxWaitEvent(c, hEvent);
}
