/*
 * Memory that the program and the device both access without a call. The second argument selects the case:
 *
 *	rounds      stores to managed memory, has a kernel change it, and loads the result, three times
 *	later       stores to managed memory after a task that uses other memory, and copies the result from device memory
 *	halves      stores to one half of managed memory while a kernel changes the other
 *	racing      stores while a kernel changes the same memory, and launches again without a wait
 *	busy        loads a result while another stream uses the memory; the last wait is for both
 *	registered  as rounds, with memory of the program that is registered for the device
 *	aliased     as registered, with a part of an allocation, which the program also copies and frees after the registration
 *	large       as later, with more managed memory than is recorded
 */
#include <sys/mman.h>

#include "program.h"

enum { COUNT = 1024 };

static aclrtFuncHandle add;

static void change(aclrtStream s, uint32_t *x, uint64_t count, uint32_t by)
{
	struct add_args args = {x, count, by, 0};
	launch(add, 1, s, &args, sizeof args);
}

static void *managed(size_t n)
{
	void *p;
	CHECK(aclrtMemAllocManaged(&p, n, 1));
	return p;
}

static void rounds(aclrtStream s, uint32_t *x)
{
	for (uint32_t k = 1; k <= 3; k++) {
		for (uint32_t i = 0; i < COUNT; i++)
			x[i] = i * k;
		change(s, x, COUNT, k);
		CHECK(aclrtSynchronizeStream(s));
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(x[i] == i * k + k * (i + 1));
	}
}

static void later(aclrtStream s, uint32_t *x, uint32_t *other)
{
	uint32_t *d = device_memory(4 * COUNT), host[COUNT];
	change(s, other, 1, 1);
	for (uint32_t i = 0; i < COUNT; i++)
		x[i] = i;
	CHECK(aclrtMemcpyAsync(d, 4 * COUNT, x, 4 * COUNT, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	change(s, d, COUNT, 1);
	CHECK(aclrtSynchronizeStream(s));
	to_host(host, d, 4 * COUNT);
	for (uint32_t i = 0; i < COUNT; i++)
		EXPECT(host[i] == 2 * i + 1);
}

static void halves(aclrtStream s, uint32_t *x)
{
	for (uint32_t k = 0; k < 4; k++) {
		uint32_t *now = x + k % 2 * (COUNT / 2), *next = x + (k + 1) % 2 * (COUNT / 2);
		change(s, now, COUNT / 2, 1);
		for (uint32_t i = 0; i < COUNT / 2; i++)
			next[i] = k + i;
		CHECK(aclrtSynchronizeStream(s));
	}
}

static void racing(aclrtStream s, uint32_t *x)
{
	uint32_t *d = device_memory(4 * COUNT), host[COUNT];
	change(s, x, COUNT / 2, 1);
	for (uint32_t i = COUNT / 2; i < COUNT; i++)
		x[i] = i;
	change(s, x + COUNT / 2, COUNT / 2, 1);
	CHECK(aclrtMemcpyAsync(d, 4 * COUNT, x, 4 * COUNT, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	CHECK(aclrtSynchronizeStream(s));
	to_host(host, d, 4 * COUNT);
}

static void busy(aclrtStream s, uint32_t *x)
{
	aclrtStream other, gate;
	aclrtNotify open;
	uint32_t *d = device_memory(4);
	CHECK(aclrtCreateStream(&other));
	CHECK(aclrtCreateStream(&gate));
	CHECK(aclrtCreateNotify(&open, 0));
	/* The recorder reads the memory before each launch. Nothing runs before the last one, so it always reads the same. */
	CHECK(aclrtWaitAndResetNotify(open, s, 0));
	change(s, x, COUNT / 2, 1);
	change(other, d, 1, 1);
	change(other, x + COUNT / 2, COUNT / 2, 1);
	CHECK(aclrtRecordNotify(open, gate));
	CHECK(aclrtSynchronizeStream(s));
	CHECK(aclrtSynchronizeStream(other));
}

int main(int argc, char **argv)
{
	EXPECT(argc == 3);
	const char *how = argv[2];
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	add = kernel(argv[1], "add");
	if (strcmp(how, "rounds") == 0)
		rounds(s, managed(4 * COUNT));
	else if (strcmp(how, "later") == 0)
		later(s, managed(4 * COUNT), device_memory(4));
	else if (strcmp(how, "halves") == 0)
		halves(s, managed(4 * COUNT));
	else if (strcmp(how, "racing") == 0)
		racing(s, managed(4 * COUNT));
	else if (strcmp(how, "busy") == 0)
		busy(s, managed(4 * COUNT));
	else if (strcmp(how, "large") == 0) {
		managed(65 << 20);
		later(s, managed(4 * COUNT), device_memory(4));
	} else if (strcmp(how, "registered") == 0) {
		void *at, *p = mmap(NULL, 4 * COUNT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		EXPECT(p != MAP_FAILED);
		CHECK(aclrtHostRegister(p, 4 * COUNT, ACL_HOST_REGISTER_MAPPED, &at));
		rounds(s, at);
		CHECK(aclrtHostUnregister(p));
	} else if (strcmp(how, "aliased") == 0) {
		uint32_t *d = device_memory(4 * COUNT);
		char *p;
		void *at;
		CHECK(aclrtMallocHost((void **)&p, 8 * COUNT));
		CHECK(aclrtHostRegisterV2(p + 4 * COUNT, 4 * COUNT, ACL_HOST_REG_MAPPED));
		CHECK(aclrtHostGetDevicePointer(p + 4 * COUNT, &at, 0));
		rounds(s, at);
		memset(p, 7, 8 * COUNT);
		to_device(d, p, 4 * COUNT);
		change(s, d, COUNT, 1);
		CHECK(aclrtMemcpyAsync(p + 4 * COUNT, 4 * COUNT, d, 4 * COUNT, ACL_MEMCPY_DEVICE_TO_HOST, s));
		CHECK(aclrtHostUnregister(p + 4 * COUNT));
		CHECK(aclrtSynchronizeStream(s));
		to_device(d, p + 4 * COUNT, 4 * COUNT);
		change(s, d, COUNT, 1);
		CHECK(aclrtSynchronizeStream(s));
		to_host(p, d, 4 * COUNT);
		CHECK(aclrtFreeHost(p));
	} else
		EXPECT(0);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
