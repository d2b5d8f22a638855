/*
 * Overwrites its first thread's ring while it makes calls, as a faulty program may, and makes more calls than the ring has room for.
 * Another thread makes calls before and afterwards.
 */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "check.h"
#include "ring.h"

enum { BYTES = 64 << 10, CALLS = 1000 };

static pthread_barrier_t barrier;

static void call(int times)
{
	int32_t id;
	for (int i = 0; i < times; i++)
		CHECK(aclrtGetDevice(&id));
}

static void *other(void *unused)
{
	(void)unused;
	CHECK(aclrtSetDevice(0));
	call(CALLS);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	call(CALLS);
	return NULL;
}

int main(void)
{
	pthread_t t;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	char line[4096];
	uintptr_t ring = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (ring == 0 && fgets(line, sizeof line, maps))
		if (strstr(line, "/ring."))
			sscanf(line, "%lx", &ring);
	fclose(maps);
	if (ring == 0)
		return 2;
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&t, NULL, other, NULL);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < CALLS; i++) {
		call(1);
		memset((char *)ring + RING_HEADER, 0xff, BYTES);
	}
	call(100 * CALLS);
	pthread_barrier_wait(&barrier);
	pthread_join(t, NULL);
	return 0;
}
