/*
 * Functions that streams call: a host function that calls the runtime, a callback on the program's own thread, and a host function in a
 * graph that runs three times. Prints the function and the thread for each run.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

static aclrtStream s;
static volatile int done;
static int one, two, three;
static pthread_t thread;

static void ran(const char *what)
{
	usleep(3000);
	printf("%s %ld\n", what, syscall(SYS_gettid));
	fflush(stdout);
}

static void host(void *arg)
{
	aclrtRunMode mode;
	CHECK(arg != &one);
	CHECK(aclrtGetRunMode(&mode));
	ran("host");
}

static void callback(void *arg)
{
	CHECK(arg != &two || !pthread_equal(thread, pthread_self()));
	ran("callback");
}

static void captured(void *arg)
{
	CHECK(arg != &three);
	ran("captured");
}

static void *process(void *unused)
{
	(void)unused;
	CHECK(aclrtSetDevice(0));
	while (!done)
		aclrtProcessReport(20);
	return NULL;
}

int main(void)
{
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	pthread_create(&thread, NULL, process, NULL);
	CHECK(aclrtSubscribeReport((uint64_t)thread, s));
	CHECK(aclrtLaunchHostFunc(s, host, &one));
	CHECK(aclrtLaunchCallback(callback, &two, ACL_CALLBACK_BLOCK, s));
	CHECK(aclrtSynchronizeStream(s));
	CHECK(aclrtUnSubscribeReport((uint64_t)thread, s));
	done = 1;
	pthread_join(thread, NULL);

	aclmdlRI graph;
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(aclrtLaunchHostFunc(s, captured, &three));
	CHECK(aclmdlRICaptureEnd(s, &graph));
	for (int i = 0; i < 3; i++) {
		CHECK(aclmdlRIExecuteAsync(graph, s));
		CHECK(aclrtSynchronizeStream(s));
	}
	CHECK(aclmdlRIDestroy(graph));
	CHECK(aclrtDestroyStream(s));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
