/* Inference whose device is idle most of the time: the host tokenizes each request while the device waits.
 * `host_bound REQUESTS` sets their number. */
#include "problem.h"

#include <time.h>

enum { LAYERS = 4 };

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Computes for 4 ms on the host. */
static void tokenize(float *batch)
{
	double end = seconds() + 4e-3;

	for (unsigned i = 0; seconds() < end; i++)
		batch[i % COUNT] += 1;
}

int main(int argc, char **argv)
{
	long requests = argc > 1 ? atol(argv[1]) : 40;

	problem_begin();
	aclrtStream s = new_stream();
	aclrtFuncHandle embed = kernel("embed"), attention = kernel("attention"), mlp = kernel("mlp");
	float *batch = pinned_memory(BYTES), *logits = pinned_memory(BYTES);
	void *x = device_memory(BYTES), *y = device_memory(BYTES);

	for (long request = 0; request < requests; request++) {
		tokenize(batch);
		CHECK(aclrtMemcpyAsync(x, BYTES, batch, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
		launch(embed, s, x, y, 1, 20);
		for (int layer = 0; layer < LAYERS; layer++) {
			launch(attention, s, y, x, 0.5f, 60);
			launch(mlp, s, x, y, 0.5f, 40);
		}
		CHECK(aclrtMemcpyAsync(logits, BYTES, y, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s));
		CHECK(aclrtSynchronizeStream(s));
	}
	printf("%ld requests\n", requests);

	CHECK(aclrtFree(y));
	CHECK(aclrtFree(x));
	CHECK(aclrtFreeHost(logits));
	CHECK(aclrtFreeHost(batch));
	CHECK(aclrtDestroyStream(s));
	problem_end();
	return 0;
}
