/*
 * A thread records a result while another one frees the result's memory: the second must wait, for the first reads the memory. Both
 * searches are tried: by memory if that is as large as the result, through all results if it is larger. Ends with 1 if the thread does not wait.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "payload/results.h"
#include "payload/visible.h"
#include "task/devtime.h"

static pthread_t freeing;
static uint32_t freed, early, recorded;
static uint64_t range;

static void *frees(void *addr)
{
	give_up_pending((uint64_t)addr, range, FREED);
	__atomic_store_n(&freed, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

void payload_rows(struct payload *p, uint64_t pitch, uint64_t width, bool careful)
{
	(void)pitch, (void)width, (void)careful;
	if (pthread_create(&freeing, NULL, frees, (void *)p->addr) != 0)
		_exit(3);
	usleep(100000); /* long enough for a thread that does not wait */
	early |= __atomic_load_n(&freed, __ATOMIC_SEQ_CST);
	recorded++;
}

void payload_missing(struct payload *p, uint8_t why) { (void)p, (void)why; }
void visible_after(void) {}
void shim_times_reached(enum reach which, void *stream, uint64_t until) { (void)which, (void)stream, (void)until; }

uint64_t shim_monotonic(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(void)
{
	static const uint64_t ranges[] = {8, 1 << 20};
	static int stream;
	for (int i = 0; i < 2; i++) {
		range = ranges[i];
		freed = 0;
		struct payload p = {.addr = 0x10000000, .len = 8};
		if (!add_pending(&p, &stream, 0, 0))
			return 4;
		shim_synced_stream(&stream, shim_order());
		if (pthread_join(freeing, NULL) != 0 || freed != 1)
			return 5;
	}
	return early || recorded != 2;
}
