/*
 * A graph over two streams, captured once and run often, with a task group that is replaced between runs. With
 * another argument it also copies to the host; with "loose" the host does not wait for the update; with "early" the program waits for the stream before the first run.
 */
#include "program.h"

enum { COUNT = 256, RUNS = 5 };

int main(int argc, char **argv)
{
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream a, b, updates;
	aclrtEvent fork_event, join_event;
	CHECK(aclrtCreateStream(&a));
	CHECK(aclrtCreateStream(&b));
	CHECK(aclrtCreateStream(&updates));
	CHECK(aclrtCreateEventExWithFlag(&fork_event, ACL_EVENT_SYNC));
	CHECK(aclrtCreateEventExWithFlag(&join_event, ACL_EVENT_SYNC));
	aclrtFuncHandle add = kernel(argv[1], "add");
	uint32_t host[COUNT], *x = device_memory(sizeof host), *y = device_memory(sizeof host);
	for (int i = 0; i < COUNT; i++)
		host[i] = (uint32_t)i;
	to_device(x, host, sizeof host);
	to_device(y, host, sizeof host);

	struct add_args first = {x, COUNT, 3, 0}, second = {y, COUNT, 5, 0};
	aclmdlRI graph;
	aclrtTaskGrp group;
	CHECK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(aclrtRecordEvent(fork_event, a));
	CHECK(aclrtStreamWaitEvent(b, fork_event));
	CHECK(aclmdlRICaptureTaskGrpBegin(a));
	launch(add, 2, a, &first, sizeof first);
	CHECK(aclmdlRICaptureTaskGrpEnd(a, &group));
	launch(add, 1, b, &second, sizeof second);
	CHECK(aclrtMemcpyAsync(&y[COUNT / 2], 4, &y[0], 4, ACL_MEMCPY_DEVICE_TO_DEVICE, b));
	CHECK(aclrtRecordEvent(join_event, b));
	CHECK(aclrtStreamWaitEvent(a, join_event));
	uint32_t *pinned = NULL;
	if (argc > 2) {
		CHECK(aclrtMallocHost((void **)&pinned, sizeof host));
		CHECK(aclrtMemcpyAsync(pinned, sizeof host, x, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST, a));
	}
	aclmdlRICaptureStatus status;
	aclmdlRI known;
	CHECK(aclmdlRICaptureGetInfo(a, &status, &known));
	EXPECT(status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
	CHECK(aclmdlRICaptureEnd(a, &graph));
	CHECK(aclmdlRISetName(graph, "twice"));
	if (argc > 2 && strcmp(argv[2], "early") == 0)
		CHECK(aclrtSynchronizeDevice());

	uint32_t by = 3, total = 0, result[COUNT];
	for (uint32_t run = 0; run < RUNS; run++) {
		if (run == 2) {
			by = first.by = 7;
			CHECK(aclmdlRICaptureTaskUpdateBegin(updates, group));
			launch(add, 2, updates, &first, sizeof first);
			CHECK(aclmdlRICaptureTaskUpdateEnd(updates));
			if (argc > 2 && strcmp(argv[2], "loose") == 0) { /* the device orders it */
				CHECK(aclrtRecordEvent(fork_event, updates));
				CHECK(aclrtStreamWaitEvent(b, fork_event));
			} else {
				CHECK(aclrtSynchronizeStream(updates)); /* the update is a task of that stream */
			}
		}
		if (run % 2)
			CHECK(aclmdlRIExecute(graph, -1));
		else
			CHECK(aclmdlRIExecuteAsync(graph, b));
		CHECK(argc > 2 ? aclrtSynchronizeDevice() : aclrtSynchronizeStream(b));
		total += by;
		to_host(result, x, sizeof result);
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(result[i] == i + total * (i + 1) && (pinned == NULL || pinned[i] == result[i]));
		to_host(result, y, sizeof result);
		EXPECT(result[COUNT / 2] == result[0] && result[1] == 1 + 10 * (run + 1));
	}
	CHECK(aclmdlRIDestroy(graph));
	/* The same streams without a graph. */
	launch(add, 2, a, &first, sizeof first);
	CHECK(aclrtSynchronizeStream(a));
	to_host(result, x, sizeof result);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
