/*
 * Results that a replay can't prove by comparing bytes. argv[2] chooses:
 *	inplace    a kernel whose output equals the previous content
 *	unwritten  a copy from unwritten memory
 *	half       a copy from memory whose first half a kernel has written
 *	sum        a kernel that adds to unwritten memory
 *	physical   the same for physical memory: its second half is in another mapping
 *	remapped   the same, but the memory was written at another address
 *	ignored    the same, and a copy of the kernel's result from written memory
 *	none       no result at all
 *	crash      a kernel that crashes between two copies of the same memory
 *	varies     a kernel whose output differs in each run
 *	reach      a kernel that may reach the copied memory; argv[3] says how:
 *		apart    not at all
 *		table    through two tables in device memory
 *		mapped   through registered host memory
 *		managed  through managed memory
 *		hidden   through memory in which an earlier kernel may have stored the address
 */
#include "program.h"

enum { COUNT = 256, UNIT = 2 << 20 };

/* Returns memory in two blocks of physical memory, which a program may write at another address before. */
static uint32_t *physical_memory(const uint32_t *host, size_t size, bool written)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtDrvMemHandle block;
	char *range;
	CHECK(aclrtReserveMemAddress((void **)&range, 4 * UNIT, 0, NULL, 1));
	for (int i = 0; i < 2; i++) {
		CHECK(aclrtMallocPhysical(&block, UNIT, &prop, 0));
		CHECK(aclrtMapMem(range + (written ? 2 + i : i) * UNIT, UNIT, 0, block, 0));
		if (!written)
			continue;
		to_device(range + (2 + i) * UNIT + (i ? 0 : UNIT - size / 2), host + i * COUNT / 2, size / 2);
		CHECK(aclrtUnmapMem(range + (2 + i) * UNIT));
		CHECK(aclrtMapMem(range + i * UNIT, UNIT, 0, block, 0));
	}
	return (uint32_t *)(range + UNIT - size / 2);
}

/* Launches a kernel that changes nothing, and copies memory to the host that it may reach. */
static void reaches(const char *how, const char *binary, aclrtStream s, uint32_t *host)
{
	const size_t size = COUNT * sizeof *host;
	uint32_t *x = device_memory(size), **leaf = device_memory(64), ***root = device_memory(64);
	struct add_args args = {device_memory(64), 0, 0, 0};
	void *mapped = NULL, *managed = NULL, *device = NULL;
	to_device(x, host, size);
	CHECK(aclrtMemset(leaf, 64, 0, 64));
	CHECK(aclrtMemset(root, 64, 0, 64));
	if (strcmp(how, "table") == 0) {
		to_device((char *)leaf + 20, &x, sizeof x);
		to_device(root, &leaf, sizeof leaf);
		args.x = (uint32_t *)root;
	} else if (strcmp(how, "mapped") == 0) {
		mapped = aligned_alloc(4096, 4096);
		memset(mapped, 0, 4096);
		memcpy(mapped, &x, sizeof x);
		CHECK(aclrtHostRegister(mapped, 4096, ACL_HOST_REGISTER_MAPPED, &device));
		args.x = device;
	} else if (strcmp(how, "managed") == 0) {
		CHECK(aclrtMemAllocManaged(&managed, 4096, 1));
		memcpy(managed, &x, sizeof x);
		args.x = managed;
	} else if (strcmp(how, "hidden") == 0) {
		struct { struct add_args add; uint32_t *more; } both = {args, x};
		launch(kernel(binary, "add"), 1, s, &both, sizeof both);
		CHECK(aclrtSynchronizeStream(s));
		to_device(x, host, size);
	}
	launch(kernel(binary, "add"), 1, s, &args, sizeof args);
	CHECK(aclrtSynchronizeStream(s));
	to_host(host, x, size);
	if (mapped)
		CHECK(aclrtHostUnregister(mapped));
	if (managed)
		CHECK(aclrtFree(managed));
}

int main(int argc, char **argv)
{
	EXPECT(argc >= 3);
	const char *how = argv[2];
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	uint32_t host[COUNT], *x = device_memory(sizeof host);
	for (uint32_t i = 0; i < COUNT; i++)
		host[i] = i;
	if (strcmp(how, "physical") == 0 || strcmp(how, "remapped") == 0)
		x = physical_memory(host, sizeof host, how[0] == 'r');
	aclrtFuncHandle add = kernel(argv[1], strcmp(how, "varies") == 0 ? "stamp" : "add");
	uint64_t count = COUNT;
	if (strcmp(how, "unwritten") == 0)
		count = 0;
	else if (strcmp(how, "half") == 0)
		to_device(x, host, sizeof host / 2), count /= 2;
	else if (strcmp(how, "ignored") == 0)
		to_device(x, host, sizeof host / 2);
	else if (strcmp(how, "sum") != 0 && strcmp(how, "physical") != 0 && strcmp(how, "remapped") != 0)
		to_device(x, host, sizeof host);
	if (strcmp(how, "reach") == 0)
		count = 0;
	struct add_args args = {x, count, strcmp(how, "inplace") == 0 ? 0 : 1, 0};
	if (count > 0)
		launch(add, 2, s, &args, sizeof args);
	CHECK(aclrtSynchronizeStream(s));
	if (strcmp(how, "none") != 0)
		to_host(host, x, strcmp(how, "ignored") == 0 ? sizeof host / 2 : sizeof host);
	if (strcmp(how, "reach") == 0)
		reaches(argv[3], argv[1], s, host);
	if (strcmp(how, "crash") == 0) {
		launch(kernel(argv[1], "trap"), 1, s, &args, sizeof args);
		EXPECT(aclrtSynchronizeStream(s) == ACL_ERROR_RT_AICORE_EXCEPTION);
		to_host(host, x, sizeof host);
	}
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
