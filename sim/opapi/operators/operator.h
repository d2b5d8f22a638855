/* How a row of operators.tsv becomes the functions of an operator. */
#ifndef OPERATOR_H
#define OPERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "../opapi.h"

/* The C type of each letter. A caller passes a bool in one byte, and leaves the rest of its register undefined. */
typedef const void *op_p;
typedef int64_t op_i;
typedef uint64_t op_u;
typedef int32_t op_j;
typedef int16_t op_h;
typedef int8_t op_c;
typedef uint8_t op_b;
typedef double op_d;
typedef float op_f;

static inline uint64_t word_d(double v)
{
	uint64_t w;

	memcpy(&w, &v, sizeof w);
	return w;
}

#define word_p(v) ((uint64_t)(uintptr_t)(v))
#define word_i(v) ((uint64_t)(v))
#define word_u(v) (v)
#define word_j(v) ((uint64_t)(int64_t)(v))
#define word_h(v) ((uint64_t)(int64_t)(v))
#define word_c(v) ((uint64_t)(int64_t)(v))
#define word_b(v) ((uint64_t)((v) != 0))
#define word_f(v) word_d(v)

/* The last parameters of phase one. */
#define OP_OUT uint64_t *workspace_size, aclOpExecutor **executor

/* Both phases of all operators. An inner operator begins once phase one has accepted its arguments. */
typedef int32_t op_make(uint32_t index, const char *text, const uint64_t *args, uint64_t *workspace_size, aclOpExecutor **executor);

static inline int32_t op_phase_one(op_make *make, uint32_t index, const char *text, const char *inner, const uint64_t *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
	op_guard g = {{0}}, g0 = {{0}};

	InitL2Phase1Context(text, executor);
	int32_t error = make(index, text, args, workspace_size, executor);
	if (!error) {
		InitL0Context(op_kernel_type(inner), *executor);
		OpDfxGuardEnd(&g0);
	}
	OpDfxGuardEnd(&g);
	return error;
}

static inline int32_t op_phase_two(const char *name, void *workspace, uint64_t workspace_size, aclOpExecutor *executor, void *stream)
{
	op_guard g = {{0}};

	InitL2Phase2Context(name, executor);
	int32_t error = CommonOpExecutorRun(workspace, workspace_size, executor, stream);
	OpDfxGuardEnd(&g);
	return error;
}

#define OP_PHASE_ONE(index, name, text, params, ...)                                                       \
	OPAPI_EXPORT int32_t name##GetWorkspaceSize params                                                 \
	{                                                                                                  \
		const uint64_t args[] = {__VA_ARGS__};                                                     \
		return op_phase_one(aclsim_operator_phase_one, index, #name "\0" text, #name "AiCore", args, workspace_size, executor); \
	}

#define OP_MAX_SIZE(index, name, text, params, ...)                                                       \
	OPAPI_EXPORT int32_t name##GetMaxWorkspaceSize params                                             \
	{                                                                                                 \
		const uint64_t args[] = {__VA_ARGS__};                                                    \
		return op_phase_one(aclsim_operator_max_size, index, #name "\0" text, #name "AiCore", args, workspace_size, executor); \
	}

#define OP_PHASE_TWO(name)                                                                                          \
	OPAPI_EXPORT int32_t name(void *workspace, uint64_t workspace_size, aclOpExecutor *executor, void *stream)  \
	{                                                                                                           \
		return op_phase_two(#name, workspace, workspace_size, executor, stream);                            \
	}

#define OPERATOR(index, name, text, params, ...)             \
	OP_PHASE_ONE(index, name, text, params, __VA_ARGS__) \
	OP_PHASE_TWO(name)

#endif
