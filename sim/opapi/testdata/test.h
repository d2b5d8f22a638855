/* Shared by the test programs: the functions of libnnopbase.so, and a record of the calls that operators make. */
#ifndef TEST_H
#define TEST_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclsim/operator.h"

#define WANT(code, call)                                                                                              \
	do {                                                                                                          \
		int want_ = (code), got_ = (call);                                                                    \
		if (want_ != got_) {                                                                                  \
			const char *why_ = aclGetRecentErrMsg();                                                      \
			fprintf(stderr, "%s:%d: %s returned %d, not %d: %s\n", __FILE__, __LINE__, #call, got_, want_, \
				why_ ? why_ : "");                                                                    \
			exit(1);                                                                                      \
		}                                                                                                     \
	} while (0)

#define OK(call) WANT(0, call)

#define CHECK(cond)                                                                         \
	do {                                                                                \
		if (!(cond)) {                                                              \
			fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #cond); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

enum { F32 = 0, F16 = 1, I32 = 3, I64 = 9, F64 = 11, BOOL8 = 12, ND = 2 };

typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct array array;
typedef struct aclOpExecutor aclOpExecutor;

aclTensor *aclCreateTensor(const int64_t *dims, uint64_t n, int32_t dtype, const int64_t *strides, int64_t offset, int32_t format, const int64_t *storage, uint64_t m, void *base);
int32_t aclInitTensor(aclTensor *t, const int64_t *dims, uint64_t n, int32_t dtype, const int64_t *strides, int64_t offset, int32_t format, const int64_t *storage, uint64_t m, void *base);
aclScalar *aclCreateScalar(void *value, int32_t dtype);
array *aclCreateIntArray(const int64_t *v, uint64_t n);
array *aclCreateFloatArray(const float *v, uint64_t n);
array *aclCreateBoolArray(const bool *v, uint64_t n);
array *aclCreateTensorList(const aclTensor *const *v, uint64_t n);
array *aclCreateScalarList(const aclScalar *const *v, uint64_t n);
int32_t aclDestroyTensor(const aclTensor *h);
int32_t aclDestroyScalar(const aclScalar *h);
int32_t aclDestroyIntArray(const array *h);
int32_t aclDestroyTensorList(const array *h);
int32_t aclGetViewShape(const aclTensor *t, int64_t **dims, uint64_t *n);
int32_t aclGetStorageShape(const aclTensor *t, int64_t **dims, uint64_t *n);
int32_t aclGetViewStrides(const aclTensor *t, int64_t **dims, uint64_t *n);
int32_t aclGetViewOffset(const aclTensor *t, int64_t *offset);
int32_t aclGetTensorListSize(const array *h, uint64_t *n);
int32_t aclSetAclOpExecutorRepeatable(aclOpExecutor *e);
int32_t aclDestroyAclOpExecutor(aclOpExecutor *e);
int32_t aclSetInputTensorAddr(aclOpExecutor *e, size_t i, aclTensor *t, void *p);
int32_t AclSetOutputTensorAddr(aclOpExecutor *e, size_t i, aclTensor *t, void *p);
int32_t aclSetTensorAddr(aclOpExecutor *e, size_t i, aclTensor *t, void *p);
int32_t AclSetTensorAddr(aclOpExecutor *e, size_t i, aclTensor *t, void *p);
int32_t aclSetDynamicInputTensorAddr(aclOpExecutor *e, size_t i, size_t k, array *l, void *p);
int32_t AclSetDynamicTensorAddr(aclOpExecutor *e, size_t i, size_t k, array *l, void *p);

/* Declares an operator whose phase one has the parameters before the last two. */
#define OPERATOR(name, ...)                                                                      \
	int32_t name##GetWorkspaceSize(__VA_ARGS__, uint64_t *size, aclOpExecutor **executor); \
	int32_t name(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)

/* Define DUMP as 1 to write each block to the standard output. */
#ifndef DUMP
#define DUMP 0
#endif

/* What the libraries called, in order, with a space after each name. */
static char calls[4096];
static _Alignas(8) char launched[64 << 10];  /* the latest argument block */
static _Alignas(8) char described[64 << 10]; /* the latest description */
static size_t described_size;
static int launches;
static aclrtFuncHandle function; /* of the latest launch */

static void called(const char *name)
{
	size_t n = strlen(calls);
	snprintf(calls + n, sizeof calls - n, "%s ", name);
}

/* Interposes a function of the runtime, or of libnnopbase.so: the program is before them in the order of symbols. */
#define RECORD(type, name, symbol, params, args, ...)                                            \
	type name params __asm__(symbol);                                                        \
	type name params                                                                         \
	{                                                                                        \
		type(*next) params = (type(*) params)(uintptr_t)dlsym(RTLD_NEXT, symbol);        \
		called(#name);                                                                   \
		__VA_ARGS__;                                                                     \
		return next args;                                                                \
	}

RECORD(aclError, aclrtGetResInCurrentThread, "aclrtGetResInCurrentThread", (aclrtDevResLimitType t, uint32_t *v), (t, v))
RECORD(aclError, aclrtGetSysParamOpt, "aclrtGetSysParamOpt", (aclSysParamOpt o, int64_t *v), (o, v))
RECORD(aclError, aclrtGetStreamAttribute, "aclrtGetStreamAttribute", (aclrtStream s, aclrtStreamAttr a, aclrtStreamAttrValue *v), (s, a, v))
RECORD(aclError, aclrtBinaryLoadFromData, "aclrtBinaryLoadFromData", (const void *d, size_t n, const aclrtBinaryLoadOptions *o, aclrtBinHandle *b), (d, n, o, b))
RECORD(aclError, aclrtBinaryGetFunction, "aclrtBinaryGetFunction", (aclrtBinHandle b, const char *n, aclrtFuncHandle *f), (b, n, f))
RECORD(aclError, aclrtLaunchKernelWithHostArgs, "aclrtLaunchKernelWithHostArgs",
       (aclrtFuncHandle f, uint32_t n, aclrtStream s, aclrtLaunchKernelCfg *c, void *args, size_t size, aclrtPlaceHolderInfo *p, size_t m), (f, n, s, c, args, size, p, m),
       CHECK(size <= sizeof launched);
       memcpy(launched, args, size);
       if (DUMP) fwrite(args, 1, size, stdout);
       function = f;
       launches++)
RECORD(aclError, aclrtCacheLastTaskOpInfo, "aclrtCacheLastTaskOpInfo", (const void *const p, const size_t n), (p, n), memcpy(described, p, n); described_size = n)
RECORD(void, InitL2Phase1Context, "_Z19InitL2Phase1ContextPKcPP13aclOpExecutor", (const char *n, aclOpExecutor **e), (n, e))
RECORD(void, InitL2Phase2Context, "_Z19InitL2Phase2ContextPKcP13aclOpExecutor", (const char *n, aclOpExecutor *e), (n, e))
RECORD(void, InitL0Context, "_Z13InitL0ContextPKcP13aclOpExecutor", (const char *n, aclOpExecutor *e), (n, e))
RECORD(int32_t, CommonOpExecutorRun, "_Z19CommonOpExecutorRunPvmP13aclOpExecutorS_", (void *w, uint64_t n, aclOpExecutor *e, void *s), (w, n, e, s))
RECORD(void, OpDfxGuardEnd, "_ZN2op10OpDfxGuardD1Ev", (void *g), (g))

static aclrtStream stream;

__attribute__((unused)) static void start(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
}

/* A contiguous tensor of floats with one dim. */
__attribute__((unused)) static aclTensor *vector(int64_t n, void *base)
{
	int64_t one = 1;
	aclTensor *t = aclCreateTensor(&n, 1, F32, &one, 0, ND, &n, 1, base);

	CHECK(t);
	return t;
}

__attribute__((unused)) static void *device(size_t n)
{
	void *p;

	OK(aclrtMalloc(&p, n, ACL_MEM_MALLOC_HUGE_FIRST));
	return p;
}

/* The latest block. */
static const aclsim_operator_block *const block = (const aclsim_operator_block *)launched;

__attribute__((unused)) static const aclsim_operator_param *param(uint32_t i)
{
	CHECK(block->magic == ACLSIM_OPERATOR_MAGIC && block->version == 1 && i < block->num_params);
	return (const aclsim_operator_param *)(launched + block->params) + i;
}

__attribute__((unused)) static const aclsim_operator_tensor *tensor(uint32_t i)
{
	CHECK(i < block->num_tensors);
	return (const aclsim_operator_tensor *)(launched + block->tensors) + i;
}

__attribute__((unused)) static const void *value(uint32_t i) { return launched + param(i)->value; }
__attribute__((unused)) static int64_t integer(uint32_t i) { return *(const int64_t *)value(i); }
__attribute__((unused)) static double real(uint32_t i) { return *(const double *)value(i); }

#endif
