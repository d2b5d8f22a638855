/*
 * Programs of six shapes, each with streams, sizes, durations and host work by chance: shapes BINARY SEED ROUNDS. Prints how long it
 * took after aclInit, on the clock of the simulator, in nanoseconds. Compiled with -DKERNELS it is the binary, and the kernel library, of its two kernels.
 */
#include <stdint.h>

struct work_args {
	uint32_t *out;
	uint64_t ns;
};

#ifdef KERNELS
#include "aclsim/kernel.h"

static const aclsim_arg params[] = {{"out", ACLSIM_OUTPUT, 8}, {"ns", ACLSIM_SCALAR, 8}};

static uint32_t extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	if (max > 0)
		*out = (aclsim_extent){(uint64_t)(uintptr_t)((const struct work_args *)l->args)->out, 4, ACLSIM_WRITE, 0};
	return 1;
}

static uint64_t duration(const aclsim_launch *l) { return ((const struct work_args *)l->args)->ns; }

void attention(const aclsim_launch *l, uint32_t block)
{
	if (block == 0)
		*((const struct work_args *)l->args)->out = 1;
}

void norm(const aclsim_launch *l, uint32_t block) { attention(l, block); }

const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel all[] = {{"attention", 0, params, 2, 0, extents, attention, duration}, {"norm", 0, params, 2, 0, extents, norm, duration}};
	static const aclsim_kernel_library library = {ACLSIM_KERNEL_ABI, 2, all};
	return &library;
}
#else
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"
#include "aclsim/clock.h"
#include "check.h"

enum { STREAMS = 4, SLOTS = 3, BYTES = 8 << 20 };

static uint64_t state;
static aclrtFuncHandle kernels[2];
static aclrtStream streams[STREAMS];
static void *host[SLOTS], *device[SLOTS];
static aclrtEvent events[STREAMS][SLOTS];

static double fraction(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(state >> 40) / (1 << 24);
}

/* From 0 to n - 1. */
static int pick(int n) { return (int)(fraction() * n); }

/* From least to most, the small ones as often as the large ones. */
static uint64_t chance(uint64_t least, uint64_t most)
{
	double v = (double)least;
	for (int i = pick(10); i > 0 && v * 2 < (double)most; i--)
		v *= 2;
	return (uint64_t)(v + fraction() * (v * 2 < (double)most ? v : (double)most - v));
}

static bool in_virtual_time(void)
{
	const char *clock = getenv("ACLSIM_CLOCK");
	return clock != NULL && strcmp(clock, "virtual") == 0;
}

