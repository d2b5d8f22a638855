/*
 * Measures a launch with 64 bytes of arguments. The yardstick is the least that a record can cost: two reads of the time stamp
 * counter and a 128-byte store. It runs bare, under the recorder, and with LTTng-UST tracepoints (-DLTTNG).
 *
 *	launch NAME [ROUNDS [THREADS [rich]]]
 *
 * prints "NAME NANOSECONDS yardstick NANOSECONDS": medians over rounds with 1000 launches each, which stay in the cache. THREADS run
 * at once, and the medians are over all of them. A rich launch has two attributes and a placeholder, as in operator libraries.
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

#ifdef LTTNG
#define TRACEPOINT_DEFINE
#include "lttng.h"
#endif

enum { CALLS = 1000, MOST = 10000 };

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
#else
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#endif
}

static __thread uint64_t args[8] = {0x124000000000, 0x124000010000, 0x124000020000, 4096, 64, 0x3f800000, 7, 9};

static aclrtLaunchKernelAttr attributes[] = {{.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, .value.schemMode = 1}, {.id = ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE}};
static aclrtLaunchKernelCfg two = {attributes, 2}, *cfg;
static aclrtPlaceHolderInfo one = {56, 64}, *holders;

static void launches(void)
{
	for (int i = 0; i < CALLS; i++) {
		args[3] = (uint64_t)i;
#ifdef LTTNG
		tracepoint(acltrace_bench, launch_entry, (void *)0x1000, 8, (void *)0x2000, NULL, args, sizeof args, NULL, 0);
#endif
		aclError ret = aclrtLaunchKernelWithHostArgs((aclrtFuncHandle)0x1000, 8, (aclrtStream)0x2000, cfg, args, sizeof args, holders, holders != NULL);
#ifdef LTTNG
		tracepoint(acltrace_bench, launch_exit, ret);
#else
		if (ret != ACL_SUCCESS)
			abort();
#endif
	}
}

/* The yardstick: the stores go through a ring, like records. */
static __thread uint8_t ring[1 << 18];

static void yardstick(void)
{
	uint64_t at = 0;
	for (int i = 0; i < CALLS; i++) {
		uint64_t *p = (uint64_t *)(ring + (at & (sizeof ring - 1)));
		p[0] = counter();
		for (int k = 2; k < 16; k++)
			p[k] = (uint64_t)i + (uint64_t)k;
		p[1] = counter();
		at += 128;
		__asm__ volatile("" : : : "memory");
	}
}

enum { THREADS = 64 };
static double call[THREADS][MOST], store[THREADS][MOST];
static int rounds = 1000, threads = 1;

static void *thread(void *arg)
{
	long n = (long)arg;
	for (int r = 0; r < rounds; r++) {
		uint64_t a = now();
		launches();
		uint64_t b = now();
		yardstick();
		uint64_t c = now();
		call[n][r] = (double)(b - a) / CALLS;
		store[n][r] = (double)(c - b) / CALLS;
			struct timespec pause = {0, 1000000 * threads * threads}; /* the recorder may catch up: the disk is not measured */
		nanosleep(&pause, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "bare";
	if (argc > 3)
		threads = atoi(argv[3]);
	if (argc > 4)
		cfg = &two, holders = &one;
	pthread_t t[THREADS];
	double calls[THREADS], stores[THREADS];
	if (argc > 2 && atoi(argv[2]) < MOST)
		rounds = atoi(argv[2]);
	if (threads < 1 || threads > THREADS)
		return 2;
	for (long i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, thread, (void *)i) != 0)
			return 1;
	for (long i = 0; i < threads; i++) {
		pthread_join(t[i], NULL);
		calls[i] = median(call[i], rounds);
		stores[i] = median(store[i], rounds);
	}
	printf("%s, %d threads: %.1f yardstick %.1f\n", name, threads, median(calls, threads), median(stores, threads));
	return 0;
}
