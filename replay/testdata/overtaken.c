/* A thread waits for a copy's result while another copy to the same host memory is in flight. */
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "must.h"

enum { N = 64 };

static CUcontext ctx;
static CUdeviceptr d, flag;
static unsigned *host;
static atomic_int begun;

static void *second(void *arg)
{
	(void)arg;
	MUST(cuCtxSetCurrent(ctx) == 0);
	atomic_store(&begun, (int)syscall(SYS_gettid));
	MUST(cuMemcpyDtoH(host, d, 4 * N) == 0);
	return NULL;
}

int main(void)
{
	CUstream s, t;
	pthread_t other;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuMemAlloc(&d, 4 * N) == 0 && cuMemAlloc(&flag, 4) == 0 && cuMemAllocHost((void **)&host, 4 * N) == 0);
	MUST(cuMemsetD32(d, 7, N) == 0 && cuMemsetD32(flag, 0, 1) == 0);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuStreamCreate(&t, CU_STREAM_NON_BLOCKING) == 0);
	MUST(cuMemcpyDtoHAsync(host, d, 4 * N, s) == 0);
	/* The second copy continues after the wait for the first one. */
	MUST(cuStreamWaitValue32(NULL, flag, 1, CU_STREAM_WAIT_VALUE_EQ) == 0);
	pthread_create(&other, NULL, second, NULL);
	/* Its thread sleeps only in the driver. */
	for (char state = 0; state != 'S'; usleep(100)) {
		char path[64];
		FILE *f = NULL;
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&begun));
		if (atomic_load(&begun) != 0 && (f = fopen(path, "r")) != NULL) {
			MUST(fscanf(f, "%*d %*s %c", &state) == 1);
			fclose(f);
		}
	}
	MUST(cuStreamSynchronize(s) == 0);
	MUST(cuStreamWriteValue32(t, flag, 1, 0) == 0);
	pthread_join(other, NULL);
	return 0;
}
