/*
 * Programs whose critical path is known, in virtual time: known BINARY NAME. Compiled with -DKERNELS it is the binary and the kernel library.
 * A kernel takes the time that its launch says. aclrtGetDeviceCount is the last call before the program proper.
 */
#include <stdint.h>

struct args {
	uint64_t *out;
	uint64_t ns;
};

#ifdef KERNELS
#include "aclsim/kernel.h"

static const aclsim_arg params[] = {{"out", ACLSIM_OUTPUT, 8}, {"ns", ACLSIM_SCALAR, 8}};

static uint64_t duration(const aclsim_launch *l) { return ((const struct args *)l->args)->ns; }

void quick(const aclsim_launch *l, uint32_t block) { (void)l, (void)block; }
void slow(const aclsim_launch *l, uint32_t block) { (void)l, (void)block; }

const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel all[] = {{"quick", 0, params, 2, 0, NULL, quick, duration}, {"slow", 0, params, 2, 0, NULL, slow, duration}};
	static const aclsim_kernel_library library = {ACLSIM_KERNEL_ABI, 2, all};
	return &library;
}
#else
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclsim/clock.h"
#include "check.h"

enum { BYTES = 100000 };

static aclrtFuncHandle quick, slow;
static aclrtStream a, b;
static aclrtEvent event;
static uint64_t *device;
static void *pageable;

static void launch(aclrtFuncHandle kernel, aclrtStream s, uint64_t ns)
{
	struct args args = {device, ns};
	CHECK(aclrtLaunchKernelWithHostArgs(kernel, 1, s, NULL, &args, sizeof args, NULL, 0));
}

/* The host is slower than its kernels. */
static void host(void)
{
	for (int i = 0; i < 2; i++) {
		aclsim_work(50000);
		launch(quick, a, 1000);
	}
	CHECK(aclrtSynchronizeStream(a));
}

/* One of three kernels is slow. */
static void kernel(void)
{
	launch(quick, a, 20000);
	launch(slow, a, 300000);
	launch(quick, a, 20000);
	CHECK(aclrtSynchronizeStream(a));
}

/* A stream waits for the slow kernel of another one. */
static void streams(void)
{
	launch(slow, a, 300000);
	CHECK(aclrtRecordEvent(event, a));
	launch(quick, b, 20000);
	CHECK(aclrtStreamWaitEvent(b, event));
	launch(quick, b, 30000);
	CHECK(aclrtSynchronizeDevice());
}

/* An asynchronous copy of pageable memory waits for the kernel before it. */
static void copy(void)
{
	launch(slow, a, 300000);
	CHECK(aclrtMemcpyAsync(pageable, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, a));
	aclsim_work(7000);
	CHECK(aclrtSynchronizeStream(a));
}

/* A stream waits for a value that another one writes behind a slow kernel. */
static void value(void)
{
	CHECK(aclrtValueWait(device, 1, ACL_STREAM_WAIT_VALUE_EQ, b));
	launch(quick, b, 20000);
	launch(slow, a, 300000);
	CHECK(aclrtValueWrite(device, 1, 0, a));
	CHECK(aclrtSynchronizeStream(b));
	CHECK(aclrtSynchronizeStream(a)); /* then the recorder reads the times of the stream */
}

static void *other(void *arg)
{
	CHECK(aclrtSetDevice(0));
	launch(slow, b, 300000);
	CHECK(aclrtSynchronizeStream(b));
	*(int64_t *)arg = aclsim_now();
	return NULL;
}

/* A thread waits for another thread, which waits for its slow kernel. */
static void threads(void)
{
	pthread_t t;
	int64_t end;
	launch(quick, a, 20000);
	if (pthread_create(&t, NULL, other, &end) != 0 || pthread_join(t, NULL) != 0)
		abort();
	aclsim_work(end + 1000 - aclsim_now()); /* the wait, which the simulator does not see */
	launch(quick, a, 10000);
	CHECK(aclrtSynchronizeStream(a));
}

/* The program works between two kernels while the device does nothing. */
static void gap(void)
{
	launch(quick, a, 20000);
	CHECK(aclrtSynchronizeStream(a));
	aclsim_work(500000);
	launch(quick, a, 20000);
	CHECK(aclrtSynchronizeStream(a));
}

/* The host waits for the first of two kernels. */
static void first(void)
{
	launch(quick, a, 100000);
	CHECK(aclrtRecordEvent(event, a));
	launch(slow, a, 300000);
	CHECK(aclrtSynchronizeEvent(event));
}

/* The host waits for one stream, and then for a longer kernel of another one. */
static void two(void)
{
	launch(quick, a, 200000);
	launch(slow, b, 300000);
	CHECK(aclrtSynchronizeStream(a));
	CHECK(aclrtSynchronizeStream(b));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {{"host", host}, {"kernel", kernel}, {"streams", streams}, {"copy", copy}, {"value", value}, {"threads", threads}, {"gap", gap}, {"first", first}, {"two", two}};
	aclrtBinHandle binary;
	uint32_t count;
	if (argc < 3)
		return 2;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	CHECK(aclrtBinaryGetFunction(binary, "quick", &quick));
	CHECK(aclrtBinaryGetFunction(binary, "slow", &slow));
	CHECK(aclrtCreateStream(&a));
	CHECK(aclrtCreateStream(&b));
	CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
	CHECK(aclrtMalloc((void **)&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemset(device, BYTES, 0, BYTES));
	pageable = malloc(BYTES);
	launch(quick, a, 1000); /* then the recorder can place the times of the device */
	CHECK(aclrtSynchronizeStream(a));
	launch(quick, b, 1000);
	CHECK(aclrtSynchronizeStream(b));
	CHECK(aclrtGetDeviceCount(&count));
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i].name, argv[2]) == 0)
			all[i].run();
	return 0;
}
#endif
