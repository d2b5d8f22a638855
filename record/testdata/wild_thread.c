/* wild_thread MODE [N]: threads, signals and ways to leave a call, on the runtime of probe/shim/arm64test. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if (!(call)) { fprintf(stderr, "line %d: %s\n", __LINE__, #call); _exit(99); } } while (0)

static aclrtStream endless;
static atomic_int handled;
static sigjmp_buf back;

static void begin(void)
{
	aclrtStream stream;
	MUST(aclInit(NULL) == ACL_SUCCESS);
	MUST(aclrtSetDevice(3) == ACL_SUCCESS);
	MUST(aclrtCreateStream(&stream) == ACL_SUCCESS);
	MUST(aclrtCreateStream(&endless) == ACL_SUCCESS);
}

/* Waits until a thread sleeps. These threads sleep only in a call that waits. */
static void sleeping(pid_t tid)
{
	char path[64], stat[512] = "";
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
	for (char *state = NULL; state == NULL || strncmp(state, ") S", 3) != 0; usleep(1000)) {
		FILE *f = fopen(path, "r");
		MUST(f != NULL);
		stat[fread(stat, 1, sizeof stat - 1, f)] = 0;
		fclose(f);
		state = strrchr(stat, ')');
	}
	usleep(20000);
}

static atomic_int waits[16]; /* threads in wait_long */
static atomic_int waiting;

static void *wait_long(void *arg)
{
	atomic_store(&waits[atomic_fetch_add(&waiting, 1)], gettid());
	MUST(aclrtSynchronizeStream(endless) == ACL_SUCCESS);
	return arg;
}

static void *fifty_calls(void *arg)
{
	int32_t id;
	for (int i = 0; i < 50; i++)
		MUST(aclrtGetDevice(&id) == ACL_SUCCESS);
	pthread_barrier_wait(arg); /* all at once, so that no thread takes over a ring */
	return NULL;
}

/* Waits until n threads are in wait_long. */
static void all_wait(int n)
{
	for (int i = 0; i < n; i++) {
		while (atomic_load(&waits[i]) == 0)
			usleep(1000);
		sleeping(atomic_load(&waits[i]));
	}
}

static pthread_t first;

/* Sends the first thread a signal when it waits in a call. */
static void *interrupt(void *arg)
{
	sleeping(getpid());
	MUST(pthread_kill(first, SIGALRM) == 0);
	return arg;
}

static void call_in_handler(int sig)
{
	int32_t id = -1;
	(void)sig;
	MUST(aclrtGetDevice(&id) == ACL_SUCCESS && id == 3);
	if (atomic_fetch_add(&handled, 1) == 0)
		MUST(aclrtDestroyStream(endless) == ACL_SUCCESS);
}

static void jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;
	static pthread_t t[256];
	int32_t id;

	if (strcmp(mode, "many") == 0) {
		pthread_barrier_t all;
		MUST(pthread_barrier_init(&all, NULL, (unsigned)n) == 0);
		for (int i = 0; i < n; i++)
			MUST(pthread_create(&t[i], NULL, fifty_calls, &all) == 0);
		for (int i = 0; i < n; i++)
			MUST(pthread_join(t[i], NULL) == 0);
	} else if (strcmp(mode, "_exit") == 0) {
		begin();
		for (int i = 0; i < n; i++)
			MUST(pthread_create(&t[i], NULL, wait_long, NULL) == 0);
		all_wait(n);
		_exit(5);
	} else if (strcmp(mode, "cancel") == 0) {
		void *end;
		begin();
		MUST(pthread_create(&t[0], NULL, wait_long, NULL) == 0);
		all_wait(1);
		MUST(pthread_cancel(t[0]) == 0);
		MUST(pthread_join(t[0], &end) == 0 && end == PTHREAD_CANCELED);
		MUST(aclrtGetDevice(&id) == ACL_SUCCESS);
	} else if (strcmp(mode, "signal") == 0) {
		/* Once while a call waits, then thousands of times anywhere in the program. */
		struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
		struct sigaction a = {.sa_handler = call_in_handler, .sa_flags = SA_RESTART};
		begin();
		sigaction(SIGALRM, &a, NULL);
		first = pthread_self();
		MUST(pthread_create(&t[0], NULL, interrupt, NULL) == 0);
		MUST(aclrtSynchronizeStream(endless) == ACL_SUCCESS);
		MUST(pthread_join(t[0], NULL) == 0);
		setitimer(ITIMER_REAL, &often, NULL);
		for (int i = 0; i < n; i++)
			MUST(aclrtGetDevice(&id) == ACL_SUCCESS && id == 3);
		setitimer(ITIMER_REAL, &never, NULL);
		printf("%d\n", atomic_load(&handled));
	} else if (strcmp(mode, "longjmp") == 0) {
		begin();
		signal(SIGALRM, jump);
		if (sigsetjmp(back, 1) == 0) {
			first = pthread_self();
			MUST(pthread_create(&t[0], NULL, interrupt, NULL) == 0);
			wait_long(NULL);
			return 98;
		}
		for (int i = 0; i < 10; i++)
			MUST(aclrtGetDevice(&id) == ACL_SUCCESS);
	} else if (strcmp(mode, "errno") == 0) {
		/* Like the runtime, the shim does not change errno in first, later and failed calls, and in calls with memory. */
		static char host[100000];
		void *device;
		errno = 77;
		begin();
		MUST(errno == 77);
		MUST(aclrtMalloc(&device, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS && errno == 77);
		MUST(aclrtMemcpy(device, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS && errno == 77);
		MUST(aclrtMemcpy(device, 1, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS && errno == 77);
		MUST(aclInit((const char *)1) != ACL_SUCCESS && errno == 77);
		for (int i = 0; i < 100000; i++)
			MUST(aclrtGetDevice(&id) == ACL_SUCCESS && errno == 77);
	} else if (strcmp(mode, "copy") == 0) {
		/* N copies with incompressible bytes. */
		static unsigned char host[60000];
		void *device;
		unsigned seed = 1;
		MUST(aclrtMalloc(&device, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
		for (int i = 0; i < n; i++) {
			for (size_t k = 0; k < sizeof host; k++)
				host[k] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
			MUST(aclrtMemcpy(device, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
			usleep(1000);
		}
		puts("done");
		return 6;
	} else {
		return 97;
	}
	return 0;
}
