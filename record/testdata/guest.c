/*
 * guest MODE: a program that is hard to record. Writes its number of calls to stderr, and its results to stdout.
 *
 *	plain     four threads call
 *	killed    the same, then SIGKILL
 *	signal    the same, while a timer's handler calls, too
 *	seccomp   calls, sets a seccomp filter that kills, and calls on four new threads
 *	prefork   four workers are forked and call; one ends by SIGSEGV, one by SIGKILL, one by abort
 *	scribble  like plain, and overwrites one of its rings
 *	truncate  a child calls, truncates its ring's file (as root), and ends; then like plain
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

enum { THREADS = 4, ROUNDS = 2000, BYTES = 512 };

static long *calls; /* shared by all processes */

static void call(aclError ret)
{
	__atomic_add_fetch(calls, 1, __ATOMIC_RELAXED);
	if (ret != ACL_SUCCESS)
		_exit(99);
}

static void *work(void *none)
{
	char here[BYTES] = {1}, there[BYTES];
	void *d;
	call(aclrtSetDevice(0));
	call(aclrtMalloc(&d, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int i = 0; i < ROUNDS; i++) {
		call(aclrtMemcpy(d, BYTES, here, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
		call(aclrtMemcpy(there, BYTES, d, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
	}
	if (memcmp(here, there, BYTES) != 0)
		_exit(98);
	return none;
}

static void threads(void)
{
	pthread_t t[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

static void handler(int sig)
{
	int32_t id;
	(void)sig;
	call(aclrtGetDevice(&id));
}

static void lock_in(void)
{
	static const int denied[] = {SYS_openat, SYS_fallocate, SYS_ftruncate, SYS_prlimit64, SYS_fcntl, SYS_gettid, SYS_getppid, SYS_prctl, SYS_sigaltstack, SYS_process_vm_readv, SYS_mincore};
	enum { N = sizeof denied / sizeof *denied };
	struct sock_filter f[N + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	for (int i = 0; i < N; i++)
		f[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)denied[i], (uint8_t)(N - i), 0);
	f[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog p = {N + 3, f};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0))
		_exit(97);
}

static void prefork(void)
{
	pid_t child[THREADS];
	for (int i = 0; i < THREADS; i++) {
		child[i] = fork();
		if (child[i] != 0)
			continue;
		work(NULL);
		if (i == 0)
			*(volatile char *)1 = 0;
		if (i == 1)
			raise(SIGKILL);
		if (i == 2)
			abort();
		exit(i);
	}
	for (int i = 0; i < THREADS; i++) {
		int status;
		if (waitpid(child[i], &status, 0) != child[i])
			_exit(96);
		printf("worker %d: %x\n", i, status & 0xff7f); /* without the core */
	}
}

/* The mapping of one of this process's rings, 0 if the process is not recorded. */
static uintptr_t ring(char *link)
{
	char line[4096];
	uintptr_t from = 0, to;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (from == 0 && fgets(line, sizeof line, maps))
		if (strstr(line, "/ring.") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			sprintf(link, "/proc/self/map_files/%lx-%lx", from, to);
	fclose(maps);
	return from;
}

static void scribble(void)
{
	char link[64];
	uintptr_t at = ring(link);
	if (at != 0)
		memset((void *)(at + 8192), 0xa5, 8192);
}

static void truncate_one(void)
{
	char link[64];
	int status;
	pid_t child = fork();
	if (child == 0) {
		work(NULL);
		_exit(ring(link) != 0 && truncate(link, 0));
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		_exit(95);
}

int main(int argc, char **argv)
{
	const char *mode = argc == 2 ? argv[1] : "";
	calls = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (strcmp(mode, "prefork") == 0)
		prefork();
	work(NULL);
	if (strcmp(mode, "signal") == 0) {
		struct sigaction on = {.sa_handler = handler, .sa_flags = SA_RESTART};
		struct itimerval often = {{0, 200}, {0, 200}};
		sigaction(SIGALRM, &on, NULL);
		setitimer(ITIMER_REAL, &often, NULL);
	}
	if (strcmp(mode, "seccomp") == 0)
		lock_in();
	threads();
	if (strcmp(mode, "signal") == 0) {
		struct itimerval never = {{0, 0}, {0, 0}};
		setitimer(ITIMER_REAL, &never, NULL);
	}
	if (strcmp(mode, "scribble") == 0)
		scribble();
	if (strcmp(mode, "truncate") == 0)
		truncate_one();
	threads();
	printf("done %s\n", mode);
	fflush(stdout);
	fprintf(stderr, "%ld\n", *calls);
	if (strcmp(mode, "killed") == 0)
		raise(SIGKILL);
	return 5;
}
