/* Kernel launches: host functions, found by name. */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread struct task *running;

void *memory(uint64_t addr, size_t bytes)
{
	struct context *c = running->ctx;
	if (device_address(addr)) {
		pthread_mutex_lock(&lock);
		struct block *b = holding(addr, bytes);
		/* Memory of another device needs peer access, or access rights of its pool or mapping. */
		uint32_t open = b && b->pool ? b->pool->open : b ? b->open : 0, bit = b ? 1U << b->device : 0;
		if (b && b->device != c->device && !(open >> c->device & 1) && !(c->peers & bit))
			c->error = CUDA_ERROR_ILLEGAL_ADDRESS;
		pthread_mutex_unlock(&lock);
		if (c->error)
			return NULL;
	}
	return reach(running, addr, bytes);
}

static bool see_image(uint64_t number, bool surface, struct fakecuda_image *m)
{
	CUdeviceptr at = 0;
	pthread_mutex_lock(&lock);
	struct image *i = image_known(number, surface);
	m->data = i && image_memory(&i->of, &at, m) ? seen(at, m->pitch * (m->height - 1) + m->width) : NULL;
	if (m->data == NULL)
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
	return m->data != NULL;
}

static bool see_texture(uint64_t number, struct fakecuda_image *m) { return see_image(number, false, m); }

static bool see_surface(uint64_t number, struct fakecuda_image *m) { return see_image(number, true, m); }

static size_t multicast(uint64_t addr, size_t bytes, void **copies, size_t most)
{
	size_t n = 0;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < blocks_count; i++) {
		struct block *b = &blocks[i];
		if (b->kind != MULTICAST || addr < b->at || addr + bytes > b->at + b->size || !(b->open >> running->ctx->device & 1))
			continue;
		uint64_t at = addr - b->at + b->offset;
		for (struct binding *k = b->of->bindings; k; k = k->next)
			if (at >= k->offset && at + bytes <= k->offset + k->size && n < most)
				copies[n++] = k->at + (at - k->offset);
	}
	if (n == 0)
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
	return n;
}

static void set_condition(uint64_t handle, uint32_t value)
{
	pthread_mutex_lock(&lock);
	struct condition *c = known(CONDITION, (const void *)(uintptr_t)handle);
	if (c)
		c->value = value;
	else
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
}

void *variable(const char *name, size_t bytes)
{
	pthread_mutex_lock(&lock);
	struct variable *v = variable_named(running->function->module, name, 0);
	void *p = v ? seen(v->at, bytes) : NULL;
	if (p == NULL)
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
	return p;
}

static bool see_tensor(const void *map, struct fakecuda_tensor *t)
{
	bool is = fake_tensor(map, t);
	if (!is)
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	return is;
}

void run_kernel(struct task *t)
{
	running = t;
	t->launch.memory = memory;
	t->launch.multicast = multicast;
	t->launch.condition = set_condition;
	t->launch.variable = variable;
	t->launch.texture = see_texture;
	t->launch.surface = see_surface;
	t->launch.tensor = see_tensor;
	t->launch.params = t->params;
	if (t->function->run)
		t->function->run(&t->launch);
}

/* Launches and streams share only some attributes. */
CUresult cuStreamSetAttribute(CUstream hStream, CUlaunchAttributeID attr, const CUlaunchAttributeValue *value)
{
	ON_STREAM(s, hStream);
	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		if (value && value->priority <= 0 && value->priority >= -5)
			s->priority = value->priority;
		/* fall through */
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		return leave(value ? OK : INVALID);
	default:
		return leave(INVALID);
	}
}

CUresult attributes(const CUlaunchConfig *c, bool captured, struct wishes *w)
{
	for (unsigned i = 0; i < c->numAttrs; i++) {
		const CUlaunchAttributeValue *v = &c->attrs[i].value;
		switch ((int)c->attrs[i].id) {
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
			w->cluster[0] = v->clusterDim.x, w->cluster[1] = v->clusterDim.y, w->cluster[2] = v->clusterDim.z;
			if (!v->clusterDim.x || !v->clusterDim.y || !v->clusterDim.z || c->gridDimX % v->clusterDim.x || c->gridDimY % v->clusterDim.y || c->gridDimZ % v->clusterDim.z)
				return CUDA_ERROR_INVALID_CLUSTER_SIZE;
			break;
		case CU_LAUNCH_ATTRIBUTE_PRIORITY:
			if (v->priority > 0 || v->priority < -5)
				return INVALID;
			break;
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
			w->events[0] = v->programmaticEvent.event;
			break;
		case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
			w->events[1] = v->launchCompletionEvent.event;
			break;
		case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
			if (v->accessPolicyWindow.num_bytes && seen((uint64_t)v->accessPolicyWindow.base_ptr, v->accessPolicyWindow.num_bytes) == NULL)
				return INVALID;
			break;
		case CU_LAUNCH_ATTRIBUTE_IGNORE:
		case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
		case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		case CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE:
		case CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE:
			break;
		case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
			if (!captured)
				return INVALID;
			if (v->deviceUpdatableKernelNode.deviceUpdatable)
				return CUDA_ERROR_NOT_SUPPORTED; /* kernels on a GPU would update such a node */
			break;
		default:
			return INVALID;
		}
	}
	for (int i = 0; i < 2; i++)
		if (w->events[i] && known(EVENT, w->events[i]) == NULL)
			return HANDLE;
	return OK;
}

