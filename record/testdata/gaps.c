/*
 * gaps: four queries, and between them a sleep, a computation, and a wait for another thread; again and again, since gaps are measured once the recorder has looked for
 * filters of system calls.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); return 1; } } while (0)

enum { GAP = 10 * 1000 * 1000, ROUNDS = 50 };

static void sleeps(void)
{
	struct timespec t = {0, GAP};
	nanosleep(&t, NULL);
}

static void computes(void)
{
	struct timespec from, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000000LL + now.tv_nsec - from.tv_nsec < GAP);
}

static void *other(void *none)
{
	computes();
	return none;
}

int main(void)
{
	int32_t device;
	pthread_t thread;
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	for (int i = 0; i < ROUNDS; i++) {
		MUST(aclrtGetDevice(&device));
		sleeps();
		MUST(aclrtGetDevice(&device));
		computes();
		MUST(aclrtGetDevice(&device));
		if (pthread_create(&thread, NULL, other, NULL) != 0)
			return 1;
		pthread_join(thread, NULL);
		MUST(aclrtGetDevice(&device));
	}
	MUST(aclrtResetDevice(0));
	MUST(aclFinalize());
	return 0;
}
