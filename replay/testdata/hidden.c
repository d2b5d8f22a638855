/* A program that gets its context from unnamed functions, like the CUDA runtime. With an argument it uses
 * the context before its initialization, which fails. */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void check(CUresult e, const char *what)
{
	if (e != CUDA_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, e);
		exit(1);
	}
}
#define DO(call) check(call, #call)

static const struct { size_t size; void *first; CUresult (*own)(CUcontext *, CUdevice); CUresult (*select)(CUcontext); } *table;

static void there_and_back(unsigned value)
{
	CUdeviceptr p;
	unsigned back = 0;
	DO(cuMemAlloc(&p, sizeof value));
	DO(cuMemcpyHtoD(p, &value, sizeof value));
	DO(cuMemcpyDtoH(&back, p, sizeof back));
	DO(cuMemFree(p));
	if (back != value)
		exit(1);
}

/* An unnamed function made its context current. */
static void *other(void *c)
{
	CUcontext now;
	DO(table->select(c));
	DO(cuCtxGetCurrent(&now));
	if (now != c)
		exit(1);
	there_and_back(2);
	return NULL;
}

int main(int argc, char **argv)
{
	static const CUuuid id = {"a runtime's"};
	CUcontext own, again;
	pthread_t t;
	DO(cuInit(0));
	DO(cuGetExportTable((const void **)&table, &id));
	DO(table->own(&own, 0));
	DO(cuCtxSetCurrent(own));
	(void)argv;
	if (argc > 1)
		return cuCtxSynchronize() != CUDA_ERROR_CONTEXT_IS_DESTROYED;
	DO(cuDevicePrimaryCtxRetain(&again, 0));
	if (again != own)
		return 1;
	there_and_back(1);
	pthread_create(&t, NULL, other, own);
	pthread_join(t, NULL);
	DO(cuDevicePrimaryCtxRelease(0));
	return 0;
}
