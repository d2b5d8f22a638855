/*
 * A model with conditional parts: an IF with two parts, one with a nested condition, and a WHILE that
 * ends itself. Condition words are set from the host and in a part.
 */
#include "program.h"

enum { COUNT = 64 };

static aclrtStream s, other;
static aclrtFuncHandle add;

/* Captures into a part: x[i] += by * (i + 1), then a copy of a host word to a condition, if there is one. */
static void fill(aclmdlRI part, uint32_t *x, uint32_t by, uint64_t *condition, const uint64_t *word)
{
	aclmdlRI same;
	CHECK(aclmdlRICaptureToModelRIBegin(other, part, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	struct add_args args = {x, COUNT, by, 0};
	launch(add, 1, other, &args, sizeof args);
	if (condition != NULL)
		CHECK(aclrtMemcpyAsync(condition, 8, word, 8, ACL_MEMCPY_HOST_TO_DEVICE, other));
	CHECK(aclmdlRICaptureEnd(other, &same));
	EXPECT(same == part);
}

static void ask(aclrtStream on, aclmdlRICondHandle c, aclmdlRICondTaskType type, uint32_t n, aclmdlRI *parts)
{
	aclmdlRICondTaskParams p = {.handle = c, .type = type, .size = n, .modelRIArray = parts};
	CHECK(aclmdlRIAddCondTask(p, on, 0));
}

int main(int argc, char **argv)
{
	(void)argc;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtCreateStream(&other));
	add = kernel(argv[1], "add");
	uint32_t *x = device_memory(4 * COUNT), host[COUNT] = {0};
	uint64_t *none, zero = 0, one = 1;
	CHECK(aclrtMallocHost((void **)&none, 8));
	*none = 0;
	to_device(x, host, sizeof host);

	aclmdlRI model, parts[2], turn, ended;
	aclmdlRICaptureStatus status;
	aclmdlRICondHandle choice, loop;
	uint64_t *choose, *go_on;
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(aclmdlRICaptureGetInfo(s, &status, &model));
	CHECK(aclmdlRICondHandleCreate(model, 0, (aclmdlRICondHandleFlag)0, &choice));
	CHECK(aclmdlRICondHandleGetCondPtr(choice, &choose));
	CHECK(aclmdlRICondHandleCreate(model, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &loop));
	CHECK(aclmdlRICondHandleGetCondPtr(loop, &go_on));
	ask(s, choice, ACL_MODEL_RI_COND_TYPE_IF, 2, parts);
	fill(parts[0], x, 1, NULL, NULL);
	fill(parts[1], x, 100, NULL, NULL);
	ask(s, loop, ACL_MODEL_RI_COND_TYPE_WHILE, 1, &turn);
	fill(turn, x, 10000, go_on, none);
	CHECK(aclmdlRICaptureEnd(s, &ended));
	EXPECT(ended == model);

	uint32_t want = 0;
	for (int run = 0; run < 4; run++) {
		to_device(choose, run % 2 ? &one : &zero, 8);
		CHECK(aclmdlRIExecuteAsync(model, s));
		CHECK(aclrtSynchronizeStream(s));
		to_host(host, x, sizeof host);
		want += (run % 2 ? 1 : 100) + 10000;
		for (uint32_t i = 0; i < COUNT; i++)
			EXPECT(host[i] == want * (i + 1));
	}
	CHECK(aclmdlRIDestroy(model));
	CHECK(aclrtFree(x));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
