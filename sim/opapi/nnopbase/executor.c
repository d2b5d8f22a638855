/*
 * Executors: phase one makes one, phase two runs and ends it, also when it fails. A repeatable one lives until it is destroyed.
 */
#include "executor.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

void OpDfxGuardEndBase(void *guard) __asm__("_ZN2op10OpDfxGuardD2Ev");

static __thread const char *running; /* the operator whose phase two the thread is in, NULL for none */

OPAPI_EXPORT void OpDfxGuardEnd(void *g) { (void)g; }
OPAPI_EXPORT void OpDfxGuardEndBase(void *g) { (void)g; }

/* An operator reads the core limits and the options of its thread first. */
OPAPI_EXPORT void InitL2Phase1Context(const char *name, aclOpExecutor **executor)
{
	uint32_t cores;
	int64_t deterministic;

	(void)name;
	(void)executor;
	aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &cores);
	aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &cores);
	aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &deterministic);
}

OPAPI_EXPORT void InitL2Phase2Context(const char *name, aclOpExecutor *executor)
{
	(void)executor;
	running = name;
}

OPAPI_EXPORT void InitL0Context(const char *name, aclOpExecutor *executor)
{
	(void)name;
	(void)executor;
}

aclOpExecutor *executor_of(uint32_t index, const char *text, aclsim_operator_block *block)
{
	aclOpExecutor *e = block ? handle_new(EXECUTOR) : NULL;

	if (!e) {
		free(block);
		return NULL;
	}
	e->call = (frozen){index, text, block};
	e->shaped = (shaped){0};
	e->workspace_size = 0;
	e->entry = NULL;
	atomic_store(&e->repeatable, false);
	return e;
}

/* Frees an executor that has ended. */
static void release(aclOpExecutor *e, bool well)
{
	if (e->entry)
		cache_ran(e->entry, well);
	free(e->call.block);
	handle_free(e, EXECUTOR);
}

static bool has_device_shape(const char *roles)
{
	return roles[strcspn(roles, "dD")];
}

static void keep_tensors(const char *text, const uint64_t *args, shaped *s)
{
	const char *types = text_types(text);
	size_t n = 0;

	for (size_t i = 0; types[i]; i++)
		if ((types[i] == 'T' || types[i] == 't') && n < sizeof s->tensors / sizeof *s->tensors)
			s->tensors[n++] = (aclTensor *)(uintptr_t)args[i];
		else if (types[i] == 'b')
			s->counts = args[i]; /* the last flag */
}

static int32_t make(uint32_t index, const char *text, const uint64_t *args, bool cached, uint64_t *workspace_size, aclOpExecutor **executor)
{
	int32_t error;
	aclsim_operator_block *block = block_make(text, args, &error);

	if (!block)
		return error;
	if ((error = check_shapes(text, args))) {
		free(block);
		return error;
	}
	aclOpExecutor *e = executor_of(index, text, block);
	if (!e)
		return report(OPAPI_NO_EXECUTOR, text, "memory is exhausted");
	if (has_device_shape(text_roles(text)))
		keep_tensors(text, args, &e->shaped);
	if (cached)
		cache_add(e);
	*workspace_size = e->workspace_size;
	*executor = e;
	return OPAPI_OK;
}

static int32_t phase_one(uint32_t index, const char *text, const uint64_t *args, bool cached, uint64_t *workspace_size, aclOpExecutor **executor)
{
	if (!workspace_size || !executor)
		return report(OPAPI_NULL_POINTER, text, "the workspace size or the executor is null");
	return make(index, text, args, cached, workspace_size, executor);
}

OPAPI_EXPORT int32_t aclsim_operator_phase_one(uint32_t index, const char *text, const uint64_t *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
	return phase_one(index, text, args, true, workspace_size, executor);
}

OPAPI_EXPORT int32_t aclsim_operator_max_size(uint32_t index, const char *text, const uint64_t *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
	return phase_one(index, text, args, false, workspace_size, executor);
}

static int32_t run(void *workspace, uint64_t size, aclOpExecutor *e, void *stream)
{
	bool describe = stream && launch_describes(stream), shaped_there = has_device_shape(text_roles(e->call.text));

	if (shaped_there && launch_captures(stream))
		return report(OPAPI_RUNTIME, e->call.text, "the shape of its result is only known on the device: a captured stream can't return it");
	e->call.block->workspace = (uint64_t)(uintptr_t)workspace;
	e->call.block->workspace_size = size;
	int32_t error = launch(&e->call, stream, describe);
	if (!error && shaped_there)
		shapes_read(e->call.text, &e->shaped, stream);
	return error;
}

