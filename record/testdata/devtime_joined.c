/*
 * devtime_joined STEPS: in each step, 100 fills on a side stream, which the main stream joins by an event, and ten that it does not. The program waits
 * for the main stream alone.
 */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); exit(1); } } while (0)

enum { BYTES = 4096, JOINED = 100, LOOSE = 10 };

static void fills(char *p, aclrtStream s, int n)
{
	for (int i = 0; i < n; i++)
		MUST(aclrtMemsetAsync(p, BYTES, i, BYTES, s));
}

int main(int argc, char **argv)
{
	aclrtStream side, between, joins, loose;
	aclrtEvent first, second;
	char *p[4];
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&side));
	MUST(aclrtCreateStream(&between));
	MUST(aclrtCreateStream(&joins));
	MUST(aclrtCreateStream(&loose));
	MUST(aclrtCreateEvent(&first));
	MUST(aclrtCreateEvent(&second));
	for (int i = 0; i < 4; i++)
		MUST(aclrtMalloc((void **)&p[i], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int step = 0; step < (argc > 1 ? atoi(argv[1]) : 1); step++) {
		fills(p[0], side, JOINED);
		MUST(aclrtRecordEvent(first, side));
		MUST(aclrtStreamWaitEvent(between, first));
		fills(p[1], between, 1);
		MUST(aclrtRecordEvent(second, between));
		fills(p[3], loose, LOOSE);
		MUST(aclrtStreamWaitEvent(joins, second));
		fills(p[2], joins, 1);
		MUST(aclrtSynchronizeStream(joins));
	}
	return 0;
}
