/* Clears LD_PRELOAD and starts itself in a child, and then as itself. Each of the three allocates device memory and says whether it has a preload. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

int main(int argc, char **argv)
{
	void *p = NULL;
	int status = -1;

	if (aclInit(NULL) || aclrtSetDevice(0))
		return 1;
	printf("%s %s, %d, preload %d\n", argc > 2 ? "first" : argv[1], aclrtGetSocName(), aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST), getenv("LD_PRELOAD") != NULL);
	fflush(stdout);
	if (aclrtFree(p) || aclrtResetDevice(0) || aclFinalize())
		return 1;
	if (argc < 3)
		return 0;
	unsetenv("LD_PRELOAD");
	pid_t child = fork();
	if (child == 0) {
		execl(argv[0], argv[0], argv[1], (char *)NULL);
		_exit(1);
	}
	if (waitpid(child, &status, 0) != child || status)
		return 1;
	execl(argv[0], argv[0], argv[2], (char *)NULL);
	return 1;
}
