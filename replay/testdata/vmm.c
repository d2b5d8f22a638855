/*
 * Memory and addresses apart: two adjacent physical blocks in one range, unmapped, mapped in reverse order and
 * a second time elsewhere, and kernels that get addresses in the range while its mappings change.
 */
#include "program.h"

enum { UNIT = 2 << 20, COUNT = 64 };

int main(int argc, char **argv)
{
	(void)argc;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle add = kernel(argv[1], "add"), pages = kernel(argv[1], "pages");
	aclrtPhysicalMemProp prop = {0};
	prop.memAttr = ACL_HBM_MEM_HUGE;
	prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	size_t unit;
	CHECK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &unit));
	EXPECT(unit == UNIT);
	void *range, *other;
	aclrtDrvMemHandle block[2];
	CHECK(aclrtReserveMemAddress(&range, 4 * unit, 0, NULL, 1));
	CHECK(aclrtReserveMemAddress(&other, 2 * unit, 0, (void *)0x2a0040000000, 1)); /* as memory fabrics do */
	for (int i = 0; i < 2; i++) {
		CHECK(aclrtMallocPhysical(&block[i], unit, &prop, 0));
		CHECK(aclrtMapMem((char *)range + (size_t)i * unit, unit, 0, block[i], 0));
	}
	aclrtMemAccessDesc access = {0};
	access.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
	access.location = prop.location;
	CHECK(aclrtMemSetAccess(range, 2 * unit, &access, 1));
	/* Across the border of the two. */
	uint32_t host[COUNT], back[COUNT], *x = (uint32_t *)((char *)range + unit) - COUNT / 2;
	for (uint32_t i = 0; i < COUNT; i++)
		host[i] = i * i;
	to_device(x, host, sizeof host);
	struct add_args args = {x, COUNT, 4, 0};
	launch(add, 2, s, &args, sizeof args);
	CHECK(aclrtSynchronizeStream(s));
	to_host(back, x, sizeof back);
	for (uint32_t i = 0; i < COUNT; i++)
		EXPECT(back[i] == i * i + 4 * (i + 1));

	/* A table with addresses in the range; one is mapped only later. */
	uint8_t *table[] = {(uint8_t *)x, (uint8_t *)range + 3 * unit, (uint8_t *)other};
	uint8_t **d_table = device_memory(sizeof table);
	to_device(d_table, table, sizeof table);

	for (int i = 0; i < 2; i++)
		CHECK(aclrtUnmapMem((char *)range + (size_t)i * unit));
	EXPECT(aclrtMemcpy(back, 4, range, 4, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS);
	for (int i = 0; i < 2; i++)
		CHECK(aclrtMapMem((char *)range + (size_t)(3 - i) * unit, unit, 0, block[i], 0));
	CHECK(aclrtMapMem(other, unit, 0, block[1], 0));
	CHECK(aclrtMemSetAccess((char *)range + 2 * unit, 2 * unit, &access, 1));
	CHECK(aclrtMemSetAccess(other, unit, &access, 1));
	/* The second half of x is at the start of the second block, which has two addresses now. */
	to_host(back, other, sizeof back / 2);
	for (uint32_t i = 0; i < COUNT / 2; i++)
		EXPECT(back[i] == (i + COUNT / 2) * (i + COUNT / 2) + 4 * (i + COUNT / 2 + 1));
	struct add_args again = {other, COUNT / 2, 1, 0};
	launch(add, 1, s, &again, sizeof again);
	uint32_t index[] = {1, 2}, *indexes = device_memory(sizeof index);
	uint64_t sums[2], *out = device_memory(sizeof sums);
	to_device(indexes, index, sizeof index);
	struct pages_args sum = {out, d_table, indexes, 2, 256};
	launch(pages, 1, s, &sum, sizeof sum);
	CHECK(aclrtSynchronizeStream(s));
	to_host(sums, out, sizeof sums);
	to_host(back, (char *)range + 2 * unit, sizeof back / 2);
	EXPECT(back[0] == (COUNT / 2) * (COUNT / 2) + 4 * (COUNT / 2 + 1) + 1);

	CHECK(aclrtUnmapMem(other));
	for (size_t i = 2; i < 4; i++)
		CHECK(aclrtUnmapMem((char *)range + i * unit));
	for (int i = 0; i < 2; i++)
		CHECK(aclrtFreePhysical(block[i]));
	CHECK(aclrtReleaseMemAddress(range));
	CHECK(aclrtReleaseMemAddress(other));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
