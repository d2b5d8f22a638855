/* Between the operator libraries and libnnopbase.so. */
#ifndef OPAPI_H
#define OPAPI_H

#include <stdint.h>
#include <string.h>

#define OPAPI_EXPORT __attribute__((visibility("default")))

/* Results of operators. */
enum {
	OPAPI_OK = 0,
	OPAPI_NULL_POINTER = 161001,
	OPAPI_INVALID = 161002,
	OPAPI_RUNTIME = 361001,
	OPAPI_NO_KERNEL = 561003,
	OPAPI_NO_EXECUTOR = 561101,
	OPAPI_INNER_NULL = 561103,
};

typedef struct aclOpExecutor aclOpExecutor;

/*
 * Phase one of an operator, by its number. text has four parts, and each ends with a zero byte: the operator's name, a type for each parameter, a role
 * for each, a rule for shapes. args has one word a parameter, as in the argument block; pointers as they are. The caller
 * is the operator's function, so all text is constant.
 */
int32_t aclsim_operator_phase_one(uint32_t index, const char *text, const uint64_t *args, uint64_t *workspace_size, aclOpExecutor **executor);

/* The function with the name that ends in GetMaxWorkspaceSize: phase one for the largest shapes. No cache keeps its executor. */
int32_t aclsim_operator_max_size(uint32_t index, const char *text, const uint64_t *args, uint64_t *workspace_size, aclOpExecutor **executor);

/*
 * Operators of the toolkit call these at the boundaries of their phases, from their own library. So do the operators here, through the procedure linkage
 * table. A preloaded library or a probe sees each phase. CommonOpExecutorRun is phase two: it runs the executor even if another operator made it.
 */
void InitL2Phase1Context(const char *name, aclOpExecutor **executor) __asm__("_Z19InitL2Phase1ContextPKcPP13aclOpExecutor");
void InitL2Phase2Context(const char *name, aclOpExecutor *executor) __asm__("_Z19InitL2Phase2ContextPKcP13aclOpExecutor");
void InitL0Context(const char *name, aclOpExecutor *executor) __asm__("_Z13InitL0ContextPKcP13aclOpExecutor");
int32_t CommonOpExecutorRun(void *workspace, uint64_t size, aclOpExecutor *executor, void *stream) __asm__("_Z19CommonOpExecutorRunPvmP13aclOpExecutorS_");
void OpDfxGuardEnd(void *guard) __asm__("_ZN2op10OpDfxGuardD1Ev");

/* Stands for an object of the class op::OpDfxGuard, whose destructor ends each phase and each inner operator. */
typedef struct op_guard {
	uint64_t words[8];
} op_guard;

/* The type of an operator's kernel: its name without the prefix aclnn or acl. The inner operator that launches it has the suffix AiCore. */
static inline const char *op_kernel_type(const char *name) { return name + (strncmp(name, "aclnn", 5) ? 3 : 5); }

/* Reports that a function is not simulated, and returns the error code for it. */
int32_t aclsim_operator_absent(const char *name);

/* The values of an aclIntArray. */
const int64_t *aclsim_int_array(const void *a);

#endif
