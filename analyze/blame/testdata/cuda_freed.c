/*
 * A program of CUDA that gives a kernel memory which it has freed, where another allocation ends. Built twice: with KERNEL as the kernels
 * alone, for the fake driver.
 */
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

static void change(const struct fakecuda_launch *l)
{
	uint64_t at;
	uint32_t n;
	memcpy(&at, l->params[0], sizeof at);
	memcpy(&n, l->params[1], sizeof n);
	uint8_t *p = l->memory(at, n);
	if (p != NULL)
		p[0]++;
}

void scale(const struct fakecuda_launch *l) { change(l); }
void clip(const struct fakecuda_launch *l) { change(l); }
#else
#include <cuda.h>

#include "must.h"

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			  ".visible .entry scale(.param .u64 x, .param .u32 n)\n{\n\tret;\n}\n"
			  ".visible .entry clip(.param .u64 x, .param .u32 n)\n{\n\tret;\n}\n";

enum { STEPS = 300, WRONG = 250, STREAMS = 3, SIZE = 4096 };

static void launch(CUfunction f, CUdeviceptr at, CUstream on)
{
	uint32_t n = SIZE;
	MUST(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, on, (void *[]){&at, &n}, NULL) == 0);
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction scale, clip;
	CUstream streams[STREAMS];
	CUdeviceptr kept[STREAMS], mine;
	MUST(cuInit(0) == 0 && cuDeviceGet(&device, 0) == 0 && cuDevicePrimaryCtxRetain(&context, device) == 0 && cuCtxSetCurrent(context) == 0);
	MUST(cuModuleLoadData(&module, ptx) == 0 && cuModuleGetFunction(&scale, module, "scale") == 0 && cuModuleGetFunction(&clip, module, "clip") == 0);
	for (int i = 0; i < STREAMS; i++)
		MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) == 0 && cuMemAlloc(&kept[i], SIZE) == 0);
	for (int step = 0; step < STEPS; step++) {
		MUST(cuMemAlloc(&mine, SIZE) == 0);
		for (int i = 0; i < STREAMS; i++)
			launch(scale, kept[i], streams[i]);
		if (step == WRONG)
			MUST(cuMemFree(mine) == 0);
		launch(clip, mine, streams[step % STREAMS]);
		for (int i = 0; i < STREAMS; i++) {
			CUresult r = cuStreamSynchronize(streams[i]);
			if (r)
				return r == CUDA_ERROR_ILLEGAL_ADDRESS && step == WRONG ? 7 : 1;
		}
		MUST(cuMemFree(mine) == 0);
	}
	return 1;
}
#endif
