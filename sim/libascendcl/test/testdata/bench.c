/* Prints the cost of calls through the C interface: a name and nanoseconds (or bytes a second) a line. */
#include <time.h>

#include "test.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
	enum { N = 20000, BIG = 64 << 20 };
	aclrtStream s;
	aclrtBinHandle bin;
	aclrtFuncHandle f;
	void *d, *big, *pinned;
	char *host = malloc(BIG);
	uint64_t args[8] = {0};
	double t;

	CHECK(argc == 2);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtMalloc(&d, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMalloc(&big, BIG, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocHost(&pinned, BIG));
	OK(aclrtBinaryLoadFromFile(argv[1], NULL, &bin));
	OK(aclrtBinaryGetFunction(bin, "test_count", &f));
	memset(host, 1, BIG);
	memset(pinned, 2, BIG);
	args[0] = (uint64_t)(uintptr_t)d;

	t = now();
	for (int i = 0; i < N; i++)
		aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL);
	printf("call-ns %.0f\n", (now() - t) / N);

	t = now();
	for (int i = 0; i < N; i++)
		aclrtLaunchKernelWithHostArgs(f, 1, s, NULL, args, sizeof args, NULL, 0);
	printf("launch-ns %.0f\n", (now() - t) / N);
	OK(aclrtSynchronizeStream(s));
	printf("launch+run-ns %.0f\n", (now() - t) / N);

	t = now();
	for (int i = 0; i < N; i++)
		aclrtSynchronizeStream(s);
	printf("sync-idle-ns %.0f\n", (now() - t) / N);

	t = now();
	for (int i = 0; i < N / 10; i++) {
		aclrtLaunchKernelWithHostArgs(f, 1, s, NULL, args, sizeof args, NULL, 0);
		aclrtSynchronizeStream(s);
	}
	printf("launch+sync-ns %.0f\n", (now() - t) / (N / 10));

	t = now();
	for (int i = 0; i < N; i++)
		aclrtMemcpy(d, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE);
	printf("copy64-ns %.0f\n", (now() - t) / N);

	OK(aclrtMemcpy(big, BIG, host, BIG, ACL_MEMCPY_HOST_TO_DEVICE));
	t = now();
	for (int i = 0; i < 10; i++)
		OK(aclrtMemcpy(big, BIG, host, BIG, ACL_MEMCPY_HOST_TO_DEVICE));
	printf("copy64M-GB/s %.2f\n", 10.0 * BIG / (now() - t));
	t = now();
	for (int i = 0; i < 10; i++)
		OK(aclrtMemcpyAsync(big, BIG, pinned, BIG, ACL_MEMCPY_HOST_TO_DEVICE, s));
	OK(aclrtSynchronizeStream(s));
	printf("copyasync64M-GB/s %.2f\n", 10.0 * BIG / (now() - t));
	t = now();
	for (int i = 0; i < 10; i++) {
		memcpy(pinned, host, BIG);
		__asm__ volatile("" ::: "memory");
	}
	printf("memcpy64M-GB/s %.2f\n", 10.0 * BIG / (now() - t));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
