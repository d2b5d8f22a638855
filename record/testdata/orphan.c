/*
 * orphan: prints its PID and makes calls while its standard input is open. Then a new thread makes a call. The first one makes more calls, and
 * prints how many its ring has counted as lost.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

enum { LOST = 8 /* offset of the lost calls in the ring */, CALLS = 100000 };

static uint64_t lost(void)
{
	char line[4096];
	uintptr_t from = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (from == 0 && fgets(line, sizeof line, maps))
		if (strstr(line, "/ring."))
			sscanf(line, "%lx-", &from);
	fclose(maps);
	return from == 0 ? 0 : *(volatile uint64_t *)(from + LOST);
}

/* The shim looks for its session when it opens a file of it. */
static void *call(void *none)
{
	int32_t id;
	CHECK(aclrtGetDevice(&id));
	return none;
}

int main(void)
{
	int32_t id;
	char c;
	CHECK(aclrtSetDevice(0));
	printf("%d\n", (int)getpid());
	fflush(stdout);
	fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	while (read(STDIN_FILENO, &c, 1) != 0)
		for (int i = 0; i < CALLS; i++)
			CHECK(aclrtGetDevice(&id));
	pthread_t t;
	if (pthread_create(&t, NULL, call, NULL) != 0 || pthread_join(t, NULL) != 0)
		return 1;
	uint64_t before = lost();
	for (int i = 0; i < CALLS; i++)
		CHECK(aclrtGetDevice(&id));
	printf("%llu %llu\n", (unsigned long long)before, (unsigned long long)(lost() - before));
	return 0;
}
