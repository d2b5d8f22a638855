/* Functions of libnnopbase.so that belong to no handle. */
#include "handle.h"

OPAPI_EXPORT int32_t aclnnInit(const char *path)
{
	(void)path;
	return OPAPI_OK;
}

OPAPI_EXPORT int32_t aclnnFinalize(void) { return OPAPI_OK; }

/* Nothing is dumped: no contents were computed. */
OPAPI_EXPORT int32_t aclDumpOpTensors(const char *type, const char *name, aclTensor **tensors, size_t inputs, size_t outputs, void *stream)
{
	(void)type;
	(void)name;
	(void)inputs;
	(void)outputs;
	(void)stream;
	return tensors ? OPAPI_OK : report(OPAPI_NULL_POINTER, __func__, "the tensors are null");
}

/* No operator has a static kernel. */
OPAPI_EXPORT int32_t aclnnReselectStaticKernel(void) { return OPAPI_OK; }

OPAPI_EXPORT int32_t aclnnReselectStaticKernelWithPath(const char *path)
{
	(void)path;
	return OPAPI_OK;
}

OPAPI_EXPORT int32_t aclsim_operator_absent(const char *name) { return report(OPAPI_NO_KERNEL, name, "the function is not simulated"); }

OPAPI_EXPORT const int64_t *aclsim_int_array(const void *a) { return ((const array *)a)->data; }
