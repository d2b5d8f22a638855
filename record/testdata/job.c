/* A job whose result and time are known: job RESULT ROUNDS WORK. A round copies to the device and back and computes for WORK steps on the host; the sum over all
   that came back goes into the file RESULT, at whose end the job is done. With a fourth argument it ends as that says after half of the rounds: crash, exit. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"

#define CHECK(x)                                                               \
	do {                                                                   \
		int e = (x);                                                   \
		if (e) {                                                       \
			fprintf(stderr, "%s: %d at line %d\n", #x, e, __LINE__); \
			exit(1);                                               \
		}                                                              \
	} while (0)

int main(int argc, char **argv)
{
	enum { WORDS = 512 };
	int rounds = atoi(argv[2]), work = atoi(argv[3]);
	uint64_t in[WORDS], out[WORDS], sum = 0, state = 1;
	void *dev;
	aclrtStream stream;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtMalloc(&dev, sizeof in, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int r = 0; r < rounds; r++) {
		if (argc > 4 && r == rounds / 2) {
			if (strcmp(argv[4], "exit") == 0)
				exit(7);
			volatile int *nowhere = NULL;
			*nowhere = 1;
		}
		for (int i = 0; i < WORDS; i++)
			in[i] = state = state * 6364136223846793005u + 1442695040888963407u;
		CHECK(aclrtMemcpy(dev, sizeof in, in, sizeof in, ACL_MEMCPY_HOST_TO_DEVICE));
		CHECK(aclrtMemsetAsync(dev, sizeof in, r & 255, 64, stream));
		CHECK(aclrtSynchronizeStream(stream));
		CHECK(aclrtMemcpy(out, sizeof out, dev, sizeof out, ACL_MEMCPY_DEVICE_TO_HOST));
		for (int i = 0; i < WORDS; i++)
			sum = sum * 31 + out[i];
		for (int i = 0; i < work; i++)
			state = state * 6364136223846793005u + 1442695040888963407u;
		if (work == 0) {
			struct timespec t = {0, 1000000};
			nanosleep(&t, NULL);
		}
	}
	CHECK(aclrtFree(dev));
	CHECK(aclrtDestroyStream(stream));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	FILE *f = fopen(argv[1], "w");
	if (f == NULL)
		return 2;
	fprintf(f, "%016llx done\n", (unsigned long long)sum);
	return fclose(f) != 0;
}
