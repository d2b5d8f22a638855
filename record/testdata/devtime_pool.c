/* devtime_pool: 5000 fills that the program waits for at the end, ten more, and five on a stream that it never waits for. */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); exit(1); } } while (0)

int main(void)
{
	aclrtStream s, never;
	char *p;
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&s));
	MUST(aclrtCreateStream(&never));
	MUST(aclrtMalloc((void **)&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int i = 0; i < 5000; i++)
		MUST(aclrtMemsetAsync(p, 4096, i, 4096, s));
	MUST(aclrtSynchronizeStream(s));
	for (int i = 0; i < 10; i++)
		MUST(aclrtMemsetAsync(p, 4096, i, 4096, s));
	MUST(aclrtSynchronizeStream(s));
	for (int i = 0; i < 5; i++)
		MUST(aclrtMemsetAsync(p, 4096, i, 4096, never));
	return 0;
}
