/*
 * Graphs that have other results than their launches one by one, and twins that have the same. The second argument is what the program
 * does: see main.
 */
#include "program.h"

#include "aclsim/place.h"

enum { COUNT = 64, RUNS = 3, SIZE = COUNT * 4, BIG = 64 << 20 };

static aclrtStream s, t, updates;
static aclrtFuncHandle add;
static uint32_t *x, *y, host[COUNT];
static void *big;

static aclmdlRI captured(const void *from)
{
	aclmdlRI graph;
	struct add_args args = {y, COUNT, 1, 0};
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	CHECK(aclrtMemcpyAsync(y, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	launch(add, 1, s, &args, sizeof args);
	CHECK(aclmdlRICaptureEnd(s, &graph));
	return graph;
}

static void run(aclmdlRI graph, uint32_t first)
{
	CHECK(aclmdlRIExecuteAsync(graph, s));
	CHECK(aclrtSynchronizeStream(s));
	to_host(host, y, SIZE);
	EXPECT(host[0] == first);
}

/* The graph reads x, which the program frees. Other memory gets the address. With "again" the program captures the graph anew. */
static void freed(int again)
{
	aclmdlRI graph = captured(x);
	run(graph, 1);
	uint32_t *was = x;
	CHECK(aclrtFree(x));
	aclsim_place((uint64_t)was); /* devices give an address to the next allocation, the simulator to a later one */
	x = device_memory(SIZE);
	EXPECT(x == was);
	for (int i = 0; i < COUNT; i++)
		host[i] = 40;
	to_device(x, host, SIZE);
	if (again) {
		CHECK(aclmdlRIDestroy(graph));
		graph = captured(x);
	}
	run(graph, 41);
	run(graph, 41);
	CHECK(aclmdlRIDestroy(graph));
}

/*
 * Each run waits for a word until its kernel has the number of the run. With "after" the host updates the kernel when the run has ended:
 * each run has the number of the one before. With "before" it updates and writes the word before it runs the graph.
 */
static void updated(const char *when)
{
	aclmdlRI graph;
	aclrtTaskGrp group;
	struct add_args args = {y, COUNT, 100, 0};
	void *word = device_memory(32);
	CHECK(aclrtMemset(word, 32, 0, 32));
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	CHECK(aclrtMemcpyAsync(y, SIZE, x, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	CHECK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
	CHECK(aclrtValueWrite(word, 0, 0, s));
	CHECK(aclmdlRICaptureTaskGrpBegin(s));
	launch(add, 1, s, &args, sizeof args);
	CHECK(aclmdlRICaptureTaskGrpEnd(s, &group));
	CHECK(aclmdlRICaptureEnd(s, &graph));
	for (uint32_t i = 0; i < RUNS; i++) {
		int after = !strcmp(when, "after"), before = !strcmp(when, "before");
		args.by = i;
		if (!before)
			CHECK(aclmdlRIExecuteAsync(graph, s));
		if (after) {
			CHECK(aclrtValueWrite(word, 1, 0, updates));
			CHECK(aclrtSynchronizeStream(s));
		}
		CHECK(aclmdlRICaptureTaskUpdateBegin(updates, group));
		launch(add, 1, updates, &args, sizeof args);
		CHECK(aclmdlRICaptureTaskUpdateEnd(updates));
		if (!after)
			CHECK(aclrtValueWrite(word, 1, 0, updates));
		CHECK(aclrtSynchronizeStream(updates));
		if (before)
			CHECK(aclmdlRIExecuteAsync(graph, s));
		CHECK(aclrtSynchronizeStream(s));
		to_host(host, y, SIZE);
		EXPECT(host[0] == (!after ? i : i == 0 ? 100 : i - 1));
	}
}

/*
 * One branch of a graph waits for a word that the host writes when the other branch has ended. With "unjoined" both branches use x: the first one
 * copies it after the second has changed it.
 */
static void branches(int join)
{
	aclmdlRI graph;
	aclrtEvent fork_event, join_event;
	struct add_args args = {x, COUNT, 5, 0};
	uint32_t *word = device_memory(32), *ended = device_memory(32);
	CHECK(aclrtMemset(word, 32, 0, 32));
	CHECK(aclrtMemset(ended, 32, 0, 32));
	CHECK(aclrtCreateEventExWithFlag(&fork_event, ACL_EVENT_SYNC));
	CHECK(aclrtCreateEventExWithFlag(&join_event, ACL_EVENT_SYNC));
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	CHECK(aclrtRecordEvent(fork_event, s));
	CHECK(aclrtStreamWaitEvent(t, fork_event));
	if (join)
		CHECK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
	else
		CHECK(aclrtMemsetAsync(big, BIG, 7, BIG, s));
	CHECK(aclrtMemcpyAsync(y, SIZE, x, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	launch(add, 1, t, &args, sizeof args);
	CHECK(aclrtValueWrite(ended, 1, 0, t));
	CHECK(aclrtRecordEvent(join_event, t));
	CHECK(aclrtStreamWaitEvent(s, join_event));
	CHECK(aclmdlRICaptureEnd(s, &graph));
	CHECK(aclmdlRIExecuteAsync(graph, s));
	CHECK(aclrtValueWait(ended, 1, ACL_STREAM_WAIT_VALUE_EQ, updates));
	CHECK(aclrtValueWrite(word, 1, 0, updates));
	CHECK(aclrtSynchronizeStream(updates));
	CHECK(aclrtSynchronizeStream(s));
	to_host(host, y, SIZE);
	EXPECT(host[0] == 5);
}

/* A copy from the host writes the word that a run waits for. */
static void released(void)
{
	aclmdlRI graph;
	uint64_t one = 1, zero = 0;
	uint64_t *word = device_memory(32);
	to_device(word, &zero, 8);
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	CHECK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
	CHECK(aclrtMemcpyAsync(y, SIZE, x, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	CHECK(aclmdlRICaptureEnd(s, &graph));
	CHECK(aclmdlRIExecuteAsync(graph, s));
	to_device(word, &one, 8);
	CHECK(aclrtSynchronizeStream(s));
	to_host(host, y, SIZE);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtCreateStream(&t));
	CHECK(aclrtCreateStream(&updates));
	add = kernel(argv[1], "add");
	x = device_memory(SIZE);
	y = device_memory(SIZE);
	big = device_memory(BIG);
	CHECK(aclrtMemset(x, SIZE, 0, SIZE));
	CHECK(aclrtMemset(y, SIZE, 0, SIZE));
	if (!strcmp(what, "freed") || !strcmp(what, "again"))
		freed(!strcmp(what, "again"));
	else if (!strcmp(what, "joined") || !strcmp(what, "unjoined"))
		branches(!strcmp(what, "joined"));
	else if (!strcmp(what, "released"))
		released();
	else
		updated(what);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
