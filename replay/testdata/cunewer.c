/* Batched copies of CUDA 12.8 and 13.0, with attributes, and a host function, looked up by the names and versions of a
 * program for CUDA 13.2. An argument gives the version for the last look-up. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

enum { N = 4, BYTES = 200 };

static void count(void *n) { ++*(int *)n; }

static void *get(const char *name, int version)
{
	void *f = NULL;
	MUST(cuGetProcAddress(name, &f, version, 0, NULL) == 0 && f != NULL);
	return f;
}

int main(int argc, char **argv)
{
	CUcontext ctx;
	CUstream s;
	CUdeviceptr d, to[N], from[N];
	uint8_t in[N][BYTES], *out, *p;
	size_t sizes[N], index = 0, fail = 0;
	CUmemcpyAttributes at = {.srcAccessOrder = 1};
	int called = 0;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0 && cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0);
	MUST(cuMemAlloc(&d, N * BYTES) == 0 && cuMemAllocHost((void **)&out, 2 * N * BYTES + BYTES) == 0);
	for (int i = 0; i < N; i++) {
		memset(in[i], 7 * i + 1, BYTES);
		to[i] = d + (CUdeviceptr)(i * BYTES);
		from[i] = (CUdeviceptr)in[i];
		sizes[i] = BYTES;
	}
	CUresult (*first)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream) = get("cuMemcpyBatchAsync", 12080);
	CUresult (*second)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream) = get("cuMemcpyBatchAsync", 13000);
	CUresult (*host)(CUstream, CUhostFn, void *, unsigned) = get("cuLaunchHostFunc", 13020);
	CUresult (*one)(CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *, CUstream) = get("cuMemcpyWithAttributesAsync", argc > 1 ? atoi(argv[1]) : 13020);
	MUST(first(to, from, sizes, N, &at, &index, 1, &fail, s) == 0);
	for (int part = 0; part < 2; part++) {
		p = out + part * N * BYTES;
		for (int i = 0; i < N; i++)
			from[i] = (CUdeviceptr)(p + i * BYTES);
		MUST((part == 0 ? first(from, to, sizes, N, &at, &index, 1, &fail, s) : second(from, to, sizes, N, &at, &index, 1, s)) == 0);
	}
	MUST(host(s, count, &called, CU_HOST_TASK_BLOCKING) == 0);
	MUST(one((CUdeviceptr)(out + 2 * N * BYTES), d + BYTES, BYTES, &at, s) == 0 && cuStreamSynchronize(s) == 0);
	MUST(called == 1 && memcmp(out, in, sizeof in) == 0 && memcmp(out + sizeof in, in, sizeof in) == 0 && memcmp(out + 2 * sizeof in, in[1], BYTES) == 0);
	return 0;
}
