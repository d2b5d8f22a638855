/*
 * standing: one thread waits in the runtime from the beginning, for a notify that nobody records. The first thread makes a call for each byte of its
 * input. At an 'h' it prints 'h' and begins to wait, too.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); _exit(1); } } while (0)

static void waits(void)
{
	aclrtStream stream;
	aclrtNotify never;
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&stream));
	MUST(aclrtCreateNotify(&never, 0));
	MUST(aclrtWaitAndResetNotify(never, stream, 0));
	MUST(aclrtSynchronizeStream(stream));
}

static void *early(void *unused)
{
	prctl(PR_SET_NAME, "early");
	waits();
	return unused;
}

int main(void)
{
	pthread_t thread;
	int32_t device;
	char c;
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	if (pthread_create(&thread, NULL, early, NULL))
		return 1;
	while (read(0, &c, 1) == 1) {
		if (write(1, &c, 1) != 1)
			return 1;
		if (c == 'h')
			waits();
		MUST(aclrtGetDevice(&device));
	}
	return 0;
}
