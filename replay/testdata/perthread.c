/*
 * Two threads whose per-thread streams have the same handle. A copy on the first stream waits for a value that exists only after the second thread
 * has waited for its own stream. With ptsz, uses the functions whose stream 0 is the thread's own.
 */
#include <cuda.h>
#include <pthread.h>
#include <string.h>

#include "must.h"

enum { N = 64 };

static CUcontext ctx;
static int ptsz;

static CUresult synchronize(void) { return ptsz ? cuStreamSynchronize_ptsz(NULL) : cuStreamSynchronize(CU_STREAM_PER_THREAD); }

static void *other(void *arg)
{
	(void)arg;
	MUST(cuCtxSetCurrent(ctx) == 0 && synchronize() == 0);
	return NULL;
}

int main(int argc, char **argv)
{
	CUdeviceptr d, flag;
	CUstream s;
	unsigned *host, want[N];
	pthread_t t;
	ptsz = argc > 1 && strcmp(argv[1], "ptsz") == 0;
	memset(want, 7, sizeof want);
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuMemAlloc(&d, sizeof want) == 0 && cuMemAlloc(&flag, 4) == 0 && cuMemAllocHost((void **)&host, sizeof want) == 0);
	MUST(cuMemcpyHtoD(d, want, sizeof want) == 0 && cuMemsetD32(flag, 0, 1) == 0 && cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0);
	if (ptsz) {
		MUST(cuStreamWaitValue32_v2_ptsz(NULL, flag, 1, CU_STREAM_WAIT_VALUE_EQ) == 0);
		MUST(cuMemcpyDtoHAsync_v2_ptsz(host, d, sizeof want, NULL) == 0);
	} else {
		MUST(cuStreamWaitValue32(CU_STREAM_PER_THREAD, flag, 1, CU_STREAM_WAIT_VALUE_EQ) == 0);
		MUST(cuMemcpyDtoHAsync(host, d, sizeof want, CU_STREAM_PER_THREAD) == 0);
	}
	pthread_create(&t, NULL, other, NULL);
	pthread_join(t, NULL);
	MUST(host[0] == 0);
	MUST(cuStreamWriteValue32(s, flag, 1, 0) == 0 && synchronize() == 0);
	MUST(memcmp(host, want, sizeof want) == 0);
	return 0;
}
