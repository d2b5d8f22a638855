/*
 * A program that opens a library with operators after its first call. Such a library (LIBRARY) has functions whose names look like the runtime's, and so
 * has another library, whose functions are unknown.
 *
 *   operators LIBRARY OTHER MILLISECONDS
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(LIBRARY)
int aclCreateThing(void) { return 1; }
int aclDestroyThing(void) { return 2; }
#elif defined(OTHER)
int aclNewerThing(void) { return 4; }
#else
#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "hccl_gen.h"

int main(int argc, char **argv)
{
	void *p, *library, *hccl;
	int n;
	char value[64];
	HcclConfigValue deterministic = {.value = 1};

	if (argc < 4 || aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&p, 64, 0) || aclrtMemset(p, 64, 0, 64) || aclrtMemcpy(&n, sizeof n, p, sizeof n, ACL_MEMCPY_DEVICE_TO_HOST))
		return 1;
	if (aclGetCompileoptSize(ACL_OP_JIT_COMPILE) > sizeof value || aclGetCompileopt(ACL_OP_JIT_COMPILE, value, sizeof value))
		return 2;
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	hccl = dlopen("libhccl.so", RTLD_NOW);
	if (!library || !dlsym(library, "aclCreateThing") || !dlsym(RTLD_DEFAULT, "aclDestroyThing") || !dlsym(dlopen(argv[2], RTLD_NOW), "aclNewerThing") || !hccl)
		return 3;
	HcclResult (*set)(HcclConfig, HcclConfigValue) = (HcclResult (*)(HcclConfig, HcclConfigValue))dlsym(hccl, "HcclSetConfig");
	if (!set || set(HCCL_DETERMINISTIC, deterministic))
		return 4;
	usleep(1000 * atoi(argv[3]));
	return aclrtFree(p) || aclrtResetDevice(0) || aclFinalize();
}
#endif
