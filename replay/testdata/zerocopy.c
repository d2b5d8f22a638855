/* Kernels use host memory: pinned by the driver, by its device address and by its own, and registered memory. With an
 * argument the program writes to managed memory without a call; a copy reads it, a kernel reads it, and a kernel reads that kernel's output.
 * Built twice: with KERNEL as the kernel alone, for the fake driver. */
enum { N = 1000 };

#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

void more(const struct fakecuda_launch *l)
{
	uint64_t at[2];
	int *p[2];
	for (int i = 0; i < 2; i++) {
		memcpy(&at[i], l->params[i], sizeof at[i]);
		if ((p[i] = l->memory(at[i], N * sizeof *p[i])) == NULL)
			return;
	}
	for (int i = 0; i < N; i++)
		p[0][i] = p[1][i] + 1;
}
#else
#include <cuda.h>
#include <stdlib.h>

#include "must.h"

static CUfunction f;

static int managed(void)
{
	CUdeviceptr managed, x, y;
	int values[N];
	MUST(cuMemAllocManaged(&managed, sizeof values, CU_MEM_ATTACH_GLOBAL) == 0 && cuMemAlloc(&x, sizeof values) == 0 && cuMemAlloc(&y, sizeof values) == 0);
	for (int i = 0; i < N; i++)
		((int *)managed)[i] = 1000 + i;
	void *first[] = {&x, &managed}, *second[] = {&y, &x};
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, first, NULL) == 0 && cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, second, NULL) == 0);
	MUST(cuMemcpyDtoH(values, y, sizeof values) == 0 && values[7] == 1009);
	MUST(cuMemcpyDtoH(values, managed, sizeof values) == 0 && values[7] == 1007);
	MUST(cuMemFree(managed) == 0 && cuMemFree(x) == 0 && cuMemFree(y) == 0);
	return 0;
}

int main(int argc, char **argv)
{
	(void)argv;
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry more(.param .u64 to, .param .u64 from)\n{\n\tret;\n}\n";
	CUcontext ctx;
	CUmodule m;
	CUdeviceptr d, at;
	int *pinned[2], *own = malloc(N * sizeof *own), values[N];
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&f, m, "more") == 0);
	if (argc > 1)
		return managed();
	MUST(cuMemAlloc(&d, sizeof values) == 0);
	MUST(cuMemHostAlloc((void **)&pinned[0], sizeof values, CU_MEMHOSTALLOC_DEVICEMAP) == 0 && cuMemHostGetDevicePointer(&at, pinned[0], 0) == 0);
	MUST(cuMemAllocHost((void **)&pinned[1], 2 * sizeof values) == 0);
	MUST(cuMemHostRegister(own, sizeof values, 0) == 0);
	for (int i = 0; i < N; i++)
		values[i] = i;
	MUST(cuMemcpyHtoD(d, values, sizeof values) == 0);
	int *inside = pinned[1] + 10;
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&at, &d}, NULL) == 0);
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&inside, &at}, NULL) == 0);
	struct { void *to, *from; } packed = {own, inside};
	size_t size = sizeof packed;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra) == 0);
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&d, &own}, NULL) == 0);
	MUST(cuMemcpyDtoH(values, d, sizeof values) == 0);
	for (int i = 0; i < N; i++)
		MUST(values[i] == i + 4);
	return 0;
}
#endif
