/*
 * Allocations that fail for lack of memory between successful ones: device memory, managed memory, pools and reserved addresses, in two
 * processes with two threads each. Later allocations reuse freed addresses, so an offset by one in the list of places shows.
 */
#include <sys/wait.h>

#include "program.h"

enum { COUNT = 64, ROUNDS = 4 };

static const char *binary;

static void fail(void)
{
	void *p;
	EXPECT(aclrtMalloc(&p, (size_t)1 << 45, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS);
	EXPECT(aclrtMalloc(&p, (size_t)1 << 45, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS);
}

/* A reservation with mapped physical memory. */
static uint32_t *mapped(aclrtDrvMemHandle *handle)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}}, huge = prop;
	aclrtDrvMemHandle none;
	void *at;
	EXPECT(aclrtMallocPhysical(&none, (size_t)1 << 45, &huge, 0) != ACL_SUCCESS);
	CHECK(aclrtReserveMemAddress(&at, 2 << 20, 0, NULL, 1));
	CHECK(aclrtMallocPhysical(handle, 2 << 20, &prop, 0));
	CHECK(aclrtMapMem(at, 2 << 20, 0, *handle, 0));
	return at;
}

static void *work(void *arg)
{
	uint32_t by = *(uint32_t *)arg, host[COUNT];
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle add = kernel(binary, "add");
	void *managed;
	CHECK(aclrtMemAllocManaged(&managed, 4096, 1));
	for (uint32_t round = 0; round < ROUNDS; round++) {
		aclrtDrvMemHandle handle;
		uint32_t *a = device_memory(sizeof host), *b = device_memory(100 * sizeof host), *c = mapped(&handle);
		fail();
		CHECK(aclrtFree(a));
		uint32_t *d = device_memory(sizeof host); /* at the first one's address */
		fail();
		CHECK(aclrtFree(b));
		uint32_t *e = device_memory(100 * sizeof host);
		uint32_t *each[] = {c, d, e};
		for (int i = 0; i < 3; i++) {
			struct add_args args = {each[i], COUNT, by + round, 0};
			CHECK(aclrtMemset(each[i], sizeof host, 0, sizeof host));
			launch(add, 1, s, &args, sizeof args);
			CHECK(aclrtSynchronizeStream(s));
			to_host(host, each[i], sizeof host);
			EXPECT(host[COUNT - 1] == COUNT * (by + round));
		}
		CHECK(aclrtUnmapMem(c));
		CHECK(aclrtFreePhysical(handle));
		CHECK(aclrtReleaseMemAddress(c));
		CHECK(aclrtFree(d));
		CHECK(aclrtFree(e));
	}
	CHECK(aclrtFree(managed));
	CHECK(aclrtDestroyStream(s));
	return NULL;
}

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	binary = argv[1];
	pid_t child = fork(); /* before the first call */
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	kernel(binary, "add");
	pthread_t other;
	uint32_t by[] = {3, 5};
	EXPECT(pthread_create(&other, NULL, work, &by[1]) == 0);
	work(&by[0]);
	EXPECT(pthread_join(other, NULL) == 0);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	int status;
	EXPECT(child == 0 || (waitpid(child, &status, 0) == child && status == 0));
	return 0;
}
