/*
 * A training job of four ranks, RANK=0 to 3, in which all wait for rank 2: it loads its data more slowly. Rank 0 gives the root information
 * to the others, which run in the same folder.
 */
#include "problem.h"

#include "../common/share.h"
#include "hccl_gen.h"

enum { RANKS = 4, SLOW = 2, STEPS = 30 };

int main(void)
{
	const char *r = getenv("RANK");
	uint32_t rank = r ? (uint32_t)atoi(r) : 0;
	HcclRootInfo root;
	HcclComm world;

	problem_begin();
	if (rank == 0 && HcclGetRootInfo(&root)) {
		fprintf(stderr, "rank 0 has no root information\n");
		return 1;
	}
	example_share(&root, sizeof root, rank, RANKS);
	if (HcclCommInitRootInfo(RANKS, &root, rank, &world)) {
		fprintf(stderr, "rank %u has no communicator\n", rank);
		return 1;
	}
	aclrtStream s = new_stream();
	aclrtFuncHandle attention = kernel("attention"), mlp = kernel("mlp");
	float *batch = pinned_memory(BYTES);
	void *x = device_memory(BYTES), *gradients = device_memory(BYTES);

	for (int step = 0; step < STEPS; step++) {
		usleep(rank == SLOW ? 15000 : 1000); /* read the next batch from the disk */
		CHECK(aclrtMemcpyAsync(x, BYTES, batch, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
		launch(attention, s, x, gradients, 0.5f, 60);
		launch(mlp, s, x, gradients, 0.5f, 40);
		if (HcclAllReduce(gradients, gradients, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, world, s)) {
			fprintf(stderr, "rank %u: HcclAllReduce failed\n", rank);
			return 1;
		}
		CHECK(aclrtSynchronizeStream(s));
	}
	if (rank == 0)
		printf("%d steps on %d ranks\n", STEPS, RANKS);

	CHECK(aclrtFree(gradients));
	CHECK(aclrtFree(x));
	CHECK(aclrtFreeHost(batch));
	CHECK(aclrtDestroyStream(s));
	HcclCommDestroy(world);
	problem_end();
	return 0;
}
