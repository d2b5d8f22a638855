/* hang: launches a kernel that does not end, prints its PID, and waits for the kernel. */
#include <stdio.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); return 1; } } while (0)

int main(int argc, char **argv)
{
	aclrtStream stream;
	aclrtBinHandle binary;
	aclrtFuncHandle kernel;
	uint64_t args[1] = {0};
	if (argc != 2)
		return 2;
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&stream));
	MUST(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	MUST(aclrtBinaryGetFunction(binary, "hang", &kernel));
	MUST(aclrtLaunchKernelWithHostArgs(kernel, 1, stream, NULL, args, sizeof args, NULL, 0));
	printf("waiting %d\n", getpid());
	fflush(stdout);
	MUST(aclrtSynchronizeStream(stream));
	return 0;
}
