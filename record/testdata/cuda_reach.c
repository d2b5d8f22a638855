/*
 * Gets the CUDA driver's functions in the given way: by dlsym from a library that it opens, or by version 1 or 2 of cuGetProcAddress,
 * also with a default stream per thread. It is not linked to the driver.
 */
#define ACLTRACE_EXACT_NAMES
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library;
static CUresult (*first)(const char *, void **, int, uint64_t);
static CUresult (*second)(const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *);
static uint64_t flags;
static const char *way;

static void *get(const char *name, const char *exported, int version)
{
	void *f = NULL;
	if (strcmp(way, "dlsym") == 0)
		f = dlsym(library, exported);
	else if (strcmp(way, "first") == 0)
		first(name, &f, version, flags);
	else
		second(name, &f, version, flags, NULL);
	return f;
}

int main(int argc, char **argv)
{
	way = argc > 1 ? argv[1] : "dlsym";
	if (strcmp(way, "thread") == 0)
		flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	if ((library = dlopen("libcuda.so.1", RTLD_NOW)) == NULL)
		return 2;
	first = dlsym(library, "cuGetProcAddress");
	second = dlsym(library, "cuGetProcAddress_v2");
	if (strcmp(way, "self") == 0) {
		/* Queries cuGetProcAddress itself. */
		void *f = NULL;
		if (first("cuGetProcAddress", &f, 12000, 0) != 0)
			return 3;
		second = f;
	}
	CUresult (*init)(unsigned) = get("cuInit", "cuInit", 2000);
	CUresult (*retain)(CUcontext *, CUdevice) = get("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000);
	CUresult (*current)(CUcontext) = get("cuCtxSetCurrent", "cuCtxSetCurrent", 4000);
	CUresult (*allocate)(CUdeviceptr *, size_t) = get("cuMemAlloc", "cuMemAlloc_v2", 3020);
	CUresult (*bring)(CUdeviceptr, const void *, size_t, CUstream) = get("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", 7000);
	CUresult (*wait)(CUstream) = get("cuStreamSynchronize", "cuStreamSynchronize", 7000);
	CUresult (*table)(const void **, const CUuuid *) = get("cuGetExportTable", "cuGetExportTable", 3000);
	CUresult (*unmodelled)(CUtexref *) = get("cuTexRefCreate", "cuTexRefCreate", 2000);
	void *none = get("cuFromTheFuture", "cuFromTheFuture", 99000);
	if (!init || !retain || !current || !allocate || !bring || !wait || !table || !unmodelled || none)
		return 4;
	CUcontext c;
	CUdeviceptr p;
	CUuuid id = {{1}};
	const void *t;
	CUtexref r;
	int x = 7;
	if (init(0) || retain(&c, 0) || current(c) || allocate(&p, 64) || bring(p, &x, sizeof x, NULL) || wait(NULL) || table(&t, &id))
		return 5;
	unmodelled(&r);
	puts("done");
	return 0;
}
