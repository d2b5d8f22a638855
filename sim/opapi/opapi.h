/* Between the operator libraries and libnnopbase.so. */
#ifndef OPAPI_H
#define OPAPI_H

#include <stdint.h>

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

/* Phase two of an operator. Like the toolkit, it runs the executor even if another operator made it. */
int32_t aclsim_operator_phase_two(const char *name, void *workspace, uint64_t workspace_size, aclOpExecutor *executor, void *stream);

/* Reports that a function is not simulated, and returns the error code for it. */
int32_t aclsim_operator_absent(const char *name);

/* The values of an aclIntArray. */
const int64_t *aclsim_int_array(const void *a);

#endif
