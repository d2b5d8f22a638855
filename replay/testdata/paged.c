/*
 * Sequences that grow in blocks from one pool, as in paged attention: a table maps parts of sequences to blocks,
 * blocks of finished sequences are reused, and every step appends, attends and copies the sums back.
 */
#include "program.h"

enum { SEQUENCES = 6, WIDTH = 8, BLOCKS = 40, STEPS = 30 };

int main(int argc, char **argv)
{
	(void)argc;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle attend = kernel(argv[1], "attend");

	static uint32_t pool[BLOCKS][BLOCK];
	static int32_t table[SEQUENCES][WIDTH];
	uint32_t length[SEQUENCES] = {0};
	int free_blocks[BLOCKS], n = BLOCKS;
	for (int i = 0; i < BLOCKS; i++)
		free_blocks[i] = (i * 17) % BLOCKS;
	uint32_t *d_pool = device_memory(sizeof pool), *d_length = device_memory(sizeof length);
	int32_t *d_table = device_memory(sizeof table);
	uint64_t *out = device_memory(8 * SEQUENCES), *sums;
	uint32_t *cell;
	CHECK(aclrtMallocHost((void **)&sums, 8 * SEQUENCES));
	CHECK(aclrtMallocHost((void **)&cell, 4 * SEQUENCES));
	CHECK(aclrtMemset(d_pool, sizeof pool, 0, sizeof pool));
	for (int step = 0; step < STEPS; step++) {
		for (int q = 0; q < SEQUENCES; q++) {
			if (length[q] == WIDTH * BLOCK || (step * 5 + q) % 23 == 22) {
				for (uint32_t k = 0; k < (length[q] + BLOCK - 1) / BLOCK; k++)
					free_blocks[n++] = table[q][k];
				length[q] = 0;
			}
			if (length[q] % BLOCK == 0)
				table[q][length[q] / BLOCK] = free_blocks[--n];
			uint32_t at = (uint32_t)table[q][length[q] / BLOCK];
			cell[q] = pool[at][length[q] % BLOCK] = (uint32_t)(step * 100 + q);
			CHECK(aclrtMemcpyAsync(&d_pool[at * BLOCK + length[q] % BLOCK], 4, &cell[q], 4, ACL_MEMCPY_HOST_TO_DEVICE, s));
			length[q]++;
		}
		to_device(d_table, table, sizeof table);
		to_device(d_length, length, sizeof length);
		struct attend_args args = {out, d_pool, d_table, d_length, SEQUENCES, WIDTH};
		launch(attend, 2, s, &args, sizeof args);
		CHECK(aclrtMemcpyAsync(sums, 8 * SEQUENCES, out, 8 * SEQUENCES, ACL_MEMCPY_DEVICE_TO_HOST, s));
		CHECK(aclrtSynchronizeStream(s));
		for (int q = 0; q < SEQUENCES; q++) {
			uint64_t sum = 0;
			for (uint32_t k = 0; k < length[q]; k++)
				sum += (uint64_t)(k + 1) * pool[table[q][k / BLOCK]][k % BLOCK];
			EXPECT(sums[q] == sum);
		}
	}
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
