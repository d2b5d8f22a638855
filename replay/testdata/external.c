/*
 * A graph that waits for work outside, and for which work outside waits, by external events. With another argument it waits for the update of its
 * task, as a decoder's graph does.
 */
#include "program.h"

enum { COUNT = 256, RUNS = 4 };

int main(int argc, char **argv)
{
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream a, b, c;
	CHECK(aclrtCreateStream(&a));
	CHECK(aclrtCreateStream(&b));
	CHECK(aclrtCreateStream(&c));
	aclrtFuncHandle add = kernel(argv[1], "add");
	uint32_t host[COUNT], result[COUNT], *x = device_memory(sizeof host);
	for (int i = 0; i < COUNT; i++)
		host[i] = (uint32_t)i;
	to_device(x, host, sizeof host);
	struct add_args before = {x, COUNT, 2, 0}, inside = {x, COUNT, 3, 0}, after = {x, COUNT, 5, 0};
	aclmdlRI graph;
	aclrtTaskGrp group;
	aclrtEvent in, out;
	int updates = argc > 2;

	if (updates)
		CHECK(aclrtCreateEventWithFlag(&in, ACL_EVENT_EXTERNAL));
	else
		CHECK(aclrtCreateEventExWithFlag(&in, ACL_EVENT_SYNC));
	CHECK(aclrtCreateEventExWithFlag(&out, ACL_EVENT_SYNC));
	CHECK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	if (updates) {
		CHECK(aclrtStreamWaitEvent(a, in));
		CHECK(aclrtResetEvent(in, a));
		CHECK(aclmdlRICaptureTaskGrpBegin(a));
	} else {
		CHECK(aclrtStreamWaitEventWithFlag(a, in, 0, ACL_EVENT_WAIT_EXTERNAL));
	}
	launch(add, 1, a, &inside, sizeof inside);
	if (updates)
		CHECK(aclmdlRICaptureTaskGrpEnd(a, &group));
	CHECK(aclrtRecordEventWithFlag(out, a, ACL_EVENT_RECORD_EXTERNAL));
	CHECK(aclmdlRICaptureEnd(a, &graph));

	uint32_t total = 0;
	for (uint32_t run = 1; run <= RUNS; run++) {
		launch(add, 1, b, &before, sizeof before);
		if (updates) {
			inside.by = 3 + run;
			CHECK(aclmdlRICaptureTaskUpdateBegin(b, group));
			launch(add, 1, b, &inside, sizeof inside);
			CHECK(aclmdlRICaptureTaskUpdateEnd(b));
		}
		CHECK(aclrtRecordEvent(in, b));
		CHECK(aclmdlRIExecuteAsync(graph, a));
		CHECK(aclrtStreamWaitEvent(c, out));
		launch(add, 1, c, &after, sizeof after);
		CHECK(aclrtSynchronizeStream(c));
		total += before.by + inside.by + after.by;
		to_host(result, x, sizeof result);
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(result[i] == i + total * (i + 1));
	}
	CHECK(aclrtSynchronizeStream(a)); /* the graph records the event before its run ends */
	CHECK(aclmdlRIDestroy(graph));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
