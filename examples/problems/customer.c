/* A customer's decoder, whose answers differ from one machine to the next: nothing clears its state before the first
 * token, so the kernel reads memory that nothing has written. */
#include "problem.h"

enum { TOKENS = 4 };

int main(void)
{
	problem_begin();
	aclrtStream s = new_stream();
	aclrtFuncHandle embed = kernel("embed"), attention = kernel("attention");
	float *token = pinned_memory(BYTES), *logits = pinned_memory(BYTES);
	void *x = device_memory(BYTES), *state = device_memory(BYTES), *y = device_memory(BYTES);

	for (int i = 0; i < TOKENS; i++) {
		CHECK(aclrtMemcpyAsync(x, BYTES, token, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
		launch(embed, s, x, y, 1, 20);
		CHECK(aclrtMemcpyAsync(logits, BYTES, y, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s));
		launch(attention, s, state, state, 0.5f, 60);
		CHECK(aclrtMemcpyAsync(token, BYTES, state, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s));
		CHECK(aclrtSynchronizeStream(s));
	}
	printf("%d tokens\n", TOKENS);

	CHECK(aclrtFree(y));
	CHECK(aclrtFree(state));
	CHECK(aclrtFree(x));
	CHECK(aclrtFreeHost(logits));
	CHECK(aclrtFreeHost(token));
	CHECK(aclrtDestroyStream(s));
	problem_end();
	return 0;
}
