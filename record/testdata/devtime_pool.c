/* devtime_pool: 5000 fills that begin when all are launched, and that the program waits for, ten more, and five on a stream that it never waits for. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); exit(1); } } while (0)

static atomic_int go;

static void hold(void *unused)
{
	(void)unused;
	while (!go)
		usleep(100);
}

int main(void)
{
	aclrtStream s, never;
	char *p;
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&s));
	MUST(aclrtCreateStream(&never));
	MUST(aclrtMalloc((void **)&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	MUST(aclrtLaunchHostFunc(s, hold, NULL));
	for (int i = 0; i < 5000; i++)
		MUST(aclrtMemsetAsync(p, 4096, i, 4096, s));
	go = 1;
	MUST(aclrtSynchronizeStream(s));
	for (int i = 0; i < 10; i++)
		MUST(aclrtMemsetAsync(p, 4096, i, 4096, s));
	MUST(aclrtSynchronizeStream(s));
	for (int i = 0; i < 5; i++)
		MUST(aclrtMemsetAsync(p, 4096, i, 4096, never));
	return 0;
}