/* A launch task. */
CUresult kernel_task(const CUlaunchConfig *c, bool captured, const void *func, void **kernelParams, void **extra, struct wishes *w, struct task **out)
{
	struct function *f = launchable(func);
	if (f == NULL)
		return HANDLE;
	uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
	if (!c->gridDimX || !c->gridDimY || !c->gridDimZ || threads == 0 || threads > 1024)
		return INVALID;
	CUresult e = attributes(c, captured, w);
	if (e != OK)
		return e;
	const uint8_t *packed = NULL;
	size_t size = 0;
	for (void **x = extra; x && x[0] != CU_LAUNCH_PARAM_END; x += 2) {
		if (x[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			packed = x[1];
		else if (x[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(size_t *)x[1];
		else
			return INVALID;
	}
	if ((kernelParams && extra) || (packed && size < f->size) || (f->count && !kernelParams && !packed))
		return INVALID;
	if (f->run == NULL) {
		const char *none = NULL, *name = strdup(f->name);

		if (name != NULL && !atomic_compare_exchange_strong(&missing_kernel, &none, name))
			free((char *)name);
	}
	if (f->run == NULL && !f->told) {
		fprintf(stderr, "fakecuda: kernel %s is in no kernel library: it writes nothing; name its library in FAKECUDA_KERNELS\n", f->name);
		report('?', f->name);
	}
	f->told = true;
	struct task *t = new_task(run_kernel);
	t->function = f;
	t->args = calloc(1, f->size + 1);
	t->params = calloc(f->count + 1, sizeof *t->params);
	for (size_t i = 0; i < f->count; i++) {
		memcpy(t->args + f->params[i].at, packed ? packed + f->params[i].at : kernelParams[i], f->params[i].size);
		t->params[i] = t->args + f->params[i].at;
	}
	t->launch = (struct fakecuda_launch){
		.grid = {c->gridDimX, c->gridDimY, c->gridDimZ}, .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
		.cluster = {w->cluster[0], w->cluster[1], w->cluster[2]}, .shared = c->sharedMemBytes, .count = (uint32_t)f->count,
	};
	*out = t;
	return OK;
}

CUresult launch(const CUlaunchConfig *c, const void *func, void **kernelParams, void **extra)
{
	struct task *t;
	struct wishes w = {.cluster = {1, 1, 1}};
	if (c == NULL || (c->numAttrs && c->attrs == NULL))
		return INVALID;
	ON_STREAM(s, c->hStream);
	CUresult e = kernel_task(c, s->capture != NULL, func, kernelParams, extra, &w, &t);
	if (e)
		return leave(e);
	put(s, t);
	for (int i = 0; i < 2; i++)
		if (w.events[i])
			record_on(s, known(EVENT, w.events[i]));
	return leave(OK);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) { return launch(config, f, kernelParams, extra); }

CUresult cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes,
			CUstream hStream, void **kernelParams, void **extra)
{
	CUlaunchConfig c = {gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, NULL, 0};
	return launch(&c, f, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,
				   unsigned sharedMemBytes, CUstream hStream, void **kernelParams)
{
	return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, NULL);
}

void call(struct task *t)
{
	in_callback = true;
	if (t->fn)
		t->fn(t->data);
	else
		t->callback(t->handle, t->ctx->error, t->data);
	in_callback = false;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	if (fn == NULL)
		return INVALID;
	ON_STREAM(s, hStream);
	struct task *t = new_task(call);
	t->fn = fn, t->data = userData;
	put(s, t);
	return leave(OK);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned flags)
{
	if (callback == NULL || flags)
		return INVALID;
	ON_STREAM(s, hStream);
	struct task *t = new_task(call);
	t->callback = callback, t->data = userData, t->handle = hStream;
	put(s, t);
	return leave(OK);
}

CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData, unsigned syncMode)
{
	return syncMode > CU_HOST_TASK_SPINWAIT ? INVALID : cuLaunchHostFunc(hStream, fn, userData);
}
