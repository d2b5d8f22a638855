/* fork before: parent and child both use the runtime. fork after: the child gets an error from every call. */
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static void use(int device)
{
	void *d;
	char host[64] = "bytes", back[64] = "";

	OK(aclInit(NULL));
	OK(aclrtSetDevice(device));
	OK(aclrtMalloc(&d, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemcpyAsync(d, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
	OK(aclrtSynchronizeDevice());
	OK(aclrtMemcpy(back, 64, d, 64, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(!strcmp(back, "bytes"));
	OK(aclrtFree(d));
}

static void in_child(void)
{
	void *d = NULL;
	uint32_t n;

	alarm(10);
	WANT(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtMalloc(&d, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	WANT(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtSynchronizeDevice());
	WANT(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtGetDeviceCount(&n));
	WANT(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclFinalize());
	CHECK(!aclGetRecentErrMsg());
	CHECK(!aclrtGetSocName());
	CHECK(!aclrtCreateBinary(&n, 4));
	CHECK(!aclDataTypeSize(ACL_FLOAT));
	exit(0);
}

int main(int argc, char **argv)
{
	int status, after = argc == 2 && !strcmp(argv[1], "after");
	pid_t child;

	if (after)
		use(0);
	for (int i = 0; i < 4; i++) {
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			if (after)
				in_child();
			alarm(20);
			use(0);
			OK(aclrtResetDevice(0));
			exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(status == 0);
	}
	if (!after)
		use(0);
	OK(aclrtSynchronizeDevice());
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
