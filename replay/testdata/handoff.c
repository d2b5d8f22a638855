/*
 * Two threads that pass memory to each other: one allocates and fills it, the other adds to it on a stream of its own, after an event,
 * copies it back and frees it. Their other communication is not in the trace.
 */
#include "program.h"

enum { COUNT = 64, ROUNDS = 3 };

static pthread_barrier_t barrier;
static aclrtFuncHandle add;
static aclrtEvent event;
static uint32_t *x;

static void *consumer(void *unused)
{
	(void)unused;
	aclrtStream s;
	uint32_t *host;
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtMallocHost((void **)&host, COUNT * 4));
	for (uint32_t round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&barrier);
		CHECK(aclrtStreamWaitEvent(s, event));
		struct add_args args = {x, COUNT, 5, 0};
		launch(add, 1, s, &args, sizeof args);
		CHECK(aclrtMemcpyAsync(host, COUNT * 4, x, COUNT * 4, ACL_MEMCPY_DEVICE_TO_HOST, s));
		CHECK(aclrtSynchronizeStream(s));
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(host[i] == 100 * round + i + (3 + 5) * (i + 1));
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		CHECK(aclrtFree(x));
		CHECK(aclrtDestroyEvent(event));
		pthread_barrier_wait(&barrier);
	}
	CHECK(aclrtFreeHost(host));
	CHECK(aclrtDestroyStream(s));
	return NULL;
}

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream s;
	uint32_t host[COUNT];
	pthread_t thread;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	add = kernel(argv[1], "add");
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, consumer, NULL);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < COUNT; i++)
			host[i] = 100 * round + i;
		x = device_memory(sizeof host);
		CHECK(aclrtCreateEvent(&event));
		to_device(x, host, sizeof host);
		struct add_args args = {x, COUNT, 3, 0};
		launch(add, 1, s, &args, sizeof args);
		CHECK(aclrtRecordEvent(event, s));
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		to_host(host, x, sizeof host);
		EXPECT(host[1] == 100 * round + 1 + 2 * (3 + 5));
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	pthread_join(thread, NULL);
	CHECK(aclrtDestroyStream(s));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
