/* Tasks of a captured model, which only an array gives, are updated and disabled between runs. */
#include "program.h"

enum { COUNT = 64, TASKS = 600, NARROW = 1 }; /* the array of tasks has more than 4 KiB */

static aclmdlRITask tasks[TASKS + 8];
static aclmdlRITaskParams params;

static void set(int task, aclrtFuncHandle f, void *args, size_t size, int on_host, aclrtLaunchKernelCfg *cfg)
{
	memset(&params, 0, sizeof params);
	CHECK(aclmdlRITaskGetParams(tasks[task], &params));
	EXPECT(params.type == ACL_MODEL_RI_TASK_KERNEL);
	params.kernelTaskParams.funcHandle = f;
	params.kernelTaskParams.args = args;
	params.kernelTaskParams.argsSize = size;
	params.kernelTaskParams.isHostArgs = (uint32_t)on_host;
	params.kernelTaskParams.cfg = cfg;
	CHECK(aclmdlRITaskSetParams(tasks[task], &params));
}

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s, streams[4];
	aclmdlRI graph;
	uint32_t host[COUNT] = {0}, total = 0, number = TASKS + 8, lanes = 4;
	uint32_t *x = device_memory(sizeof host), *y = device_memory(sizeof host);
	to_device(x, host, sizeof host);
	to_device(y, host, sizeof host);
	aclrtFuncHandle add = kernel(argv[1], "add");
	CHECK(aclrtCreateStream(&s));
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < TASKS; i++) {
		struct add_args args = {x, COUNT, 1, 0};
		launch(add, 1, s, &args, sizeof args);
	}
	CHECK(aclmdlRICaptureEnd(s, &graph));
	CHECK(aclmdlRIGetStreams(graph, streams, &lanes));
	EXPECT(lanes == 1);
	CHECK(aclmdlRIGetTasksByStream(streams[0], NULL, &number));
	EXPECT(number == TASKS);
	CHECK(aclmdlRIGetTasksByStream(streams[0], tasks, &number));
	CHECK(aclmdlRIGetTasksByStream(streams[0], tasks, &number)); /* they are known */

	aclrtLaunchKernelAttr attr = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, .value.schemMode = NARROW};
	aclrtLaunchKernelCfg cfg = {&attr, 1};
	struct add_args *there = device_memory(sizeof *there);
	for (uint32_t run = 0; run < 3; run++) {
		struct add_args other = {y, COUNT, 10 * (run + 1), 0}, far = {y, COUNT, 1000, 0};
		set(TASKS - 1, add, &other, sizeof other, 1, run == 1 ? &cfg : NULL);
		memset(&other, 0xff, sizeof other); /* the program reuses its memory */
		if (run == 1) {
			to_device(there, &far, sizeof far);
			set(0, add, there, sizeof far, 0, NULL);
			CHECK(aclmdlRITaskDisable(tasks[1]));
		}
		CHECK(aclmdlRIUpdate(graph));
		aclrtLaunchKernelAttrValue mode;
		CHECK(aclmdlRIKernelTaskGetAttribute(tasks[TASKS - 1], ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, &mode));
		EXPECT(run == 0 || mode.schemMode == NARROW);
		CHECK(aclmdlRIExecuteAsync(graph, s));
		CHECK(aclrtSynchronizeStream(s));
		total += 10 * (run + 1) + (run > 0 ? 1000 : 0);
		to_host(host, y, sizeof host);
		EXPECT(host[0] == total && host[1] == 2 * total);
		to_host(host, x, sizeof host);
		EXPECT(host[0] == (run + 1) * (TASKS - 1) - 2 * run);
	}
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
