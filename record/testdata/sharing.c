/*
 * sharing CALLS: a process made by clone has its parent's memory and thread-local storage. Both call the runtime at the same time, and each
 * waits in the middle until the other has made half of its calls. Prints the number of calls.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

int aclrtSetDevice(int);
int aclrtGetDevice(int *);

static int calls;
static atomic_int half, over;

static void work(void)
{
	for (int i = 0; i < calls; i++) {
		int d;
		if (aclrtGetDevice(&d))
			abort();
		if (i != calls / 2)
			continue;
		atomic_fetch_add(&half, 1);
		while (atomic_load(&half) < 2)
			sched_yield();
	}
	atomic_fetch_add(&over, 1);
}

static int child(void *unused)
{
	(void)unused;
	work();
	return 0;
}

int main(int argc, char **argv)
{
	const size_t stack = 1 << 18;
	calls = argc > 1 ? atoi(argv[1]) : 100;
	if (aclrtSetDevice(0))
		return 1;
	char *m = mmap(NULL, stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int pid = clone(child, m + stack, CLONE_VM | SIGCHLD, NULL), status = 1;
	work();
	while (atomic_load(&over) < 2)
		sched_yield();
	waitpid(pid, &status, 0);
	printf("%d\n", 1 + 2 * calls);
	return status;
}
