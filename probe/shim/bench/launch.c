/*
 * What one launch with 64 bytes of arguments costs, beside the least that a record can cost: two reads of the time stamp
 * counter and a store of 128 bytes. It is run bare, under the recorder, and with tracepoints of LTTng-UST (-DLTTNG).
 *
 *	launch NAME [ROUNDS]
 *
 * prints "NAME NANOSECONDS yardstick NANOSECONDS": the medians of the rounds, of 1000 launches each, which stay in the cache.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"

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

static uint64_t args[8] = {0x124000000000, 0x124000010000, 0x124000020000, 4096, 64, 0x3f800000, 7, 9};

static void launches(void)
{
	for (int i = 0; i < CALLS; i++) {
		args[3] = (uint64_t)i;
#ifdef LTTNG
		tracepoint(acltrace_bench, launch_entry, (void *)0x1000, 8, (void *)0x2000, (uint8_t *)args, sizeof args);
#endif
		aclError ret = aclrtLaunchKernelWithHostArgs((aclrtFuncHandle)0x1000, 8, (aclrtStream)0x2000, NULL, args, sizeof args, NULL, 0);
#ifdef LTTNG
		tracepoint(acltrace_bench, launch_exit, ret);
#else
		if (ret != ACL_SUCCESS)
			abort();
#endif
	}
}

/* The yardstick: the stores go through a ring of 1 MiB, as a record's do. */
static uint8_t ring[1 << 20];

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

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "bare";
	int rounds = argc > 2 ? atoi(argv[2]) : 1000;
	static double call[MOST], store[MOST];
	for (int r = 0; r < rounds && r < MOST; r++) {
		uint64_t a = now();
		launches();
		uint64_t b = now();
		yardstick();
		uint64_t c = now();
		call[r] = (double)(b - a) / CALLS;
		store[r] = (double)(c - b) / CALLS;
		struct timespec pause = {0, 1000000}; /* whoever drains may catch up: the cost of a call is measured, not the disk */
		nanosleep(&pause, NULL);
	}
	qsort(call, (size_t)rounds, sizeof *call, ascending);
	qsort(store, (size_t)rounds, sizeof *store, ascending);
	printf("%s %.1f yardstick %.1f\n", name, call[rounds / 2], store[rounds / 2]);
	return 0;
}
