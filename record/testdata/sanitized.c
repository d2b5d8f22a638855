/*
 * Calls the runtime once, has a shell do so too if it is given a program, and ends with code 3. With "bad" it reads freed memory, which
 * AddressSanitizer and ThreadSanitizer report.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "acl/acl.h"

int main(int argc, char **argv)
{
	char *volatile p = malloc(16);
	if (aclInit(NULL) != ACL_SUCCESS)
		return 9;
	free(p);
	if (argc > 1 && !strcmp(argv[1], "bad"))
		return p[3] & 1;
	puts("sanitized");
	fflush(stdout);
	int status = system("bash -c 'exit 3'"); /* with a sanitizer's runtime loaded into it, bash reports its leaks */
	return WIFEXITED(status) ? WEXITSTATUS(status) : 8;
}
