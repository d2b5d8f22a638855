/*
 * crowd THREADS ROUNDS CALLS PAUSE: in each round starts threads that make CALLS calls each, all at once, and waits for their ends. A thread pauses for
 * PAUSE microseconds after every tenth call. Prints the number of calls.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/acl.h"

static long calls, pause_us;
static pthread_barrier_t all;

static void *work(void *none)
{
	int32_t id;
	for (long i = 0; i < calls; i++) {
		if (aclrtGetDevice(&id) != ACL_SUCCESS)
			abort();
		if (i == 0)
			pthread_barrier_wait(&all); /* all have made their first call */
		if (pause_us > 0 && i % 10 == 9)
			usleep((useconds_t)pause_us);
	}
	return none;
}

int main(int argc, char **argv)
{
	static pthread_t t[1024];
	if (argc != 5)
		return 97;
	int n = atoi(argv[1]), rounds = atoi(argv[2]);
	calls = atol(argv[3]), pause_us = atol(argv[4]);
	for (int r = 0; r < rounds; r++) {
		pthread_barrier_init(&all, NULL, (unsigned)n);
		for (int i = 0; i < n; i++)
			if (pthread_create(&t[i], NULL, work, NULL) != 0)
				return 98;
		for (int i = 0; i < n; i++)
			pthread_join(t[i], NULL);
	}
	printf("%ld\n", n * rounds * calls);
	return 0;
}
