/*
 * serve BINARY THREADS STEPS LAUNCHES FAIL SLOW REQUESTS: each thread makes STEPS steps: a copy to the device, LAUNCHES launches and a copy back.
 * After the first step, each FAIL-th step has a call that fails and each SLOW-th step a pause of 60 ms (0: never). With REQUESTS each step is a
 * range that names a parent, made from the thread and step numbers. With -DLIBRARY: the functions for ranges.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

uint64_t mstxRangeStartA(const char *message, aclrtStream stream);
void mstxRangeEnd(uint64_t id);

#ifdef LIBRARY

uint64_t mstxRangeStartA(const char *message, aclrtStream stream)
{
	static uint64_t last;
	(void)stream;
	return message == NULL ? 0 : __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

void mstxRangeEnd(uint64_t id) { (void)id; }

#else

struct args {
	const float *a, *b;
	float *out;
	uint64_t count;
};

static aclrtFuncHandle add;
static aclrtStream gone;
static int steps, launches, fail, slow, requests;

static void *work(void *arg)
{
	int thread = (int)(intptr_t)arg;
	static float host[1024];
	aclrtStream s;
	void *p;
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtMalloc(&p, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST));
	struct args a = {p, p, p, 16};
	for (int i = 0; i < steps; i++) {
		char message[128];
		uint64_t range = 0;
		void *q;
		if (requests) {
			snprintf(message, sizeof message, "traceparent=00-%016x%016x-%016x-%02x generate", thread + 1, i + 1, 0xabc, i % 2 == 0);
			range = mstxRangeStartA(message, NULL);
		}
		CHECK(aclrtMalloc(&q, 512 * (1 + (size_t)i % 3), ACL_MEM_MALLOC_HUGE_FIRST));
		CHECK(aclrtMemcpyAsync(p, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE, s));
		for (int k = 0; k < launches; k++)
			CHECK(aclrtLaunchKernelWithHostArgs(add, 1 + (uint32_t)k % 7, s, NULL, &a, sizeof a, NULL, 0));
		if (slow && i && i % slow == 0)
			usleep(60000);
		if (fail && i && i % fail == 0 && aclrtSynchronizeStream(gone) == 0)
			exit(1);
		CHECK(aclrtSynchronizeStream(s));
		CHECK(aclrtMemcpy(host, 64, p, 64, ACL_MEMCPY_DEVICE_TO_HOST));
		if (i % 3)
			CHECK(aclrtFree(q));
		if (requests)
			mstxRangeEnd(range);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[16];
	aclrtBinHandle binary;
	int threads = argc == 8 ? atoi(argv[2]) : 0;
	if (threads < 1 || threads > 16)
		return 2;
	steps = atoi(argv[3]), launches = atoi(argv[4]), fail = atoi(argv[5]), slow = atoi(argv[6]), requests = atoi(argv[7]);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&gone));
	CHECK(aclrtDestroyStream(gone));
	CHECK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	CHECK(aclrtBinaryGetFunction(binary, "add", &add));
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, work, (void *)(intptr_t)i);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	printf("done\n");
	return 0;
}

#endif