OPAPI_EXPORT int32_t CommonOpExecutorRun(void *workspace, uint64_t size, aclOpExecutor *e, void *stream)
{
	const char *name = running ? running : __func__;

	running = NULL;
	if (!e)
		return report(OPAPI_NULL_POINTER, name, "the executor is null");
	if (handle_is(e, EXECUTOR) && atomic_load(&e->repeatable))
		return run(workspace, size, e, stream);
	if (!handle_end(e, EXECUTOR))
		return report(OPAPI_INNER_NULL, name, "executor %p has run already, or no phase one made it: call phase one again", (void *)e);
	int32_t error = run(workspace, size, e, stream);
	release(e, error == OPAPI_OK);
	return error;
}

OPAPI_EXPORT int32_t aclSetAclOpExecutorRepeatable(aclOpExecutor *e)
{
	if (!e)
		return report(OPAPI_NULL_POINTER, __func__, "the executor is null");
	if (!handle_is(e, EXECUTOR))
		return report(OPAPI_INVALID, __func__, "executor %p has ended, or no phase one made it", (void *)e);
	atomic_store(&e->repeatable, true);
	return OPAPI_OK;
}

OPAPI_EXPORT int32_t aclDestroyAclOpExecutor(aclOpExecutor *e)
{
	if (!e)
		return report(OPAPI_NULL_POINTER, __func__, "the executor is null");
	if (!handle_end(e, EXECUTOR))
		return report(OPAPI_INVALID, __func__, "executor %p has ended, or no phase one made it", (void *)e);
	release(e, false);
	return OPAPI_OK;
}

/*
 * Changes the address of a tensor. index counts the tensor parameters that have a role in `roles`, in the order of phase one, absent
 * ones too. position is that in a list; SIZE_MAX for a parameter that is no list.
 */
static int32_t set_address(aclOpExecutor *e, uint8_t roles, size_t index, size_t position, const void *handle, void *address, const char *func)
{
	if (!e || !handle)
		return report(OPAPI_NULL_POINTER, func, "the executor, or the tensor, is null");
	if (!handle_is(e, EXECUTOR) || !handle_is(handle, position == SIZE_MAX ? TENSOR : TENSORS))
		return report(OPAPI_INVALID, func, "the executor, or the tensor, has ended or never was one");
	aclsim_operator_block *b = e->call.block;
	const char *letters = text_roles(e->call.text);
	for (uint32_t i = 0; i < b->num_params; i++) {
		const aclsim_operator_param *p = &block_params(b)[i];
		if (!(role_of(letters[i]) & roles) || index-- > 0)
			continue;
		bool list = p->type == 'L' || p->type == 'l';
		size_t k = position == SIZE_MAX ? 0 : position;
		if (list != (position != SIZE_MAX) || k >= p->count || block_tensors(b)[p->value + k].flags & ACLSIM_OPERATOR_ABSENT)
			break;
		block_tensors(b)[p->value + k].base = (uint64_t)(uintptr_t)address;
		return OPAPI_OK;
	}
	return report(OPAPI_INVALID, func, "%s has no such tensor, or phase one got none for it", e->call.text);
}

/* Each function has two spellings. */
#define SET_ADDRESS(name, roles)                                                                                     \
	OPAPI_EXPORT int32_t acl##name(aclOpExecutor *e, size_t index, aclTensor *t, void *address)                  \
	{                                                                                                            \
		return set_address(e, roles, index, SIZE_MAX, t, address, __func__);                                 \
	}                                                                                                            \
	OPAPI_EXPORT int32_t Acl##name(aclOpExecutor *e, size_t index, aclTensor *t, void *address)                  \
	{                                                                                                            \
		return set_address(e, roles, index, SIZE_MAX, t, address, __func__);                                 \
	}

#define SET_LIST_ADDRESS(name, roles)                                                                                \
	OPAPI_EXPORT int32_t acl##name(aclOpExecutor *e, size_t index, size_t position, array *list, void *address)  \
	{                                                                                                            \
		return set_address(e, roles, index, position, list, address, __func__);                              \
	}                                                                                                            \
	OPAPI_EXPORT int32_t Acl##name(aclOpExecutor *e, size_t index, size_t position, array *list, void *address)  \
	{                                                                                                            \
		return set_address(e, roles, index, position, list, address, __func__);                              \
	}

SET_ADDRESS(SetInputTensorAddr, ACLSIM_OPERATOR_IN)
SET_ADDRESS(SetOutputTensorAddr, ACLSIM_OPERATOR_OUT)
SET_ADDRESS(SetTensorAddr, ACLSIM_OPERATOR_IN | ACLSIM_OPERATOR_OUT)
SET_LIST_ADDRESS(SetDynamicInputTensorAddr, ACLSIM_OPERATOR_IN)
SET_LIST_ADDRESS(SetDynamicOutputTensorAddr, ACLSIM_OPERATOR_OUT)
SET_LIST_ADDRESS(SetDynamicTensorAddr, ACLSIM_OPERATOR_IN | ACLSIM_OPERATOR_OUT)
