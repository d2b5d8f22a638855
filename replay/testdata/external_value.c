/* A graph waits for a value that other work writes during the run. With another argument, other work waits for a value that the graph writes. */
#include "program.h"

enum { COUNT = 256, RUNS = 4 };

int main(int argc, char **argv)
{
	int writes = argc > 2;

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
	uint64_t none[2] = {0, 0}, *word = device_memory(sizeof none);
	to_device(word, none, sizeof none);
	struct add_args before = {x, COUNT, 2, 0}, inside = {x, COUNT, 3, 0}, after = {x, COUNT, 5, 0};
	aclmdlRI graph;

	CHECK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	CHECK(aclrtValueWait(word, 1, 0, a));
	CHECK(aclrtValueWrite(word, 0, 0, a));
	launch(add, 1, a, &inside, sizeof inside);
	if (writes)
		CHECK(aclrtValueWrite(word + 1, 1, 0, a));
	CHECK(aclmdlRICaptureEnd(a, &graph));

	uint32_t total = 0;
	for (uint32_t run = 1; run <= RUNS; run++) {
		launch(add, 1, b, &before, sizeof before);
		CHECK(aclrtValueWrite(word, 1, 0, b));
		CHECK(aclmdlRIExecuteAsync(graph, a));
		if (writes) {
			CHECK(aclrtValueWait(word + 1, 1, 0, c));
			CHECK(aclrtValueWrite(word + 1, 0, 0, c));
		}
		launch(add, 1, writes ? c : a, &after, sizeof after);
		CHECK(aclrtSynchronizeStream(writes ? c : a));
		total += before.by + inside.by + after.by;
		to_host(result, x, sizeof result);
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(result[i] == i + total * (i + 1));
	}
	CHECK(aclrtSynchronizeStream(a)); /* the last run's value is written before the run ends */
	CHECK(aclmdlRIDestroy(graph));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
