/* A thread polls for callbacks that never come, and the program waits for a stream in short slices. Then a launch fails on the device. */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

enum { POLLS = 6, PAUSE = 30000 };

static void *poll_reports(void *context)
{
	CHECK(aclrtSetCurrentContext(context));
	for (int i = 0; i < POLLS; i++) {
		if (aclrtProcessReport(1) != ACL_ERROR_RT_REPORT_TIMEOUT)
			_exit(2);
		usleep(PAUSE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	aclrtContext context;
	aclrtStream s, other;
	aclrtBinHandle binary;
	aclrtFuncHandle add;
	pthread_t thread;
	void *p;
	(void)argc;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtGetCurrentContext(&context));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtCreateStream(&other));
	CHECK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	CHECK(aclrtBinaryGetFunction(binary, "add", &add));
	CHECK(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemset(p, 4096, 0, 4096));
	if (pthread_create(&thread, NULL, poll_reports, context) != 0)
		return 2;
	CHECK(aclrtSubscribeReport((uint64_t)thread, other));
	pthread_join(thread, NULL);
	CHECK(aclrtValueWait(p, 1, 0, s));
	for (int i = 0; i < POLLS; i++) {
		if (aclrtSynchronizeStreamWithTimeout(s, 1) != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
			return 2;
		usleep(PAUSE);
	}
	CHECK(aclrtValueWrite(p, 1, 0, other));
	CHECK(aclrtSynchronizeStream(s));
	struct { void *a, *b, *out; uint64_t count; } args = {p, p, p, 16};
	CHECK(aclrtLaunchKernelWithHostArgs(add, 1, s, NULL, &args, sizeof args, NULL, 0));
	return aclrtSynchronizeStream(s) == ACL_ERROR_RT_AICORE_EXCEPTION ? 0 : 2;
}
