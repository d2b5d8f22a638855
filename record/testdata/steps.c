/*
 * steps BINARY PROCESSES STEPS [RANGES]: each process launches three kernels to warm up, and three in each step, with one block more than
 * the step's number. With RANGES a step is a numbered range with that name, contains another range and waits twice. With "-" for RANGES a
 * step begins with a copy from the host and waits for nothing. Otherwise it waits once. With -DLIBRARY: the range functions.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

uint64_t mstxRangeStartA(const char *message, aclrtStream stream);
void mstxRangeEnd(uint64_t id);

#ifdef LIBRARY

uint64_t mstxRangeStartA(const char *message, aclrtStream stream)
{
	static uint64_t last;
	(void)stream;
	return message == NULL ? 0 : ++last;
}

void mstxRangeEnd(uint64_t id) { (void)id; }

#else

struct args {
	const float *a, *b;
	float *out;
	uint64_t count;
};

static uint64_t begin(const char *name, int i)
{
	char message[64];
	snprintf(message, sizeof message, "%s %d", name, i);
	return mstxRangeStartA(message, NULL);
}

static int work(const char *binary, int steps, const char *name)
{
	aclrtStream s;
	aclrtBinHandle bin;
	aclrtFuncHandle add;
	void *p;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtBinaryLoadFromFile(binary, NULL, &bin));
	CHECK(aclrtBinaryGetFunction(bin, "add", &add));
	CHECK(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	struct args a = {p, p, p, 16};
	char input[64] = {0};
	int copies = name != NULL && strcmp(name, "-") == 0;
	if (copies)
		name = NULL;
	for (int i = -1; i < steps; i++) {
		uint64_t step = i < 0 || name == NULL ? 0 : begin(name, i), part = 0;
		if (copies && i >= 0)
			CHECK(aclrtMemcpy(p, 4096, input, sizeof input, ACL_MEMCPY_HOST_TO_DEVICE));
		for (int k = 0; k < 3; k++) {
			if (step && k == 1)
				part = begin("forward", k);
			CHECK(aclrtLaunchKernelWithHostArgs(add, 1 + (uint32_t)(i < 0 ? 0 : i), s, NULL, &a, sizeof a, NULL, 0));
			if (step && k == 1) {
				CHECK(aclrtSynchronizeStream(s));
				mstxRangeEnd(part);
			}
		}
		if (i < 0 || copies)
			continue;
		CHECK(aclrtSynchronizeStream(s));
		if (step)
			mstxRangeEnd(step);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int processes = atoi(argv[2]), bad = 0;
	for (int i = 0; i < processes; i++) {
		if (fork() == 0)
			return work(argv[1], atoi(argv[3]), argc > 4 ? argv[4] : NULL);
	}
	for (int i = 0, status; i < processes; i++)
		bad |= wait(&status) < 0 || status != 0;
	return bad;
}

#endif
