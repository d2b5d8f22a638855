/*
 * Two threads serve one stream: one runs its callbacks, the other one its host functions. Both kinds of function call the runtime while the
 * stream waits. After the subscription has ended, host functions run on a thread of the runtime.
 */
#include "program.h"

enum { COUNT = 64 };

static aclrtStream s;
static uint32_t *x, by_report = 500, by_function = 7000;
static pthread_t reports, functions;
static volatile int done;
static int outside;

/* Copies the function's argument into all words. */
static void fill(const uint32_t *value)
{
	uint32_t words[COUNT];

	for (int i = 0; i < COUNT; i++)
		words[i] = *value;
	to_device(x, words, sizeof words);
}

static void report(void *arg)
{
	EXPECT(pthread_equal(pthread_self(), reports));
	fill(arg);
}

static void function(void *arg)
{
	EXPECT(pthread_equal(pthread_self(), functions));
	fill(arg);
}

static void elsewhere(void *arg)
{
	EXPECT(!pthread_equal(pthread_self(), functions) && !pthread_equal(pthread_self(), reports));
	(*(int *)arg)++;
}

static void serve(aclError (*process)(int32_t))
{
	CHECK(aclrtSetDevice(0));
	while (!done) {
		int e = process(20);
		EXPECT(e == ACL_SUCCESS || e == ACL_ERROR_RT_REPORT_TIMEOUT || e == ACL_ERROR_RT_THREAD_SUBSCRIBE);
		if (e == ACL_ERROR_RT_THREAD_SUBSCRIBE)
			usleep(1000);
	}
}

static void *process_reports(void *unused)
{
	serve(aclrtProcessReport);
	return unused;
}

static void *process_functions(void *unused)
{
	serve(aclrtProcessHostFunc);
	return unused;
}

/* Expects the value of + i + 1 in all words. */
static void expect(uint32_t of)
{
	uint32_t host[COUNT];

	CHECK(aclrtSynchronizeStream(s));
	to_host(host, x, sizeof host);
	for (uint32_t i = 0; i < COUNT; i++)
		EXPECT(host[i] == of + i + 1);
}

int main(int argc, char **argv)
{
	(void)argc;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle add = kernel(argv[1], "add");
	x = device_memory(COUNT * sizeof *x);
	struct add_args args = {x, COUNT, 1, 0};
	pthread_create(&reports, NULL, process_reports, NULL);
	pthread_create(&functions, NULL, process_functions, NULL);
	CHECK(aclrtSubscribeHostFunc((uint64_t)functions, s));
	CHECK(aclrtSubscribeReport((uint64_t)reports, s));
	for (int round = 0; round < 3; round++) {
		CHECK(aclrtLaunchHostFunc(s, function, &by_function));
		launch(add, 1, s, &args, sizeof args);
		expect(by_function);
		CHECK(aclrtLaunchCallback(report, &by_report, ACL_CALLBACK_BLOCK, s));
		launch(add, 1, s, &args, sizeof args);
		expect(by_report);
	}
	CHECK(aclrtUnSubscribeHostFunc((uint64_t)functions, s));
	CHECK(aclrtUnSubscribeReport((uint64_t)reports, s));
	CHECK(aclrtLaunchHostFunc(s, elsewhere, &outside));
	CHECK(aclrtSynchronizeStream(s));
	EXPECT(outside == 1);
	done = 1;
	pthread_join(reports, NULL);
	pthread_join(functions, NULL);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
