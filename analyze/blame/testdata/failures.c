/*
 * failures BINARY HOW: a program that fails in one way. It asks the runtime for its message, and ends with 7.
 *	double-free      frees memory a second time
 *	destroyed-event  waits for an event that was destroyed
 *	host-pointer     gives a kernel an address of the host's heap
 *	null             gives one launch of many no input
 *	too-many         gives one launch of many a larger count than its buffers have
 *	deadlock         waits for a value that nobody writes
 *	calls            two calls fail
 */
#include "../../../replay/testdata/program.h"

enum { COUNT = 64 };

struct args {
	const float *a, *b;
	float *out;
	uint64_t count;
};

static int failed(aclError e)
{
	EXPECT(e != ACL_SUCCESS);
	EXPECT(aclGetRecentErrMsg() != NULL);
	return 7;
}

int main(int argc, char **argv)
{
	EXPECT(argc == 3);
	const char *how = argv[2];
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s, t;
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtCreateStream(&t));
	aclrtFuncHandle add = kernel(argv[1], "add");
	float *x = device_memory(COUNT * 4);
	uint64_t *word = device_memory(64);
	CHECK(aclrtMemset(x, COUNT * 4, 0, COUNT * 4));
	CHECK(aclrtMemset(word, 64, 0, 64));
	struct args args = {x, x, x, COUNT};
	aclrtEvent e;
	CHECK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
	if (strcmp(how, "double-free") == 0) {
		CHECK(aclrtFree(word));
		return failed(aclrtFree(word));
	}
	if (strcmp(how, "destroyed-event") == 0) {
		CHECK(aclrtRecordEvent(e, s));
		CHECK(aclrtDestroyEvent(e));
		return failed(aclrtStreamWaitEvent(t, e));
	}
	if (strcmp(how, "host-pointer") == 0) {
		args.out = malloc(COUNT * 4);
		launch(add, 1, s, &args, sizeof args);
		args.out = x;
	} else if (strcmp(how, "null") == 0 || strcmp(how, "too-many") == 0) {
		struct args odd = {x, how[0] == 'n' ? NULL : x, x, how[0] == 'n' ? COUNT : 10 * COUNT};

		for (int i = 0; i < 20; i++)
			launch(add, 1, s, &args, sizeof args);
		launch(add, 1, s, &odd, sizeof odd);
	} else if (strcmp(how, "deadlock") == 0) {
		CHECK(aclrtValueWait(word, 5, 0, s));
	} else {
		aclrtFuncHandle none;
		void *huge;
		EXPECT(aclrtMalloc(&huge, (size_t)1 << 46, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS);
		aclrtBinHandle binary;
		CHECK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
		EXPECT(aclrtBinaryGetFunction(binary, "no_such_kernel", &none) != ACL_SUCCESS);
		return 7;
	}
	for (int i = 0; i < 20; i++)
		launch(add, 1, s, &args, sizeof args);
	return failed(aclrtSynchronizeStreamWithTimeout(s, 200));
}
