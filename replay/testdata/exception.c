/*
 * A kernel gets an address outside device memory and fails; the program's callback reads the exception. The program's allocator has a cookie.
 */
#include "program.h"

static int seen;

static void on_exception(aclrtExceptionInfo *info)
{
	void *args;
	uint32_t size;
	EXPECT(aclrtGetErrorCodeFromExceptionInfo(info) != 0);
	aclrtGetStreamIdFromExceptionInfo(info);
	aclrtGetDeviceIdFromExceptionInfo(info);
	CHECK(aclrtGetArgsFromExceptionInfo(info, &args, &size));
	seen++;
}

static void *allocate(aclrtAllocator a, size_t n) { (void)a; return malloc(n); }
static void release(aclrtAllocator a, aclrtAllocatorBlock b) { (void)a; free(b); }
static void *advise(aclrtAllocator a, size_t n, aclrtAllocatorAddr at) { (void)at; return allocate(a, n); }
static void *address(aclrtAllocatorBlock b) { return b; }

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	uint32_t *d = device_memory(4), v = 7;
	to_device(d, &v, 4);
	to_host(&v, d, 4);

	static int cookie;
	aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
	CHECK(aclrtAllocatorSetObjToDesc(desc, &cookie));
	CHECK(aclrtAllocatorSetAllocFuncToDesc(desc, allocate));
	CHECK(aclrtAllocatorSetFreeFuncToDesc(desc, release));
	CHECK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, advise));
	CHECK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
	CHECK(aclrtAllocatorRegister(s, desc));
	CHECK(aclrtAllocatorUnregister(s));
	CHECK(aclrtAllocatorDestroyDesc(desc));

	CHECK(aclrtSetExceptionInfoCallback(on_exception));
	struct add_args args = {NULL, 1, 1, 0};
	launch(kernel(argv[1], "add"), 1, s, &args, sizeof args);
	EXPECT(aclrtSynchronizeStream(s) != 0);
	EXPECT(seen == 1);
	CHECK(aclrtSetExceptionInfoCallback(NULL));
	return 0;
}