static int64_t now(void)
{
	struct timespec t;
	if (in_virtual_time())
		return aclsim_now();
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(uint64_t ns)
{
	if (in_virtual_time()) {
		aclsim_work((int64_t)ns);
		return;
	}
	for (int64_t end = now() + (int64_t)ns; now() < end;)
		;
}

static void launch(aclrtStream s, unsigned kernel, uint64_t ns, uint32_t blocks)
{
	struct work_args a = {device[0], ns};
	CHECK(aclrtLaunchKernelWithHostArgs(kernels[kernel & 1], blocks, s, NULL, &a, sizeof a, NULL, 0));
}

static void in(int slot, uint64_t n, aclrtStream s) { CHECK(aclrtMemcpyAsync(device[slot], n, host[slot], n, ACL_MEMCPY_HOST_TO_DEVICE, s)); }
static void out(int slot, uint64_t n, aclrtStream s) { CHECK(aclrtMemcpyAsync(host[slot], n, device[slot], n, ACL_MEMCPY_DEVICE_TO_HOST, s)); }
static void after(aclrtStream s, aclrtEvent e, aclrtStream first)
{
	CHECK(aclrtRecordEvent(e, first));
	CHECK(aclrtStreamWaitEvent(s, e));
}

/* Steps on one stream, each with a wait, as a decoder has them. */
static void decoder(void)
{
	uint64_t n = chance(3, 20), ns = chance(5000, 200000), pause = chance(1000, 200000), small = chance(4, 4096);
	for (uint64_t steps = chance(10, 40); steps > 0; steps--) {
		in(0, small, streams[0]);
		for (uint64_t i = 0; i < n; i++)
			launch(streams[0], (unsigned)i, i & 1 ? ns / 4 : ns, (uint32_t)chance(1, 40));
		out(0, small, streams[0]);
		CHECK(aclrtSynchronizeStream(streams[0]));
		work(pause);
	}
}

/* A copy, kernels and a copy back on three streams, two or three rounds at once. */
static void pipeline(void)
{
	uint64_t n = chance(1 << 16, BYTES), ns = chance(20000, 1000000), rounds = chance(10, 40);
	int depth = 2 + pick(2);
	for (uint64_t i = 0; i < rounds + (uint64_t)depth; i++) {
		int k = (int)(i % (uint64_t)depth);
		if (i >= (uint64_t)depth)
			CHECK(aclrtSynchronizeEvent(events[2][k]));
		if (i >= rounds)
			continue;
		in(k, n, streams[0]);
		after(streams[1], events[0][k], streams[0]);
		launch(streams[1], 0, ns, 1);
		launch(streams[1], 1, ns / 3, 1);
		after(streams[2], events[1][k], streams[1]);
		out(k, n / 2, streams[2]);
		CHECK(aclrtRecordEvent(events[2][k], streams[2]));
		CHECK(aclrtStreamWaitEvent(streams[0], events[1][k]));
	}
}

/* Launches between which the host works, and one wait. */
static void forget(void)
{
	uint64_t pause = chance(10000, 500000), ns = chance(5000, 600000);
	for (uint64_t n = chance(20, 100); n > 0; n--) {
		launch(streams[0], (unsigned)n, chance(1000, ns), 4);
		work(pause);
	}
	CHECK(aclrtSynchronizeStream(streams[0]));
}

/* Streams beside each other, which want the same cores and engines. */
static void beside(void)
{
	int n = 2 + pick(3);
	for (uint64_t steps = chance(5, 20); steps > 0; steps--) {
		for (int i = 0; i < n; i++) {
			in(0, chance(1 << 10, 1 << 20), streams[i]);
			launch(streams[i], (unsigned)i, chance(10000, 400000), (uint32_t)chance(4, 40));
			launch(streams[i], 1, chance(10000, 100000), (uint32_t)chance(4, 40));
		}
		CHECK(aclrtSynchronizeDevice());
		work(chance(1000, 50000));
	}
}

/* Anything, in any order. */
static void any(void)
{
	for (uint64_t n = chance(100, 300); n > 0; n--) {
		aclrtStream s = streams[pick(STREAMS)], other = streams[pick(STREAMS)];
		int slot = pick(SLOTS);
		switch (pick(8)) {
		case 0: in(slot, chance(1 << 10, 1 << 21), s); break;
		case 1: out(slot, chance(1 << 10, 1 << 21), s); break;
		case 2: after(s, events[0][slot], other); break;
		case 3: work(chance(1000, 100000)); break;
		case 4: CHECK(aclrtSynchronizeStream(s)); break;
		default: launch(s, (unsigned)n, chance(2000, 300000), (uint32_t)chance(1, 10));
		}
	}
	CHECK(aclrtSynchronizeDevice());
}

/* Blocking copies, and questions instead of waits. */
static void blocking(void)
{
	uint64_t bytes = chance(1 << 12, BYTES), ns = chance(5000, 300000);
	for (uint64_t n = chance(10, 40); n > 0; n--) {
		aclrtEventRecordedStatus done = ACL_EVENT_RECORDED_STATUS_NOT_READY;
		CHECK(aclrtMemcpy(device[0], bytes, host[0], bytes, ACL_MEMCPY_HOST_TO_DEVICE));
		launch(streams[0], 0, ns, 8);
		launch(streams[0], 1, ns / 2, 8);
		CHECK(aclrtRecordEvent(events[0][0], streams[0]));
		while (done != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
			work(500);
			CHECK(aclrtQueryEventStatus(events[0][0], &done));
		}
		CHECK(aclrtMemcpy(host[0], bytes / 4, device[0], bytes / 4, ACL_MEMCPY_DEVICE_TO_HOST));
	}
}

int main(int argc, char **argv)
{
	static void (*const shapes[])(void) = {decoder, pipeline, forget, beside, any, blocking};
	unsigned seed = argc < 4 ? 0 : (unsigned)atoi(argv[2]);
	aclrtBinHandle binary;
	state = seed * 2654435761u + 1;
	fraction();
	CHECK(aclInit(NULL));
	int64_t start = now();
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	CHECK(aclrtBinaryGetFunction(binary, "attention", &kernels[0]));
	CHECK(aclrtBinaryGetFunction(binary, "norm", &kernels[1]));
	for (int k = 0; k < SLOTS; k++) {
		CHECK(aclrtMallocHost(&host[k], BYTES));
		CHECK(aclrtMalloc(&device[k], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	}
	for (int i = 0; i < STREAMS; i++) {
		CHECK(aclrtCreateStream(&streams[i]));
		for (int k = 0; k < SLOTS; k++)
			CHECK(aclrtCreateEventExWithFlag(&events[i][k], ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
	}
	for (int rounds = argc < 4 ? 0 : atoi(argv[3]); rounds > 0; rounds--)
		shapes[seed % 6]();
	CHECK(aclrtSynchronizeDevice()); /* a trace ends with a call */
	printf("%lld\n", (long long)(now() - start));
	return 0;
}
#endif
