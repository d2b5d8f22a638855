/* job RESULT ROUNDS WORK [HALF]: a round copies to the device and back and computes for WORK steps on the host. At the end the job writes the sum over all copied data to
   the file RESULT. Before, it writes nanoseconds to RESULT.time: processor time, wall time, and wall time without waiting for a core. After half the rounds it does HALF:
   it ends by crash, by crash in code of the shim if it is recorded ("inside"), by crash after a vfork child, by exit or by quick_exit, or it writes its PID to RESULT.half and waits for the file RESULT.go, which does not count as
   its time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

static long long now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ready returns how long the first thread has waited for a core, 0 if the kernel does not report it. */
static long long ready(void)
{
	long long ran, waited;
	FILE *f = fopen("/proc/self/schedstat", "r");
	if (f == NULL || fscanf(f, "%lld %lld", &ran, &waited) != 2)
		waited = 0;
	if (f != NULL)
		fclose(f);
	return waited;
}

static void wait_at_half(const char *result)
{
	char half[4096], written[4096], go[4096];
	snprintf(half, sizeof half, "%s.half", result);
	snprintf(written, sizeof written, "%s.half.written", result);
	snprintf(go, sizeof go, "%s.go", result);
	FILE *f = fopen(written, "w");
	if (f == NULL || fprintf(f, "%d\n", getpid()) < 0 || fclose(f) != 0 || rename(written, half) != 0)
		exit(2);
	while (access(go, F_OK) != 0)
		usleep(1000);
}

int main(int argc, char **argv)
{
	long long began = now(CLOCK_MONOTONIC), without = ready(), waited = 0;
	char times[4096];
	enum { WORDS = 512 };
	int rounds = atoi(argv[2]), work = atoi(argv[3]);
	uint64_t in[WORDS], out[WORDS], sum = 0, state = 1;
	void *dev;
	aclrtStream stream;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtMalloc(&dev, sizeof in, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int r = 0; r < rounds; r++) {
		if (argc > 4 && *argv[4] && r == rounds / 2) {
			if (strcmp(argv[4], "exit") == 0)
				exit(7);
			if (strcmp(argv[4], "quick_exit") == 0)
				quick_exit(7);
			if (strcmp(argv[4], "vfork") == 0) {
				pid_t child = vfork();
				if (child == 0)
					_exit(0);
			}
			if (strcmp(argv[4], "crash") == 0 || strcmp(argv[4], "vfork") == 0) {
				volatile int *nowhere = NULL;
				*nowhere = 1;
			}
			/* The recorder reads the list before it calls the runtime, which refuses the function. */
			if (strcmp(argv[4], "inside") == 0) {
				struct aclrtLaunchKernelCfg bad = {(void *)8, 1};

				aclrtLaunchKernelV2(NULL, 1, NULL, 0, &bad, stream);
				continue;
			}
			long long clock = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID), delay = ready();
			wait_at_half(argv[1]);
			waited = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
			began += now(CLOCK_MONOTONIC) - clock;
			without += ready() - delay;
		}
		for (int i = 0; i < WORDS; i++)
			in[i] = state = state * 6364136223846793005u + 1442695040888963407u;
		CHECK(aclrtMemcpy(dev, sizeof in, in, sizeof in, ACL_MEMCPY_HOST_TO_DEVICE));
		CHECK(aclrtMemsetAsync(dev, sizeof in, r & 255, 64, stream));
		CHECK(aclrtSynchronizeStream(stream));
		CHECK(aclrtMemcpy(out, sizeof out, dev, sizeof out, ACL_MEMCPY_DEVICE_TO_HOST));
		for (int i = 0; i < WORDS; i++)
			sum = sum * 31 + out[i];
		for (int i = 0; i < work; i++)
			state = state * 6364136223846793005u + 1442695040888963407u;
		if (work == 0) {
			struct timespec t = {0, 1000000};
			nanosleep(&t, NULL);
		}
	}
	CHECK(aclrtFree(dev));
	CHECK(aclrtDestroyStream(stream));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	snprintf(times, sizeof times, "%s.time", argv[1]);
	FILE *f = fopen(times, "w");
	if (f == NULL)
		return 2;
	long long clock = now(CLOCK_MONOTONIC) - began;
	fprintf(f, "%lld %lld %lld\n", now(CLOCK_PROCESS_CPUTIME_ID) - waited, clock, clock - (ready() - without));
	fclose(f);
	if ((f = fopen(argv[1], "w")) == NULL)
		return 2;
	fprintf(f, "%016llx done\n", (unsigned long long)sum);
	return fclose(f) != 0;
}
