/* A pipeline on two streams whose results are sometimes wrong: nothing orders the copy to the host after the kernel.
 * `wrong_result --fixed` has an event between the two streams. */
#include "problem.h"

enum { BATCHES = 12 };

int main(int argc, char **argv)
{
	int fixed = argc > 1 && !strcmp(argv[1], "--fixed"), wrong = 0;

	problem_begin();
	aclrtStream compute = new_stream(), copies = new_stream();
	aclrtEvent done;
	CHECK(aclrtCreateEventExWithFlag(&done, ACL_EVENT_SYNC));
	aclrtFuncHandle mlp = kernel("mlp");
	float *in = pinned_memory(BYTES), *out = pinned_memory(BYTES);
	void *x = device_memory(BYTES), *y = device_memory(BYTES);

	CHECK(aclrtMemset(y, BYTES, 0, BYTES));
	for (int batch = 0; batch < BATCHES; batch++) {
		for (int i = 0; i < COUNT; i++)
			in[i] = (float)(batch + i);
		CHECK(aclrtMemcpyAsync(x, BYTES, in, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, compute));
		launch(mlp, compute, x, y, 2, batch % 3 ? 2000 : 1);
		if (fixed) {
			CHECK(aclrtRecordEvent(done, compute));
			CHECK(aclrtStreamWaitEvent(copies, done));
		} else if (batch % 3 == 0) {
			usleep(10000); /* the host is late, so the kernel ends first */
		}
		CHECK(aclrtMemcpyAsync(out, BYTES, y, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, copies));
		CHECK(aclrtSynchronizeStream(copies));
		for (int i = 0; i < COUNT; i++) {
			if (out[i] != 2 * in[i] + 1) {
				wrong++;
				break;
			}
		}
		CHECK(aclrtSynchronizeStream(compute));
	}
	printf("%d of %d batches are wrong\n", wrong, BATCHES);

	CHECK(aclrtFree(y));
	CHECK(aclrtFree(x));
	CHECK(aclrtFreeHost(out));
	CHECK(aclrtFreeHost(in));
	CHECK(aclrtDestroyEvent(done));
	CHECK(aclrtDestroyStream(copies));
	CHECK(aclrtDestroyStream(compute));
	problem_end();
	return wrong != 0;
}
