/* A CUDA driver whose launches return at once, to measure the layers above it. Each kernel has four 8-byte arguments. */
#define ACLTRACE_EXACT_NAMES
#include "cuda.h"

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	(void)config, (void)f, (void)kernelParams, (void)extra;
	return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	(void)func;
	*paramOffset = 8 * paramIndex;
	*paramSize = 8;
	return paramIndex < 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
