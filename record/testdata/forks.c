/* forks: a child that uses the runtime before its parent does, and one that is forked later and may not use it. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

static int use(void)
{
	int32_t device = -1;
	return aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS || aclrtGetDevice(&device) != ACL_SUCCESS || device != 0;
}

int main(void)
{
	int status;
	pid_t child = fork();
	if (child == 0)
		_exit(use());
	if (waitpid(child, &status, 0) != child || status != 0)
		return 1;
	if (use())
		return 2;
	child = fork();
	if (child == 0) {
		int32_t device;
		_exit(aclrtGetDevice(&device) == ACL_SUCCESS);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 3;
	return aclFinalize() != ACL_SUCCESS;
}
