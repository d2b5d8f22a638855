/*
 * Functions that the runtime calls back, and waits without the host: host functions, callbacks processed by a thread, pool
 * memory, a value that a stream waits for, a notify between streams, and host memory mapped for the device.
 */
#include "program.h"

enum { COUNT = 64 };

static aclrtStream s, other;
static volatile int done;
static uint32_t seen[2];

static void host_function(void *arg) { seen[0] += *(uint32_t *)arg; }

/* Calls the runtime while its stream waits. The stream's next task adds to the copied value. */
static uint32_t *y;
static void report(void *arg)
{
	uint32_t mine[COUNT], back[COUNT];
	seen[1] += *(uint32_t *)arg;
	for (uint32_t i = 0; i < COUNT; i++)
		mine[i] = 1000 * seen[1] + i;
	to_device(y, mine, sizeof mine);
	to_host(back, y, sizeof back);
	EXPECT(memcmp(mine, back, sizeof back) == 0);
}

static void *process(void *unused)
{
	(void)unused;
	CHECK(aclrtSetDevice(0));
	while (!done) {
		int e = aclrtProcessReport(20);
		EXPECT(e == ACL_SUCCESS || e == ACL_ERROR_RT_REPORT_TIMEOUT || e == ACL_ERROR_RT_THREAD_SUBSCRIBE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	(void)argc;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtCreateStream(&other));
	aclrtFuncHandle add = kernel(argv[1], "add");
	pthread_t thread;
	pthread_create(&thread, NULL, process, NULL);
	CHECK(aclrtSubscribeReport((uint64_t)thread, s));

	aclrtMemPoolProps props = {0};
	props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	aclrtMemPool pool;
	CHECK(aclrtMemPoolCreate(&pool, &props));
	uint64_t threshold = 1 << 20, got = 0;
	CHECK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
	CHECK(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &got));
	EXPECT(got == threshold);
	aclrtNotify notify;
	CHECK(aclrtCreateNotify(&notify, 0));
	uint64_t *flag = device_memory(8), zero = 0;
	to_device(flag, &zero, 8);
	uint32_t host[COUNT], one = 1;
	y = device_memory(sizeof host);
	for (uint32_t round = 0; round < 3; round++) {
		uint32_t *x;
		CHECK(aclrtMemPoolMallocAsync((void **)&x, sizeof host, pool, s));
		for (uint32_t i = 0; i < COUNT; i++)
			host[i] = i + round;
		to_device(x, host, sizeof host);
		struct add_args args = {x, COUNT, round, 0};
		/* s waits for a value, then for the notify, and only then adds. */
		CHECK(aclrtValueWait(flag, round + 1, 0, s));
		CHECK(aclrtWaitAndResetNotify(notify, s, 0));
		launch(add, 1, s, &args, sizeof args);
		CHECK(aclrtLaunchHostFunc(s, host_function, &one));
		CHECK(aclrtLaunchCallback(report, &one, ACL_CALLBACK_BLOCK, s));
		struct add_args more = {y, COUNT, 3, 0};
		launch(add, 1, s, &more, sizeof more);
		CHECK(aclrtValueWrite(flag, round + 1, 0, other));
		CHECK(aclrtRecordNotify(notify, other));
		CHECK(aclrtSynchronizeStream(s));
		EXPECT(seen[0] == round + 1 && seen[1] == round + 1);
		to_host(host, x, sizeof host);
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(host[i] == i + round + round * (i + 1));
		to_host(host, y, sizeof host);
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(host[i] == 1000 * (round + 1) + i + 3 * (i + 1));
		CHECK(aclrtMemPoolFreeAsync(x, s));
		CHECK(aclrtSynchronizeStream(s));
	}
	CHECK(aclrtUnSubscribeReport((uint64_t)thread, s));
	done = 1;
	pthread_join(thread, NULL);
	CHECK(aclrtMemPoolDestroy(pool));

	/* Registered memory of the program is pinned from then on. */
	uint32_t *mine = aligned_alloc(4096, 4096);
	void *mapped;
	for (uint32_t i = 0; i < COUNT; i++)
		mine[i] = 7 * i;
	CHECK(aclrtHostRegister(mine, 4096, ACL_HOST_REGISTER_MAPPED, &mapped));
	CHECK(aclrtMemcpyAsync(y, sizeof host, mine, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE, s));
	struct add_args args = {y, COUNT, 9, 0};
	launch(add, 1, s, &args, sizeof args);
	CHECK(aclrtMemcpyAsync(mine, sizeof host, y, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST, s));
	CHECK(aclrtSynchronizeStream(s));
	for (uint32_t i = 0; i < COUNT; i++)
		EXPECT(mine[i] == 7 * i + 9 * (i + 1));
	CHECK(aclrtHostUnregister(mine));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
