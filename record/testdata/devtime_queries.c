/*
 * devtime_queries HOW: 1000 fills on a stream that nothing waits for, which are complete, and ten on a stream that is held. Then ten waits for another stream (wait).
 * Or 20,000 fills whose end a host function announces, 100 at a time, and no wait (none).
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); exit(1); } } while (0)

static atomic_int go, done;

static void hold(void *unused)
{
	(void)unused;
	while (!go)
		usleep(100);
}

static void announce(void *unused)
{
	(void)unused;
	done++;
}

static void fills(char *p, aclrtStream s, int n)
{
	for (int i = 0; i < n; i++)
		MUST(aclrtMemsetAsync(p, 4096, i, 4096, s));
}

/* Launches fills and waits until they are complete, without the runtime. */
static void complete(char *p, aclrtStream s, int n)
{
	int before = done;
	fills(p, s, n);
	MUST(aclrtLaunchHostFunc(s, announce, NULL));
	while (done == before)
		usleep(100);
}

int main(int argc, char **argv)
{
	aclrtStream held, loose, waited;
	char *p;
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&held));
	MUST(aclrtCreateStream(&loose));
	MUST(aclrtCreateStream(&waited));
	MUST(aclrtMalloc((void **)&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	if (argc > 1 && strcmp(argv[1], "none") == 0) {
		for (int i = 0; i < 200; i++)
			complete(p, loose, 100);
		return 0;
	}
	MUST(aclrtLaunchHostFunc(held, hold, NULL));
	fills(p, held, 10);
	complete(p, loose, 1000);
	for (int i = 0; i < 10; i++)
		MUST(aclrtSynchronizeStream(waited));
	go = 1;
	return 0;
}
