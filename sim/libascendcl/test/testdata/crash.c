/* A kernel that crashes in its own code, and the program's own handlers for such signals: crash HOW */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test.h"

static sigjmp_buf back;
static volatile int handled;
static void *volatile touched;
static int *volatile nowhere = (int *)24;
static atomic_int exceptions;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)context;
	handled = sig;
	touched = info->si_addr;
	siglongjmp(back, 1);
}

static void on_exception(aclrtExceptionInfo *info)
{
	CHECK(aclrtGetErrorCodeFromExceptionInfo(info) == ACL_ERROR_RT_AICORE_EXCEPTION);
	atomic_fetch_add(&exceptions, 1);
}

static aclrtFuncHandle kernel(const char *file, const char *name)
{
	aclrtBinHandle bin;
	aclrtFuncHandle f;

	OK(aclrtBinaryLoadFromFile(file, NULL, &bin));
	OK(aclrtBinaryGetFunction(bin, name, &f));
	return f;
}

/* The program's own crash is its own. */
static void own_crash(void)
{
	handled = 0;
	if (!sigsetjmp(back, 1))
		*nowhere = 1;
	CHECK(handled == SIGSEGV && touched == (void *)nowhere);
	handled = 0;
	if (!sigsetjmp(back, 1))
		raise(SIGSEGV);
	CHECK(handled == SIGSEGV);
}

/* Sets handlers, unless they are set already. */
static void handlers(int set)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER}, old;

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		CHECK(!sigaction(signals[i], &a, &old));
		CHECK((old.sa_sigaction == on_signal) == set);
		CHECK(old.sa_handler == SIG_DFL || set);
	}
	own_crash();
}

int main(int argc, char **argv)
{
	struct {
		uint32_t how, pad;
		void *buffer;
	} args = {0};
	struct {
		void *out;
		uint64_t count;
		float value, pad;
	} fill = {0};
	aclrtFuncHandle fail, count, other;
	aclrtStream s, stops;
	float result = 0;
	int own;

	CHECK(argc == 5);
	args.how = (uint32_t)atoi(argv[4]);
	own = !strncmp(argv[3], "handlers", 8);
	if (!strcmp(argv[3], "handlers"))
		handlers(0);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	if (own)
		handlers(!strcmp(argv[3], "handlers"));
	OK(aclrtCreateStream(&s));
	OK(aclrtCreateStream(&stops));
	OK(aclrtMalloc(&args.buffer, 128 << 10, 0));
	OK(aclrtMalloc(&fill.out, 64, 0));
	if (!strcmp(argv[3], "own"))
		*nowhere = 1;
	if (!strcmp(argv[3], "raise"))
		raise(SIGSEGV);
	fail = kernel(argv[1], own ? "test_fail" : argv[3]);
	count = kernel(argv[1], "test_count");
	other = kernel(argv[2], "fill");
	OK(aclrtSetExceptionInfoCallback(on_exception));

	OK(aclrtLaunchKernelWithHostArgs(fail, 4, s, NULL, &args, sizeof args, NULL, 0));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	CHECK(strstr(aclGetRecentErrMsg(), "crashed in its own code"));
	CHECK(atomic_load(&exceptions) == 1);
	CHECK(own || !handled);

	/* no kernel of the library runs again */
	OK(aclrtLaunchKernelWithHostArgs(count, 1, s, NULL, &args.buffer, 8, NULL, 0));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	CHECK(strstr(aclGetRecentErrMsg(), "kernel test_count is not run"));
	CHECK(atomic_load(&exceptions) == 2);

	/* those of others do, and the stream goes on */
	fill.count = 1;
	fill.value = 3;
	OK(aclrtLaunchKernelWithHostArgs(other, 1, s, NULL, &fill, sizeof fill, NULL, 0));
	OK(aclrtSynchronizeStream(s));
	OK(aclrtMemcpy(&result, sizeof result, fill.out, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(result == 3);

	/* unless it stops on failure */
	OK(aclrtSetStreamFailureMode(stops, 1));
	OK(aclrtLaunchKernelWithHostArgs(fail, 4, stops, NULL, &args, sizeof args, NULL, 0));
	fill.value = 4;
	(void)aclrtLaunchKernelWithHostArgs(other, 1, stops, NULL, &fill, sizeof fill, NULL, 0);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stops));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stops));

	if (own)
		own_crash();
	return 0;
}
