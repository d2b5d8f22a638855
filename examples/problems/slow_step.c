/* A training loop in which every 20th step is slow: it copies all weights to the host for a checkpoint, and waits. */
#include "problem.h"

enum { STEPS = 50, LAYERS = 8, EVERY = 20, WEIGHTS = 64 << 20 };

int main(void)
{
	problem_begin();
	aclrtStream s = new_stream();
	aclrtFuncHandle embed = kernel("embed"), attention = kernel("attention"), mlp = kernel("mlp"), loss = kernel("loss");
	float *batch = pinned_memory(BYTES), *result = pinned_memory(sizeof *result), *checkpoint = malloc(WEIGHTS);
	void *x = device_memory(BYTES), *y = device_memory(BYTES), *weights = device_memory(WEIGHTS);

	memset(checkpoint, 1, WEIGHTS);
	CHECK(aclrtMemcpy(weights, WEIGHTS, checkpoint, WEIGHTS, ACL_MEMCPY_HOST_TO_DEVICE));
	for (int step = 0; step < STEPS; step++) {
		CHECK(aclrtMemcpyAsync(x, BYTES, batch, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
		launch(embed, s, x, y, 1, 20);
		for (int layer = 0; layer < LAYERS; layer++) {
			launch(attention, s, y, x, 0.5f, 60);
			launch(mlp, s, x, y, 0.5f, 40);
		}
		launch(loss, s, y, x, 1, 10);
		CHECK(aclrtMemcpyAsync(result, sizeof *result, x, sizeof *result, ACL_MEMCPY_DEVICE_TO_HOST, s));
		if (step % EVERY == EVERY - 1)
			CHECK(aclrtMemcpy(checkpoint, WEIGHTS, weights, WEIGHTS, ACL_MEMCPY_DEVICE_TO_HOST));
		CHECK(aclrtSynchronizeStream(s));
	}
	printf("%d steps, loss %g\n", STEPS, *result);

	CHECK(aclrtFree(weights));
	CHECK(aclrtFree(y));
	CHECK(aclrtFree(x));
	CHECK(aclrtFreeHost(result));
	CHECK(aclrtFreeHost(batch));
	CHECK(aclrtDestroyStream(s));
	problem_end();
	free(checkpoint);
	return 0;
}
