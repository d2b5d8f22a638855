/* An engine that decodes by a captured graph and hangs: attention waits in the graph for an event, which the host records once the lengths of a step are up to
 * date, and resets it. From step AHEAD on the host does not wait for a step before it prepares the next one: it records the event twice before a run
 * resets it, and the last run waits for ever. `hang --fixed` waits for each step. */
#include "problem.h"

enum { STEPS = 12, AHEAD = 6, WATCHDOG_MS = 1000, LENGTHS = 64 };

int main(int argc, char **argv)
{
	int fixed = argc > 1 && !strcmp(argv[1], "--fixed");

	problem_begin();
	aclrtStream decode = new_stream(), updates = new_stream();
	aclrtFuncHandle embed = kernel("embed"), attention = kernel("attention"), mlp = kernel("mlp");
	int *lengths = pinned_memory(LENGTHS);
	void *x = device_memory(BYTES), *y = device_memory(BYTES), *on_device = device_memory(LENGTHS);
	aclrtEvent updated;
	aclmdlRI graph;

	CHECK(aclrtMemset(x, BYTES, 0, BYTES));
	CHECK(aclrtCreateEventExWithFlag(&updated, ACL_EVENT_EXTERNAL));
	CHECK(aclmdlRICaptureBegin(decode, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	launch(embed, decode, x, y, 1, 400);
	CHECK(aclrtStreamWaitEvent(decode, updated));
	CHECK(aclrtResetEvent(updated, decode));
	launch(attention, decode, y, x, 0.5f, 200);
	launch(mlp, decode, x, y, 0.5f, 200);
	CHECK(aclmdlRICaptureEnd(decode, &graph));

	for (int step = 0; step < STEPS; step++) {
		CHECK(aclmdlRIExecuteAsync(graph, decode));
		lengths[0] = step;
		CHECK(aclrtMemcpyAsync(on_device, LENGTHS, lengths, LENGTHS, ACL_MEMCPY_HOST_TO_DEVICE, updates));
		CHECK(aclrtRecordEvent(updated, updates));
		if ((fixed || step < AHEAD || step == STEPS - 1) && aclrtSynchronizeStreamWithTimeout(decode, WATCHDOG_MS)) {
			printf("watchdog: step %d has no result after %d ms\n", step, WATCHDOG_MS);
			return 1;
		}
	}
	printf("%d steps\n", STEPS);

	CHECK(aclmdlRIDestroy(graph));
	CHECK(aclrtDestroyEvent(updated));
	CHECK(aclrtFree(on_device));
	CHECK(aclrtFree(y));
	CHECK(aclrtFree(x));
	CHECK(aclrtFreeHost(lengths));
	CHECK(aclrtDestroyStream(updates));
	CHECK(aclrtDestroyStream(decode));
	problem_end();
	return 0;
}
