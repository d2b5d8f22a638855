/* 8 threads with 32 streams each count; many short threads come and go. */
#include <pthread.h>

#include "test.h"

enum { THREADS = 8, STREAMS = 32, ROUNDS = 20 };

static aclrtFuncHandle count;

static void *work(void *unused)
{
	aclrtStream s[STREAMS];
	uint64_t *d[STREAMS], got;
	aclrtEvent ev;

	OK(aclrtSetDevice(0));
	OK(aclrtCreateEvent(&ev));
	for (int i = 0; i < STREAMS; i++) {
		OK(aclrtCreateStream(&s[i]));
		OK(aclrtMalloc((void **)&d[i], 8, ACL_MEM_MALLOC_HUGE_FIRST));
		OK(aclrtMemsetAsync(d[i], 8, 0, 8, s[i]));
	}
	for (int r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < STREAMS; i++)
			OK(aclrtLaunchKernelWithHostArgs(count, 1, s[i], NULL, &d[i], 8, NULL, 0));
		OK(aclrtRecordEvent(ev, s[r % STREAMS]));
		OK(aclrtStreamWaitEvent(s[(r + 1) % STREAMS], ev));
	}
	for (int i = 0; i < STREAMS; i++) {
		OK(aclrtSynchronizeStream(s[i]));
		OK(aclrtMemcpy(&got, 8, d[i], 8, ACL_MEMCPY_DEVICE_TO_HOST));
		CHECK(got == ROUNDS);
		OK(aclrtDestroyStream(s[i]));
		OK(aclrtFree(d[i]));
	}
	OK(aclrtDestroyEvent(ev));
	OK(aclrtResetDevice(0));
	return unused;
}

static void *shortly(void *unused)
{
	int32_t device;

	WANT(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device)); /* no state from an earlier thread */
	OK(aclrtSetDevice(0));
	OK(aclrtResetDevice(0));
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	aclrtBinHandle bin;

	CHECK(argc == 2);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtBinaryLoadFromFile(argv[1], NULL, &bin));
	OK(aclrtBinaryGetFunction(bin, "test_count", &count));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, work, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(t[i], NULL));
	for (int i = 0; i < 100; i++) {
		CHECK(!pthread_create(&t[0], NULL, shortly, NULL));
		CHECK(!pthread_join(t[0], NULL));
	}
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
