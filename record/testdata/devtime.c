/*
 * devtime BINARY THREADS: threads with two streams each launch kernels with known durations after one that delays them, and wait for
 * them. Then the main thread makes calls that measuring must not disturb, and prints their results.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); exit(1); } } while (0)

enum { ROUNDS = 3, KERNELS = 40 };

static aclrtFuncHandle gate, add, mul;

static void launch(aclrtFuncHandle f, aclrtStream s)
{
	uint64_t args[1] = {0};
	MUST(aclrtLaunchKernelWithHostArgs(f, 1, s, NULL, args, sizeof args, NULL, 0));
}

static void *work(void *unused)
{
	aclrtStream s[2];
	MUST(aclrtSetDevice(0));
	for (int i = 0; i < 2; i++)
		MUST(aclrtCreateStream(&s[i]));
	for (int r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < 2; i++) {
			launch(gate, s[i]);
			for (int k = 0; k < KERNELS; k++)
				launch(k % 2 ? mul : add, s[i]);
		}
		for (int i = 0; i < 2; i++)
			MUST(aclrtSynchronizeStream(s[i]));
	}
	for (int i = 0; i < 2; i++)
		MUST(aclrtDestroyStream(s[i]));
	return unused;
}

int main(int argc, char **argv)
{
	aclrtBinHandle binary;
	aclrtStream s;
	aclrtEvent event;
	aclmdlRI graph;
	uint32_t ids[3];
	pthread_t t[16];
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	MUST(aclrtBinaryGetFunction(binary, "reduce", &gate));
	MUST(aclrtBinaryGetFunction(binary, "add", &add));
	MUST(aclrtBinaryGetFunction(binary, "mul", &mul));
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);

	/* The thread's last task is the program's own. */
	MUST(aclrtCreateStream(&s));
	launch(add, s);
	MUST(aclrtGetThreadLastTaskId(&ids[0]));
	MUST(aclrtGetThreadLastTaskId(&ids[1]));
	fprintf(stderr, "task %u\n", ids[0]);
	printf("last task is one: %d\n", ids[0] == ids[1]);
	MUST(aclrtCreateEvent(&event));
	MUST(aclrtRecordEvent(event, s));
	MUST(aclrtGetThreadLastTaskId(&ids[2]));
	printf("and the next one another: %d\n", ids[2] != ids[0]);
	MUST(aclrtSynchronizeEvent(event));

	/* An error that the program has not queried yet, and its text, survive launches. */
	printf("refused: %d\n", aclrtMallocHost(NULL, 1));
	launch(add, s);
	MUST(aclrtSynchronizeStream(s));
	printf("error %d\n", aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
	printf("error %d\n", aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	printf("error %d\n", aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	const char *text = aclGetRecentErrMsg();
	printf("text %s\n", text ? text : "none");
	text = aclGetRecentErrMsg();
	printf("text %s\n", text ? text : "none");

	/* Captured tasks run as often as the graph, and no other tasks do. */
	MUST(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	for (int k = 0; k < 5; k++)
		launch(add, s);
	MUST(aclmdlRICaptureEnd(s, &graph));
	for (int k = 0; k < 3; k++)
		MUST(aclmdlRIExecuteAsync(graph, s));
	MUST(aclrtSynchronizeStream(s));
	MUST(aclmdlRIDestroy(graph));

	MUST(aclrtDestroyEvent(event));
	MUST(aclrtDestroyStream(s));
	MUST(aclrtBinaryUnLoad(binary));
	MUST(aclrtResetDevice(0));
	MUST(aclFinalize());
	printf("done\n");
	return 0;
}
