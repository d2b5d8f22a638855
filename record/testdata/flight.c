/* Captures a graph and creates a buffer and an event first, makes many launches, and runs the graph last. With a second argument, a third of the launches is followed by
   a failed synchronization (the stream is destroyed), after which the program goes on. With three arguments, it repeats the launches three times, and waits for the
   files of the second and third argument before the second and the third time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

struct args {
	const float *a, *b;
	float *out;
	uint64_t count;
};

int main(int argc, char **argv)
{
	int launches = atoi(argv[2]);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s, gone;
	aclrtEvent event;
	aclrtBinHandle binary;
	aclrtFuncHandle add;
	aclmdlRI graph;
	void *p;
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtCreateStream(&gone));
	CHECK(aclrtCreateEvent(&event));
	CHECK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	CHECK(aclrtBinaryGetFunction(binary, "add", &add));
	CHECK(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	struct args a = {p, p, p, 16};
	CHECK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < 3; i++)
		CHECK(aclrtLaunchKernelWithHostArgs(add, 1, s, NULL, &a, sizeof a, NULL, 0));
	CHECK(aclmdlRICaptureEnd(s, &graph));
	CHECK(aclrtDestroyStream(gone));
	for (int i = 0; i < (argc > 4 ? 3 : 1) * launches; i++) {
		for (int k = 1; k < 3; k++)
			while (argc > 4 && i == k * launches && access(argv[2 + k], F_OK) != 0)
				usleep(1000);
		void *q;
		CHECK(aclrtMalloc(&q, 512, ACL_MEM_MALLOC_HUGE_FIRST));
		CHECK(aclrtLaunchKernelWithHostArgs(add, 1 + (uint32_t)i % 7, s, NULL, &a, sizeof a, NULL, 0));
		if (i % 50 == 0)
			CHECK(aclrtSynchronizeStream(s));
		CHECK(aclrtFree(q));
		if (argc == 4 && i == launches / 3 && aclrtSynchronizeStream(gone) == 0)
			return 1;
	}
	CHECK(aclmdlRIExecuteAsync(graph, s));
	CHECK(aclrtRecordEvent(event, s));
	CHECK(aclrtSynchronizeEvent(event));
	return 0;
}
