/* Stream-ordered frees: another allocation takes the address after the stream has reached the free. Built twice: with KERNEL as the kernel alone, for
 * the fake driver. */
enum { N = 4096 };
#ifdef KERNEL
#define _GNU_SOURCE
#include <fakecuda.h>
#include <string.h>
#include <unistd.h>

void slow(const struct fakecuda_launch *l)
{
	uint64_t at;
	memcpy(&at, l->params[0], sizeof at);
	usleep(100000);
	uint8_t *p = l->memory(at, N);
	if (p)
		memset(p, 1, N);
}
#else
#define _GNU_SOURCE
#include <cuda.h>
#include <string.h>
#include <unistd.h>

#include "must.h"

int main(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry slow(.param .u64 at)\n{\n\tret;\n}\n";
	CUcontext ctx;
	CUmodule m;
	CUfunction f;
	CUstream s;
	CUdeviceptr a, b;
	volatile uint8_t *host;
	uint8_t twos[N], got[N];
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&f, m, "slow") == 0 && cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0);
	MUST(cuMemAllocHost((void **)&host, N) == 0);
	memset((void *)host, 0, N);
	MUST(cuMemAllocAsync(&a, N, s) == 0);
	void *params[] = {&a};
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL) == 0 && cuMemcpyDtoHAsync((void *)host, a, N, s) == 0 && cuMemFreeAsync(a, s) == 0);
	/* The program observes the stream's progress without a call. */
	while (host[N - 1] != 1)
		usleep(1000);
	for (;;) {
		usleep(10000);
		MUST(cuMemAlloc(&b, N) == 0);
		if (b == a)
			break;
		MUST(cuMemFree(b) == 0);
	}
	memset(twos, 2, N);
	MUST(cuMemcpyHtoD(b, twos, N) == 0 && cuStreamSynchronize(s) == 0 && cuMemcpyDtoH(got, b, N) == 0 && memcmp(got, twos, N) == 0);
	MUST(cuMemFree(b) == 0 && cuMemFreeHost((void *)host) == 0 && cuStreamDestroy(s) == 0);
	return 0;
}
#endif
