/*
 * The first call of a process, at odd moments:
 *
 *   first load LIBRARY FLAGS  opens this file compiled as a library (-DLIBRARY), whose constructor calls under the dynamic loader's lock
 *   first fork                forks after calls without state
 *   first answers             compares the answers before and after the engine is open
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* as in aclsim/unknown.h */
int aclsim_unknown(const void *addr, size_t size, char *kernel, size_t n);
void aclsim_mark(const void *addr, size_t size, int reason);

static void use(void)
{
	void *d;
	char host[64] = "bytes", back[64] = "";

	OK(aclrtSetDevice(0));
	OK(aclrtMalloc(&d, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemcpy(d, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtMemcpy(back, 64, d, 64, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(!strcmp(back, host));
	OK(aclrtFree(d));
}

#ifdef LIBRARY

int done;

__attribute__((constructor)) static void begin(void)
{
	int32_t a, b, c;

	OK(aclrtGetVersion(&a, &b, &c));
	use();
	done = 1;
}

#else

struct answers {
	int32_t version[3], number;
	char soc[64], text[64];
	uint32_t devices;
	int64_t option;
	aclCANNPackageVersion package;
	aclError errors[7], has[ACL_PKG_NAME_DRIVER + 1], named[8];
};

/* Keeps the answers to all calls without state. */
static void ask(struct answers *a)
{
	static char *const names[] = {"CANN", "driver", "ops_math", "ops_nn", "ops_transformer", "ops_cv", "ops_legacy", "compiler"};

	memset(a, 0, sizeof *a);
	a->option = 7;
	OK(aclrtGetVersion(&a->version[0], &a->version[1], &a->version[2]));
	OK(aclrtGetDeviceCount(&a->devices));
	OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &a->option));
	OK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &a->package));
	OK(aclsysGetVersionStr("runtime", a->text));
	OK(aclsysGetVersionNum("driver", &a->number));
	strcpy(a->soc, aclrtGetSocName());
	for (int i = 0; i <= ACL_PKG_NAME_DRIVER; i++)
		a->has[i] = aclsysGetCANNVersion((aclCANNPackageName)i, &a->package);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		a->named[i] = aclsysGetVersionStr(names[i], a->text);
	a->errors[0] = aclrtGetVersion(NULL, NULL, NULL);
	a->errors[1] = aclrtGetDeviceCount(NULL);
	a->errors[2] = aclrtGetSysParamOpt(99, &a->option);
	a->errors[3] = aclsysGetCANNVersion(99, &a->package);
	a->errors[4] = aclsysGetVersionStr("hccl", a->text);
	a->errors[5] = aclsysGetVersionNum(NULL, &a->number);
	a->errors[6] = aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL);
}

int main(int argc, char **argv)
{
	struct answers before, after;
	int status = 0, *done;
	void *h;

	CHECK(argc > 1);
	alarm(600); /* a hang is a failure */
	if (!strcmp(argv[1], "load")) {
		CHECK(argc == 4);
		h = dlopen(argv[2], atoi(argv[3]));
		if (!h)
			fprintf(stderr, "%s\n", dlerror());
		CHECK(h && (done = dlsym(h, "done")));
		CHECK(*done == 1);
		return 0;
	}
	ask(&before);
	for (int i = 0; i < 7; i++)
		OK(before.named[i]);
	CHECK(before.named[7] == ACL_ERROR_INVALID_FILE);
	if (!strcmp(argv[1], "fork")) {
		static char marked[64];

		aclsim_mark(marked, sizeof marked, 7); /* as a replay does before its first call */
		for (int i = 0; i < 2; i++) {
			pid_t child = fork();

			CHECK(child >= 0);
			if (!child) {
				use();
				CHECK(aclsim_unknown(marked, sizeof marked, NULL, 0) == 0x100 + 7);
				exit(0);
			}
			CHECK(waitpid(child, &status, 0) == child && status == 0);
		}
		use();
		return 0;
	}
	if (before.devices)
		use();
	else
		CHECK(aclrtSetDevice(0) == ACL_ERROR_RT_INVALID_DEVICEID);
	ask(&after);
	CHECK(!memcmp(&before, &after, sizeof before));
	printf("%u devices\n", after.devices);
	return 0;
}

#endif
