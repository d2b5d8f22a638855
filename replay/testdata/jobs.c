/*
 * Threads that pass jobs to each other: device memory with its expected content. Each thread acts at random, on streams,
 * events and host memory that come and go, so handles and addresses are reused at once, and checks every result.
 */
#include "program.h"

enum { THREADS = 4, ROUNDS = 100, JOBS = 24, MOST = 2048 };

struct job {
	uint32_t *at, count, want[MOST];
	aclrtEvent event; /* after the last work on it, NULL if that was waited for */
};

static pthread_mutex_t locks[JOBS];
static struct job *jobs[JOBS];
static aclrtFuncHandle add;
static unsigned seed;

static uint32_t chance(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*state >> 33) % below;
}

/* Takes a free place for a job. */
static struct job **take(uint64_t *state)
{
	for (;;) {
		uint32_t i = chance(state, JOBS);
		if (pthread_mutex_trylock(&locks[i]) == 0)
			return &jobs[i];
	}
}

static void wait_for(uint64_t *state, aclrtStream s)
{
	aclrtEvent e;
	aclrtEventRecordedStatus there = ACL_EVENT_RECORDED_STATUS_NOT_READY;
	aclrtStreamStatus done = ACL_STREAM_STATUS_NOT_READY;
	switch (chance(state, 5)) {
	case 0:
		CHECK(aclrtSynchronizeStream(s));
		break;
	case 1:
		CHECK(aclrtSynchronizeDevice());
		break;
	case 2:
		CHECK(aclrtCreateEvent(&e));
		CHECK(aclrtRecordEvent(e, s));
		CHECK(aclrtSynchronizeEvent(e));
		CHECK(aclrtDestroyEvent(e));
		break;
	case 3:
		CHECK(aclrtCreateEvent(&e));
		CHECK(aclrtRecordEvent(e, s));
		while (there != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
			CHECK(aclrtQueryEventStatus(e, &there));
			usleep(20);
		}
		CHECK(aclrtDestroyEvent(e));
		break;
	default:
		while (done != ACL_STREAM_STATUS_COMPLETE) {
			CHECK(aclrtStreamQuery(s, &done));
			usleep(20);
		}
	}
}

static void compare(const struct job *j, const uint32_t *got)
{
	for (uint32_t i = 0; i < j->count; i++)
		EXPECT(got[i] == j->want[i]);
}

static void *work(void *arg)
{
	uint64_t state = (uint64_t)seed * 1000 + (uint64_t)arg + 1;
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	for (unsigned r = 0; r < ROUNDS; r++) {
		if (chance(&state, 8) == 0) {
			CHECK(aclrtSynchronizeStream(s));
			CHECK(aclrtDestroyStream(s));
			CHECK(aclrtCreateStream(&s));
		}
		struct job **place = take(&state), *j = *place;
		if (j == NULL) {
			j = calloc(1, sizeof *j);
			j->count = 1 + chance(&state, MOST);
			j->at = device_memory(4 * j->count);
			for (uint32_t i = 0; i < j->count; i++)
				j->want[i] = chance(&state, 1 << 30);
			if (chance(&state, 2)) {
				to_device(j->at, j->want, 4 * j->count);
			} else {
				uint32_t *pinned;
				CHECK(aclrtMallocHost((void **)&pinned, 4 * j->count));
				memcpy(pinned, j->want, 4 * j->count);
				CHECK(aclrtMemcpyAsync(j->at, 4 * j->count, pinned, 4 * j->count, ACL_MEMCPY_HOST_TO_DEVICE, s));
				wait_for(&state, s);
				CHECK(aclrtFreeHost(pinned));
			}
		}
		size_t n = 4 * j->count;
		if (j->event) {
			CHECK(aclrtStreamWaitEvent(s, j->event));
			CHECK(aclrtSynchronizeEvent(j->event)); /* before the event is destroyed */
			CHECK(aclrtDestroyEvent(j->event));
			j->event = NULL;
		}
		switch (chance(&state, 7)) {
		case 0:
		case 1: {
			struct add_args args = {j->at, j->count, 1 + chance(&state, 100), 0};
			launch(add, 1 + chance(&state, 4), s, &args, sizeof args);
			for (uint32_t i = 0; i < j->count; i++)
				j->want[i] += args.by * (i + 1);
			break;
		}
		case 2: {
			uint32_t *other = device_memory(n);
			CHECK(aclrtMemcpyAsync(other, n, j->at, n, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
			wait_for(&state, s);
			CHECK(aclrtFree(j->at));
			j->at = other;
			break;
		}
		case 3: {
			uint32_t *pinned;
			CHECK(aclrtMallocHost((void **)&pinned, n));
			CHECK(aclrtMemcpyAsync(pinned, n, j->at, n, ACL_MEMCPY_DEVICE_TO_HOST, s));
			wait_for(&state, s);
			compare(j, pinned);
			CHECK(aclrtFreeHost(pinned));
			break;
		}
		case 4: {
			uint32_t *host = malloc(n);
			CHECK(aclrtSynchronizeStream(s));
			to_host(host, j->at, n);
			compare(j, host);
			free(host);
			break;
		}
		case 5:
			/* Sums do not become small numbers: two of those look like an address. */
			CHECK(aclrtMemsetAsync(j->at, n, 128 + r % 128, n, s));
			memset(j->want, 128 + r % 128, n);
			break;
		default:
			CHECK(aclrtSynchronizeStream(s));
			CHECK(aclrtFree(j->at));
			free(j);
			j = NULL;
		}
		if (j != NULL && chance(&state, 2)) {
			CHECK(aclrtCreateEvent(&j->event));
			CHECK(aclrtRecordEvent(j->event, s));
		} else if (j != NULL) {
			wait_for(&state, s);
		}
		*place = j;
		pthread_mutex_unlock(&locks[place - jobs]);
	}
	CHECK(aclrtSynchronizeStream(s));
	CHECK(aclrtDestroyStream(s));
	return NULL;
}

int main(int argc, char **argv)
{
	seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)getpid();
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	add = kernel(argv[1], "add");
	for (int i = 0; i < JOBS; i++)
		pthread_mutex_init(&locks[i], NULL);
	pthread_t threads[THREADS];
	for (size_t t = 0; t < THREADS; t++)
		pthread_create(&threads[t], NULL, work, (void *)t);
	for (size_t t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	for (int i = 0; i < JOBS; i++) {
		struct job *j = jobs[i];
		if (j == NULL)
			continue;
		if (j->event) {
			CHECK(aclrtSynchronizeEvent(j->event));
			CHECK(aclrtDestroyEvent(j->event));
		}
		uint32_t *host = malloc(4 * j->count);
		to_host(host, j->at, 4 * j->count);
		compare(j, host);
		CHECK(aclrtFree(j->at));
		free(host);
		free(j);
	}
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
