/* Two releases of one program. The second one, `regression --new`, has lost the fusion of two kernels. */
#include "problem.h"

enum { STEPS = 40, LAYERS = 6 };

int main(int argc, char **argv)
{
	int lost = argc > 1 && !strcmp(argv[1], "--new");

	problem_begin();
	aclrtStream s = new_stream();
	aclrtFuncHandle attention = kernel("attention"), mlp = kernel("mlp"), bias = kernel("bias"), gelu = kernel("gelu"), fused = kernel("bias_gelu");
	float *in = pinned_memory(BYTES), *out = pinned_memory(BYTES);
	void *x = device_memory(BYTES), *y = device_memory(BYTES);

	for (int step = 0; step < STEPS; step++) {
		CHECK(aclrtMemcpyAsync(x, BYTES, in, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
		for (int layer = 0; layer < LAYERS; layer++) {
			launch(attention, s, x, y, 0.5f, 60);
			launch(mlp, s, y, x, 0.5f, 40);
			if (lost) {
				launch(bias, s, x, y, 1, 12);
				launch(gelu, s, y, x, 1, 12);
			} else {
				launch(fused, s, x, x, 1, 13);
			}
		}
		CHECK(aclrtMemcpyAsync(out, BYTES, x, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s));
		CHECK(aclrtSynchronizeStream(s));
	}
	printf("%d steps\n", STEPS);

	CHECK(aclrtFree(y));
	CHECK(aclrtFree(x));
	CHECK(aclrtFreeHost(out));
	CHECK(aclrtFreeHost(in));
	CHECK(aclrtDestroyStream(s));
	problem_end();
	return 0;
}
