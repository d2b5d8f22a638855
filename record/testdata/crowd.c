/*
 * crowd THREADS ROUNDS CALLS PAUSE [lock]: in each round starts threads, each after the first call of the one before, and waits for their ends. All make
 * CALLS calls at once, and pause for PAUSE microseconds after every tenth call. Prints the number of calls. lock: locks its future memory first.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"

static long calls, pause_us;
static pthread_barrier_t all;
static sem_t begun;

static void *work(void *none)
{
	int32_t id;
	for (long i = 0; i < calls; i++) {
		if (aclrtGetDevice(&id) != ACL_SUCCESS)
			abort();
		if (i == 0) {
			sem_post(&begun);
			pthread_barrier_wait(&all);
		}
		if (pause_us > 0 && i % 10 == 9)
			usleep((useconds_t)pause_us);
	}
	return none;
}

int main(int argc, char **argv)
{
	static pthread_t t[1024];
	if (argc < 5)
		return 97;
	if (argc == 6 && mlockall(MCL_FUTURE) != 0)
		return 96;
	int n = atoi(argv[1]), rounds = atoi(argv[2]);
	calls = atol(argv[3]), pause_us = atol(argv[4]);
	sem_init(&begun, 0, 0);
	for (int r = 0; r < rounds; r++) {
		pthread_barrier_init(&all, NULL, (unsigned)n);
		for (int i = 0; i < n; i++) {
			if (pthread_create(&t[i], NULL, work, NULL) != 0)
				return 98;
			while (sem_wait(&begun) != 0)
				;
		}
		for (int i = 0; i < n; i++)
			pthread_join(t[i], NULL);
	}
	printf("%ld\n", n * rounds * calls);
	return 0;
}
