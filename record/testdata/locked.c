/*
 * locked HOW WORK MS: makes some calls, sets a seccomp filter that kills the program for certain system calls, and makes more calls.
 * Prints their number, and exits with 5.
 *
 * HOW the filter is set: prctl; syscall, for all threads; raw, without the C library, with a wait for MS milliseconds; before, like prctl
 * but before the first call.
 * WORK under the filter: a number denies that system call, and waiting threads make calls. "all" denies all system calls that the shim
 * uses. "threads" starts eight threads, which call for MS milliseconds. "child" forks a process that calls. "full" denies all, and the only
 * thread fills its ring. "strict" sets strict mode instead of a filter, and the only thread calls.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"

enum { LARGE = 64 * 1024, THREADS = 8, WAITING = 3 };

static int calls, open_gate, done, ms;
static char pageable[LARGE];
static void *device, *pinned;

static void call(int ok)
{
	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	if (ok != 0)
		_exit(99);
}

static void work(void)
{
	call(aclrtMemcpy(device, 256, pageable, 256, ACL_MEMCPY_HOST_TO_DEVICE));
	call(aclrtMemcpy(device, LARGE, pageable, LARGE, ACL_MEMCPY_HOST_TO_DEVICE));
	call(aclrtMemcpyAsync(device, LARGE, pinned, LARGE, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
	call(aclrtMemcpyAsync(device, LARGE, pageable, LARGE, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
	call(aclrtSynchronizeStream(NULL));
}

/* By a clock that needs no system call. */
static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *waiting(void *none)
{
	while (!__atomic_load_n(&open_gate, __ATOMIC_ACQUIRE))
		;
	for (int i = 0; i < 5; i++)
		work();
	__atomic_add_fetch(&done, 1, __ATOMIC_RELEASE);
	while (none == NULL)
		; /* a thread that ends makes system calls */
	return NULL;
}

static void *calling(void *none)
{
	for (int64_t end = now() + ms; now() < end;)
		call(aclrtSetDevice(0));
	return none;
}

static long raw_syscall(long n, long a, long b, long c)
{
#if defined(__x86_64__)
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
#else
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#endif
}

static void strict(const char *how)
{
	long r = strcmp(how, "syscall") == 0 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	if (r != 0)
		_exit(98);
}

static void lock_in(const char *how, const int *denied, int n)
{
	struct sock_filter f[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	int k = 1;
	for (int i = 0; i < n; i++)
		f[k++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)denied[i], (uint8_t)(n - i), 0);
	f[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog p = {(unsigned short)k, f};
	long r;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (strcmp(how, "raw") == 0)
		r = raw_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, (long)&p);
	else if (strcmp(how, "syscall") == 0)
		r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &p);
	else
		r = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0);
	if (r != 0)
		_exit(98);
	if (strcmp(how, "raw") == 0)
		for (int64_t end = now() + ms; now() < end;)
			;
}

static void start(void)
{
	call(aclInit(NULL));
	call(aclrtSetDevice(0));
	call(aclrtMalloc(&device, LARGE, ACL_MEM_MALLOC_HUGE_FIRST));
	call(aclrtMallocHost(&pinned, LARGE));
	work();
}

int main(int argc, char **argv)
{
	static const int all[] = {SYS_openat, SYS_read, SYS_close, SYS_fstat, SYS_newfstatat, SYS_readlinkat, SYS_lseek, SYS_fallocate, SYS_ftruncate, SYS_fchmod, SYS_fcntl, SYS_prlimit64,
		SYS_getpid, SYS_getppid, SYS_gettid, SYS_tgkill, SYS_prctl, SYS_sigaltstack, SYS_process_vm_readv, SYS_nanosleep, SYS_sched_yield, SYS_clock_gettime, SYS_mincore,
		SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise};
	enum { ALL = sizeof all / sizeof *all, OF_THREADS = 4, FULL = 300000 };
	if (argc != 4)
		return 97;
	const char *how = argv[1], *what = argv[2];
	ms = atoi(argv[3]);
	int one = atoi(what), n = 1;
	const int *denied = &one;
	if (strcmp(what, "all") == 0 || strcmp(what, "full") == 0)
		denied = all, n = ALL;
	if (strcmp(what, "threads") == 0 || strcmp(what, "child") == 0)
		denied = all, n = ALL - OF_THREADS;
	pthread_t t[THREADS];
	bool full = strcmp(what, "full") == 0, alone = full || strcmp(what, "strict") == 0;
	if (strcmp(how, "before") != 0)
		start();
	for (int i = 0; i < WAITING && !alone; i++)
		pthread_create(&t[i], NULL, waiting, NULL);
	if (strcmp(what, "strict") == 0)
		strict(how);
	else
		lock_in(how, denied, n);
	if (strcmp(how, "before") == 0)
		start();
	if (strcmp(what, "threads") == 0) {
		for (int i = 0; i < THREADS; i++)
			pthread_create(&t[i], NULL, calling, NULL);
		for (int i = 0; i < THREADS; i++)
			pthread_join(t[i], NULL);
	} else if (strcmp(what, "child") == 0) {
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			work();
			_exit(7);
		}
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
			_exit(96);
	} else {
		for (int i = 0; i < FULL && full; i++)
			call(aclrtSetDevice(0));
		__atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
		while (!alone && __atomic_load_n(&done, __ATOMIC_ACQUIRE) != WAITING)
			;
		if (!full)
			work();
	}
	char line[32];
	n = snprintf(line, sizeof line, "%d\n", calls);
	if (write(1, line, (size_t)n) != n)
		_exit(95);
	if (alone)
		raw_syscall(SYS_exit, 5, 0, 0); /* _exit would be the shim's, and the mode allows no other */
	_exit(5);
}
