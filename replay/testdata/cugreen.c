/* Green contexts: the device's resource is divided, the rest is divided again, and both parts work in turn.
 * With an argument the program makes up a resource that no call has returned. */
#include <cuda.h>
#include <stdint.h>
#include <string.h>

#include "must.h"

enum { N = 4096, SM = 1 /* processors, as a type of resources */, DEFAULT_STREAM = 1 };

int main(int argc, char **argv)
{
	CUcontext ctx, part[2], of;
	CUdevResource all, some[2], rest, again[1], left, told, both[2];
	CUdevResourceDesc desc;
	CUgreenCtx green[2], back_;
	CUstream s[2];
	CUevent e;
	CUdeviceptr p;
	uint8_t out[N], back[N];
	unsigned n = 0;
	(void)argv;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0 && cuMemAlloc(&p, N) == 0);
	memset(&all, 0, sizeof all);
	MUST(cuDeviceGetDevResource(0, &all, SM) == 0 && all.sm.smCount == 8);
	MUST(cuDevSmResourceSplitByCount(NULL, &n, &all, NULL, 0, 2) == 0 && n == 4);
	n = 2;
	MUST(cuDevSmResourceSplitByCount(some, &n, &all, &rest, 0, 1) == 0 && n == 2 && some[0].sm.smCount == 2 && rest.sm.smCount == 4);
	n = 1;
	MUST(cuDevSmResourceSplitByCount(again, &n, &rest, &left, 0, 3) == 0 && n == 1 && again[0].sm.smCount == 4 && left.sm.smCount == 0);
	MUST(cuDevSmResourceSplitByCount(again + 0, &n, &left, NULL, 0, 3) == CUDA_ERROR_INVALID_VALUE);
	both[0] = some[1];
	both[1] = again[0];
	MUST(cuDevResourceGenerateDesc(&desc, both, 2) == 0 && cuGreenCtxCreate(&green[0], desc, 0, DEFAULT_STREAM) == 0);
	MUST(cuDevResourceGenerateDesc(&desc, &some[0], 1) == 0 && cuGreenCtxCreate(&green[1], desc, 0, DEFAULT_STREAM) == 0);
	MUST(cuGreenCtxGetDevResource(green[0], &told, SM) == 0 && told.sm.smCount == 6);
	for (int i = 0; i < 2; i++)
		MUST(cuCtxFromGreenCtx(&part[i], green[i]) == 0 && part[i] != ctx && cuGreenCtxStreamCreate(&s[i], green[i], CU_STREAM_NON_BLOCKING, 0) == 0);
	MUST(cuStreamGetGreenCtx(s[1], &back_) == 0 && back_ == green[1] && cuStreamGetCtx(s[1], &of) == 0 && of == part[1]);
	for (int i = 0; i < N; i++)
		out[i] = (uint8_t)(i * 3);
	MUST(cuCtxSetCurrent(part[0]) == 0 && cuEventCreate(&e, CU_EVENT_DISABLE_TIMING) == 0 && cuMemcpyHtoDAsync(p, out, N, s[0]) == 0 && cuGreenCtxRecordEvent(green[0], e) == 0);
	MUST(cuGreenCtxWaitEvent(green[1], e) == 0 && cuCtxSetCurrent(part[1]) == 0 && cuMemcpyDtoHAsync(back, p, N, s[1]) == 0 && cuStreamSynchronize(s[1]) == 0 && memcmp(out, back, N) == 0);
	MUST(cuCtxGetDevResource(part[1], &told, SM) == 0 && told.sm.smCount == 2);
	if (argc > 1) {
		told.sm.smCount = 4;
		MUST(cuDevResourceGenerateDesc(&desc, &told, 1) == 0);
	}
	MUST(cuCtxSetCurrent(ctx) == 0);
	for (int i = 0; i < 2; i++)
		MUST(cuStreamDestroy(s[i]) == 0 && cuGreenCtxDestroy(green[i]) == 0);
	return 0;
}
