/* early_free BINARY STEPS SEED before|after LAUNCHES: steps of so many launches, 1 to 8, on two streams over buffers that come and go. In one step, chosen by the seed, a buffer is freed while a
   launch with it waits behind a slow host function (or, with "before", just before the launch). Prints the number of the launch, the buffer's address and the number of all launches; ends with 7 when the device has failed. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <time.h>

#include "../../../replay/testdata/program.h"

enum { BUFFERS = 12, COUNT = 256, SIZE = COUNT * 4 };

struct args {
	const float *a, *b;
	float *out;
	uint64_t count;
};

static uint64_t state;

static uint32_t chance(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static void slow(void *unused)
{
	(void)unused;
	nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
}

static void *make(void)
{
	static const float zero[COUNT];
	void *p;
	CHECK(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(p, SIZE, zero, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	return p;
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	int steps = atoi(argv[2]), before = strcmp(argv[4], "before") == 0;
	uint32_t each = (uint32_t)atoi(argv[5]);
	state = strtoull(argv[3], NULL, 10) * 2654435761u + 1;
	int bad = steps / 2 + (int)chance((uint32_t)steps / 2);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s[2];
	aclrtBinHandle binary;
	aclrtFuncHandle add, mul;
	CHECK(aclrtCreateStream(&s[0]));
	CHECK(aclrtCreateStream(&s[1]));
	CHECK(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	CHECK(aclrtBinaryGetFunction(binary, "add", &add));
	CHECK(aclrtBinaryGetFunction(binary, "mul", &mul));
	void *p[BUFFERS];
	for (int i = 0; i < BUFFERS; i++)
		p[i] = make();
	int launches = 0;
	for (int step = 0; step < steps; step++) {
		uint32_t at = chance(each);
		int culprit = (int)chance(BUFFERS);
		void *gone = p[culprit];
		if (step == bad) {
			CHECK(aclrtLaunchHostFunc(s[0], slow, NULL));
			CHECK(aclrtLaunchHostFunc(s[1], slow, NULL));
			if (before)
				CHECK(aclrtFree(gone));
		}
		for (uint32_t k = 0; k < each; k++) {
			int x[3];
			for (int i = 0; i < 3; i++)
				do
					x[i] = (int)chance(BUFFERS);
				while (step == bad && x[i] == culprit);
			if (step == bad && k == at)
				x[chance(3)] = culprit;
			struct args a = {p[x[0]], p[x[1]], p[x[2]], COUNT};
			CHECK(aclrtLaunchKernelWithHostArgs(chance(2) ? add : mul, 1 + chance(4), s[chance(2)], NULL, &a, sizeof a, NULL, 0));
			launches++;
			if (step == bad && k == at) {
				printf("%d %" PRIu64 "\n", launches, (uint64_t)(uintptr_t)gone);
				if (!before)
					CHECK(aclrtFree(gone));
			}
		}
		int failed = aclrtSynchronizeStream(s[0]);
		int other = aclrtSynchronizeStream(s[1]);
		if (failed || other) {
			const char *text = aclGetRecentErrMsg();
			fprintf(stderr, "step %d: %d %d: %s\n", step, failed, other, text ? text : "no text");
			printf("%d\n", launches);
			return step == bad ? 7 : 1;
		}
		if (step == bad)
			return 1;
		if (chance(8) >= each)
			continue;
		int renew = (int)chance(BUFFERS);
		CHECK(aclrtFree(p[renew]));
		p[renew] = make();
	}
	return 1;
}
