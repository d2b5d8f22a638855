/*
 * Threads that share streams, allocations, and results that another thread waits for. Every
 * result depends on the order of the calls, and the program checks them itself.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "check.h"

enum { THREADS = 4, ROUNDS = 20, SIZE = 8192 };

static aclrtStream shared;
static void *common; /* device memory that all add to, in turn */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* One thread starts work, and another waits for it. */
static pthread_barrier_t barrier;
static aclrtStream streams[THREADS];
static unsigned char *results[THREADS];

static void *work(void *arg)
{
	int me = (int)(long)arg;
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&streams[me]));
	void *mine;
	unsigned char *host;
	CHECK(aclrtMalloc(&mine, 2 * SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMallocHost((void **)&host, SIZE));
	CHECK(aclrtMallocHost((void **)&results[me], SIZE));
	for (int r = 0; r < ROUNDS; r++) {
		memset(host, me * ROUNDS + r + 1, SIZE);
		CHECK(aclrtMemcpyAsync(mine, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, streams[me]));
		CHECK(aclrtMemcpyAsync(results[me], SIZE, mine, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, streams[me]));
		pthread_barrier_wait(&barrier);
		int other = (me + 1) % THREADS;
		CHECK(aclrtSynchronizeStream(streams[other]));
		if (results[other][SIZE - 1] != (unsigned char)(other * ROUNDS + r + 1)) {
			fprintf(stderr, "thread %d has not seen the result of %d\n", me, other);
			exit(1);
		}
		pthread_barrier_wait(&barrier);

		/* A table that all read, change and write back, on one stream. */
		pthread_mutex_lock(&turn);
		uint64_t table[SIZE / 8];
		CHECK(aclrtMemcpy(table, SIZE, common, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
		table[me * ROUNDS + r] = (uint64_t)mine + (uint64_t)r;
		table[1000]++;
		CHECK(aclrtMemcpyAsync(common, SIZE, table, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, shared));
		CHECK(aclrtSynchronizeStream(shared));
		pthread_mutex_unlock(&turn);
		/* These overlap: the runtime alone decides their order on the stream. */
		CHECK(aclrtMemsetAsync((char *)mine + SIZE, SIZE, r, SIZE, shared));
	}
	CHECK(aclrtSynchronizeStream(shared));
	pthread_barrier_wait(&barrier);
	CHECK(aclrtFree(mine));
	CHECK(aclrtFreeHost(host));
	CHECK(aclrtFreeHost(results[me]));
	CHECK(aclrtDestroyStream(streams[me]));
	return NULL;
}

int main(void)
{
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&shared));
	CHECK(aclrtMalloc(&common, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemset(common, SIZE, 0, SIZE));
	pthread_barrier_init(&barrier, NULL, THREADS);
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	uint64_t table[SIZE / 8];
	CHECK(aclrtMemcpy(table, SIZE, common, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(aclrtFree(common));
	CHECK(aclrtDestroyStream(shared));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return table[1000] != THREADS * ROUNDS;
}
