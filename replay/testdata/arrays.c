/* Copies to, between and from arrays, and a kernel that reads memory that such a copy wrote. Built twice: with KERNEL as the kernel alone, for the fake driver. */
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* to[i] = from[i] + 1 */
void next(const struct fakecuda_launch *l)
{
	uint64_t to, from;
	memcpy(&to, l->params[0], 8);
	memcpy(&from, l->params[1], 8);
	uint8_t *out = l->memory(to, 64), *in = l->memory(from, 64);
	for (int i = 0; out && in && i < 64; i++)
		out[i] = (uint8_t)(in[i] + 1);
}
#else
#include <cuda.h>

#include "must.h"

int main(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry next(.param .u64 to, .param .u64 from)\n{\n\tret;\n}\n";
	CUcontext ctx;
	CUmodule m;
	CUfunction next;
	CUdeviceptr from, to, other;
	CUarray array, second, level;
	CUmipmappedArray levels;
	uint8_t bytes[64], got[64];
	for (int i = 0; i < 64; i++)
		bytes[i] = (uint8_t)(3 * i);
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&next, m, "next") == 0);
	MUST(cuMemAlloc(&from, 64) == 0 && cuMemAlloc(&to, 64) == 0 && cuMemAlloc(&other, 64) == 0);
	MUST(cuMemcpyHtoD(other, bytes, 64) == 0); /* not needed by the kernel */
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = 64, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	MUST(cuArrayCreate(&array, &shape) == 0 && cuArrayCreate(&second, &shape) == 0);
	MUST(cuMipmappedArrayCreate(&levels, &deep, 1) == 0 && cuMipmappedArrayGetLevel(&level, levels, 0) == 0);
	MUST(cuMemcpyHtoA(array, 0, bytes, 64) == 0 && cuMemcpyHtoA(array, 0, bytes + 1, 16) == 0);
	MUST(cuMemcpyAtoA(second, 0, array, 0, 64) == 0 && cuMemcpyAtoD(from, second, 0, 64) == 0);
	void *params[] = {&to, &from};
	MUST(cuLaunchKernel(next, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == 0 && cuCtxSynchronize() == 0);
	MUST(cuMemcpyDtoH(got, to, 64) == 0 && got[0] == 4 && got[20] == 61);
	MUST(cuMemcpyDtoA(level, 0, to, 64) == 0);
	MUST(cuMemcpyAtoH(got, array, 0, 64) == 0 && cuMemcpyAtoH(got, second, 0, 64) == 0 && cuMemcpyAtoH(got, level, 0, 64) == 0);
	return 0;
}
#endif
