/*
 * Measures a step as a training job makes them: 400 launches, 5 graph runs, and 40 asynchronous copies of 4 KiB to 1 MiB between
 * the device and pinned memory, then a wait. On the simulator its kernels compute.
 *
 *	step NAME KERNELS [STEPS [THREADS]]
 *
 * THREADS (default 24) each make STEPS steps on a stream of their own, with kernels of the file KERNELS. It prints "NAME MICROSECONDS least
 * MICROSECONDS processor MICROSECONDS calls N": the median and the least of all steps, the processor time of the process for a
 * step, and the calls of the runtime.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"
#include "median.h"

enum { LAUNCHES = 400, RUNS = 5, COPIES = 40, NODES = 8, THREADS = 64, STEPS = 1000, SIDE = 64, COUNT = 8192 };
enum { SIZES = 9, LARGEST = 4096 << (SIZES - 1), ALL = (COPIES / SIZES + 1) * 2 * LARGEST };

struct matmul { const void *a, *b; void *c; uint32_t m, n, k; };
struct add { const void *a, *b; void *out; uint64_t count; };

static unsigned long calls;
static int steps = 20, threads = 24;
static double times[THREADS * STEPS];
static aclrtFuncHandle matmul, add;

#define CALL(call) do { calls_here++; if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); abort(); } } while (0)

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static unsigned long launches(aclrtStream s, char *device, int n)
{
	unsigned long calls_here = 0;
	float *f = (float *)device;
	for (int i = 0; i < n; i++) {
		struct matmul m = {f, f + SIDE * SIDE, f + 2 * SIDE * SIDE, SIDE, SIDE, SIDE};
		struct add a = {f, f + COUNT, f + 2 * COUNT, COUNT};
		if (i % 2 == 0)
			CALL(aclrtLaunchKernelWithHostArgs(matmul, 8, s, NULL, &m, sizeof m, NULL, 0));
		else
			CALL(aclrtLaunchKernelWithHostArgs(add, 8, s, NULL, &a, sizeof a, NULL, 0));
	}
	return calls_here;
}

static void *thread(void *arg)
{
	unsigned long calls_here = 0;
	long n = (long)arg;
	aclrtStream s;
	aclmdlRI graph;
	void *device;
	char *host;
	CALL(aclrtSetDevice(0));
	CALL(aclrtCreateStream(&s));
	CALL(aclrtMalloc(&device, LARGEST, ACL_MEM_MALLOC_HUGE_FIRST));
	CALL(aclrtMallocHost((void **)&host, ALL));
	uint64_t x = 88172645463325252ULL + (uint64_t)n, *words = (uint64_t *)host;
	for (size_t i = 0; i < ALL / 8; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		words[i] = x & 0x3f7fffff3f7fffff; /* small floats */
	}
	CALL(aclrtMemcpy(device, LARGEST, host, LARGEST, ACL_MEMCPY_HOST_TO_DEVICE));
	CALL(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	calls_here += launches(s, device, NODES);
	CALL(aclmdlRICaptureEnd(s, &graph));
	for (int step = 0; step < steps; step++) {
		double since = now(CLOCK_MONOTONIC);
		char *at = host;
		for (int i = 0; i < COPIES; i++) {
			size_t size = 4096u << i % SIZES;
			if (i % 2 == 0)
				CALL(aclrtMemcpyAsync(device, LARGEST, at, size, ACL_MEMCPY_HOST_TO_DEVICE, s));
			else
				CALL(aclrtMemcpyAsync(at, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST, s));
			at += size;
			calls_here += launches(s, device, LAUNCHES / COPIES);
			if (i % (COPIES / RUNS) == 0)
				CALL(aclmdlRIExecuteAsync(graph, s));
		}
		CALL(aclrtSynchronizeStream(s));
		times[n * steps + step] = now(CLOCK_MONOTONIC) - since;
	}
	CALL(aclmdlRIDestroy(graph));
	CALL(aclrtFreeHost(host));
	CALL(aclrtFree(device));
	CALL(aclrtDestroyStream(s));
	__atomic_add_fetch(&calls, calls_here, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long calls_here = 0;
	aclrtBinHandle binary;
	pthread_t t[THREADS];
	if (argc < 3)
		return 2;
	if (argc > 3)
		steps = atoi(argv[3]);
	if (argc > 4)
		threads = atoi(argv[4]);
	if (steps < 1 || steps > STEPS || threads < 1 || threads > THREADS)
		return 2;
	CALL(aclInit(NULL));
	CALL(aclrtSetDevice(0));
	CALL(aclrtBinaryLoadFromFile(argv[2], NULL, &binary));
	CALL(aclrtBinaryGetFunction(binary, "matmul", &matmul));
	CALL(aclrtBinaryGetFunction(binary, "add", &add));
	double began = now(CLOCK_PROCESS_CPUTIME_ID);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, thread, (void *)i) != 0)
			return 1;
	for (long i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	int all = threads * steps;
	double processor = (now(CLOCK_PROCESS_CPUTIME_ID) - began) / all, middle = median(times, all);
	calls_here++; /* the last one */
	printf("%s %.1f least %.1f processor %.1f calls %lu\n", argv[1], middle, times[0], processor, calls + calls_here);
	return aclFinalize();
}
