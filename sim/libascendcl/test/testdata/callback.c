/* The program's functions run on the threads that the documents promise. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test.h"

enum { STREAMS = 4, CALLS = 200 };

static aclrtContext context;
static pthread_t reporter;
static atomic_int stop, on_report, host_calls, foreign;
static int order[STREAMS];

/* Host functions of a stream come one after the other, and never on a thread of the program. */
static void host(void *arg)
{
	int *last = arg;

	if (pthread_equal(pthread_self(), reporter))
		atomic_fetch_add(&foreign, 1);
	++*last;
	atomic_fetch_add(&host_calls, 1);
}

static void callback(void *arg)
{
	(void)arg;
	if (!pthread_equal(pthread_self(), reporter))
		atomic_fetch_add(&foreign, 1);
	atomic_fetch_add(&on_report, 1);
}

static void *report(void *arg)
{
	(void)arg;
	OK(aclrtSetCurrentContext(context));
	while (!atomic_load(&stop))
		(void)aclrtProcessReport(10);
	return NULL;
}

/* Two host functions that wait for each other need two threads. */
static atomic_int met;

static void meet(void *arg)
{
	(void)arg;
	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < 2)
		usleep(100);
}

int main(void)
{
	aclrtStream s[STREAMS];

	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtGetCurrentContext(&context));
	CHECK(!pthread_create(&reporter, NULL, report, NULL));
	for (int i = 0; i < STREAMS; i++) {
		OK(aclrtCreateStream(&s[i]));
		OK(aclrtSubscribeReport((uint64_t)reporter, s[i]));
	}
	for (int n = 0; n < CALLS; n++)
		for (int i = 0; i < STREAMS; i++) {
			OK(aclrtLaunchHostFunc(s[i], host, &order[i]));
			OK(aclrtLaunchCallback(callback, NULL, n % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, s[i]));
		}
	for (int i = 0; i < STREAMS; i++) {
		OK(aclrtSynchronizeStream(s[i]));
		CHECK(order[i] == CALLS);
	}
	CHECK(atomic_load(&host_calls) == STREAMS * CALLS && atomic_load(&on_report) == STREAMS * CALLS);
	CHECK(!atomic_load(&foreign));
	OK(aclrtLaunchHostFunc(s[0], meet, NULL));
	OK(aclrtLaunchHostFunc(s[1], meet, NULL));
	OK(aclrtSynchronizeStream(s[0]));
	OK(aclrtSynchronizeStream(s[1]));
	for (int i = 0; i < STREAMS; i++)
		OK(aclrtUnSubscribeReport((uint64_t)reporter, s[i]));
	atomic_store(&stop, 1);
	pthread_join(reporter, NULL);
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
