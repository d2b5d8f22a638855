/* A host function writes the source of a copy after the call: a copy from pinned memory reads what it wrote, any other copy does not. */
#include <cuda.h>
#include <pthread.h>
#include <string.h>

#include "must.h"

enum { N = 64 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void nine(void *to)
{
	pthread_mutex_lock(&gate);
	memset(to, 9, N);
	pthread_mutex_unlock(&gate);
}

int main(void)
{
	CUcontext ctx;
	CUdeviceptr x;
	CUstream s;
	uint8_t own[N], *sources[2] = {own}, got[N];
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuMemAlloc(&x, N) == 0 && cuMemAllocHost((void **)&sources[1], N) == 0 && cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0);
	for (int pinned = 0; pinned < 2; pinned++) {
		memset(sources[pinned], 1, N);
		pthread_mutex_lock(&gate);
		MUST(cuLaunchHostFunc(s, nine, sources[pinned]) == 0 && cuMemcpyHtoDAsync(x, sources[pinned], N, s) == 0);
		pthread_mutex_unlock(&gate);
		MUST(cuStreamSynchronize(s) == 0 && cuMemcpyDtoH(got, x, N) == 0 && got[0] == (pinned ? 9 : 1) && sources[pinned][0] == 9);
	}
	MUST(cuMemFreeHost(sources[1]) == 0 && cuMemFree(x) == 0);
	return 0;
}
