/*
 * Tables of pointers in device memory: into the middle of allocations, NULL, one past an end, to freed memory; and
 * a table that kernels read through another one. Between its copies the table is moved on the device.
 */
#include "program.h"

enum { PAGES = 24, PAGE = 512 };

int main(int argc, char **argv)
{
	(void)argc;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle pages = kernel(argv[1], "pages");

	uint8_t bytes[PAGES * PAGE], *table[PAGES + 2], *pool = device_memory(sizeof bytes), *gone = device_memory(PAGE);
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 97);
	to_device(pool, bytes, sizeof bytes);
	for (int i = 0; i < PAGES; i++)
		table[i] = i % 5 == 4 ? NULL : pool + (size_t)((i * 7) % PAGES) * PAGE;
	table[PAGES] = pool + sizeof bytes;
	table[PAGES + 1] = gone;
	CHECK(aclrtFree(gone));

	uint8_t **first = device_memory(sizeof table), **second = device_memory(sizeof table), *back[PAGES + 2];
	to_device(first, table, sizeof table);
	CHECK(aclrtMemcpyAsync(second, sizeof table, first, sizeof table, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	CHECK(aclrtSynchronizeStream(s));
	CHECK(aclrtMemset(first, sizeof table, 0, sizeof table));

	uint32_t index[PAGES], *indexes = device_memory(sizeof index);
	uint64_t sums[PAGES], *out = device_memory(sizeof sums);
	for (int round = 0; round < 4; round++) {
		for (uint32_t i = 0; i < PAGES; i++)
			index[i] = (i * 5 + (uint32_t)round) % PAGES;
		to_device(indexes, index, sizeof index);
		struct pages_args args = {out, second, indexes, PAGES, PAGE};
		launch(pages, 3, s, &args, sizeof args);
		CHECK(aclrtSynchronizeStream(s));
		to_host(sums, out, sizeof sums);
		for (int i = 0; i < PAGES; i++) {
			uint64_t sum = 0;
			for (int k = 0; table[index[i]] != NULL && k < PAGE; k++)
				sum += bytes[table[index[i]] - pool + k];
			EXPECT(sums[i] == sum);
		}
		to_host(back, second, sizeof back);
		EXPECT(memcmp(back, table, sizeof back) == 0);
	}
	/* One word of the table, and arguments in device memory. */
	table[0] = pool + PAGE;
	to_device(second, table, 8);
	struct pages_args args = {out, second, indexes, PAGES, PAGE};
	void *block = device_memory(sizeof args);
	to_device(block, &args, sizeof args);
	CHECK(aclrtLaunchKernel(pages, 2, block, sizeof args, s));
	CHECK(aclrtSynchronizeStream(s));
	to_host(sums, out, sizeof sums);
	CHECK(aclrtFree(pool));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
