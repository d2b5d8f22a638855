/* Launches kernels named like functions of libc and like the kernel library's own data, with a shell command in the grid
 * dimensions, which are the first bytes that a kernel gets. Built twice: with KERNEL as the kernel library. */
#ifdef KERNEL
#include <fakecuda.h>
#include <stdlib.h>

/* It uses libc, so a search of the library with its dependencies would find libc's functions. */
void add(const struct fakecuda_launch *l)
{
	if (l->count > 100)
		abort();
}
#else
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "must.h"

int main(void)
{
	static const char *const names[] = {"add", "system", "fakecuda_kernels"};
	static const char command[12] = ">pwned";
	unsigned grid[3];
	CUcontext ctx;
	CUmodule m;
	CUfunction f;
	char ptx[256];

	memcpy(grid, command, sizeof grid);
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	for (int i = 0; i < 3; i++) {
		snprintf(ptx, sizeof ptx, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry %s()\n{\n\tret;\n}\n", names[i]);
		MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&f, m, names[i]) == 0);
		cuLaunchKernel(f, grid[0], grid[1], grid[2] ? grid[2] : 1, 1, 1, 1, 0, 0, NULL, NULL);
		MUST(cuCtxSynchronize() == 0);
	}
	return 0;
}
#endif
