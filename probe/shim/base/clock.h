/* The clock by which records are stamped. */
#ifndef ACLTRACE_SHIM_CLOCK_H
#define ACLTRACE_SHIM_CLOCK_H

#include "base/state.h"

static inline uint64_t shim_counter(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
#error "no time stamp counter for this processor"
#endif
}

/* CLOCK_MONOTONIC in nanoseconds. If the process filters its system calls: the recorder's last heartbeat. */
uint64_t shim_monotonic(void);

/* A simulator in virtual time charges the program between CALL_STARTS and CALL_ENDS. The shim's own calls are outside and cost no virtual time. */
enum clock_use { CALL_STARTS, CALL_ENDS, NO_CALL };
uint64_t shim_other_clock(enum clock_use use);

static inline uint64_t shim_clock(enum clock_use use)
{
	if (__builtin_expect(shim_control->clock == CLOCK_COUNTER, 1))
		return shim_counter();
	return shim_other_clock(use);
}

static inline uint64_t shim_now(void) { return shim_clock(NO_CALL); }

#endif
