/* A graph copies from pinned memory, once plain and once by rows. The program changes the memory between two runs, and a kernel uses both copies. */
#include "program.h"

enum { COUNT = 64, WIDTH = 32, ROWS = 4, PITCH = 128, RUNS = 6 };

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	uint32_t *in, *rows, *out, *x = device_memory(COUNT * 4), *y = device_memory(ROWS * WIDTH);
	CHECK(aclrtMallocHost((void **)&in, COUNT * 4));
	CHECK(aclrtMallocHost((void **)&rows, ROWS * PITCH));
	CHECK(aclrtMallocHost((void **)&out, COUNT * 4 + ROWS * WIDTH));
	memset(in, 0, COUNT * 4);
	memset(rows, 0, ROWS * PITCH);
	aclrtFuncHandle add = kernel(argv[1], "add");
	aclmdlRI graph;
	struct add_args args = {x, COUNT, 1, 0}, more = {y, ROWS * WIDTH / 4, 1, 0};
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	CHECK(aclrtMemcpyAsync(x, COUNT * 4, in, COUNT * 4, ACL_MEMCPY_HOST_TO_DEVICE, s));
	CHECK(aclrtMemcpy2dAsync(y, WIDTH, rows, PITCH, WIDTH, ROWS, ACL_MEMCPY_HOST_TO_DEVICE, s));
	launch(add, 1, s, &args, sizeof args);
	launch(add, 1, s, &more, sizeof more);
	CHECK(aclrtMemcpyAsync(out, COUNT * 4, x, COUNT * 4, ACL_MEMCPY_DEVICE_TO_HOST, s));
	CHECK(aclrtMemcpyAsync(out + COUNT, ROWS * WIDTH, y, ROWS * WIDTH, ACL_MEMCPY_DEVICE_TO_HOST, s));
	CHECK(aclmdlRICaptureEnd(s, &graph));
	for (uint32_t run = 0; run < RUNS; run++) {
		for (uint32_t i = 0; i < COUNT; i++)
			in[i] = run * (i + 7);
		for (uint32_t i = 0; i < ROWS * PITCH / 4; i++)
			rows[i] = run + i;
		if (run % 2)
			CHECK(aclmdlRIExecute(graph, -1));
		else
			CHECK(aclmdlRIExecuteAsync(graph, s));
		CHECK(aclrtSynchronizeStream(s));
		EXPECT(out[COUNT - 1] == run * (COUNT + 6) + COUNT);
		EXPECT(out[COUNT + ROWS * WIDTH / 4 - 1] == run + (ROWS - 1) * PITCH / 4 + WIDTH / 4 - 1 + ROWS * WIDTH / 4);
	}
	CHECK(aclmdlRIDestroy(graph));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
