/*
 * wild_step: a signal handler calls the runtime after each single instruction inside a call. The processor stops at every instruction, and
 * the handler calls at the first one, then at the second, and so on until a call has fewer. After each stopped call comes a call from a
 * deeper frame, which works as before. Prints the numbers of stopped calls and of the handler's calls, none in a call that has fewer. x86-64 only.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if (!(call)) { fprintf(stderr, "line %d: %s\n", __LINE__, #call); _exit(99); } } while (0)

static volatile long at, stop; /* instructions so far, and the one after which the handler calls */
static volatile long handled; /* calls of the handler */

static void step(int sig)
{
	void *p;
	(void)sig;
	if (at++ != stop)
		return;
	MUST(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
	handled++;
}

/* The processor flag that makes it stop after each instruction. */
static inline __attribute__((always_inline)) void stepping(int on)
{
	if (on)
		__asm__ volatile("pushf; orl $0x100, (%%rsp); popf" : : : "memory", "cc");
	else
		__asm__ volatile("pushf; andl $~0x100, (%%rsp); popf" : : : "memory", "cc");
}

static __attribute__((noinline)) void deeper(int n)
{
	volatile char room[32768];
	int32_t id;
	room[0] = (char)n;
	MUST(aclrtGetDevice(&id) == ACL_SUCCESS && id == 3);
	room[sizeof room - 1] = room[0];
}

static __attribute__((noinline)) void plain(void)
{
	MUST(aclrtSetDevice(3) == ACL_SUCCESS);
}

static uint32_t args[16];

static __attribute__((noinline)) void launch(void)
{
	MUST(aclrtLaunchKernelWithHostArgs((aclrtFuncHandle)0x1000, 8, (aclrtStream)0x2000, NULL, args, sizeof args, NULL, 0) == ACL_SUCCESS);
}

int main(void)
{
	struct sigaction a = {.sa_handler = step};
	void (*const calls[])(void) = {plain, launch};
	long n = 0;
	void *p;
	MUST(aclInit(NULL) == ACL_SUCCESS);
	MUST(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS); /* the first call of a function looks for it */
	sigaction(SIGTRAP, &a, NULL);
	for (unsigned k = 0; k < sizeof calls / sizeof *calls; k++) {
		calls[k]();
		deeper(0);
		n++;
		for (stop = 0, at = 1; at > stop; stop++) {
			at = 0;
			stepping(1);
			calls[k]();
			stepping(0);
			deeper(0);
			n++;
		}
	}
	printf("%ld %ld\n", n, handled);
	return 0;
}
