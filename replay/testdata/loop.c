/* A loop of launches with waits and checked copies to the host: loop KERNELS LAUNCHES. */
#include "program.h"

enum { N = 64, WAIT = 16, SHOW = 10000 };

int main(int argc, char **argv)
{
	EXPECT(argc == 3);
	long launches = atol(argv[2]);
	uint32_t *shown, model[N] = {0};
	aclrtStream s;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtMallocHost((void **)&shown, sizeof model));
	CHECK(aclrtCreateStream(&s));
	uint32_t *x = device_memory(sizeof model);
	CHECK(aclrtMemset(x, sizeof model, 0, sizeof model));
	aclrtFuncHandle f = kernel(argv[1], "add");
	for (long k = 0; k < launches; k++) {
		struct add_args a = {x, N, (uint32_t)k, 0};
		launch(f, 1, s, &a, sizeof a);
		for (uint32_t i = 0; i < N; i++)
			model[i] += a.by * (i + 1);
		if (k % WAIT == WAIT - 1)
			CHECK(aclrtSynchronizeStream(s));
		if (k % SHOW == SHOW - 1) {
			CHECK(aclrtMemcpy(shown, sizeof model, x, sizeof model, ACL_MEMCPY_DEVICE_TO_HOST));
			EXPECT(memcmp(shown, model, sizeof model) == 0);
		}
	}
	return 0;
}
