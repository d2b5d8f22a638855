/* Clears LD_PRELOAD, starts itself in a child, and then as itself. Each of the three calls the runtime and prints the SoC. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "first";
	int status = -1;

	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	printf("%s %s\n", name, aclrtGetSocName());
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	fflush(stdout);
	if (argc > 1)
		return 0;
	unsetenv("LD_PRELOAD");
	pid_t child = fork();
	if (child == 0) {
		execl(argv[0], argv[0], "child", (char *)NULL);
		_exit(2);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 3;
	execl(argv[0], argv[0], "itself", (char *)NULL);
	return 4;
}
