/*
 * Copies to the device and back, and exits with a shell's exit code, 3. With "bad" it reads freed memory, which AddressSanitizer and
 * ThreadSanitizer report.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "acl/acl.h"

int main(int argc, char **argv)
{
	char *volatile p = malloc(16), from[64] = "sanitized", to[64];
	void *device;
	if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&device, sizeof from, ACL_MEM_MALLOC_HUGE_FIRST) ||
	    aclrtMemcpy(device, sizeof from, from, sizeof from, ACL_MEMCPY_HOST_TO_DEVICE) ||
	    aclrtMemcpy(to, sizeof to, device, sizeof to, ACL_MEMCPY_DEVICE_TO_HOST))
		return 9;
	free(p);
	if (argc > 1 && !strcmp(argv[1], "bad"))
		return p[3] & 1;
	puts(to);
	fflush(stdout);
	int status = system("bash -c 'exit 3'"); /* with a sanitizer's runtime loaded into it, bash reports its leaks */
	return WIFEXITED(status) ? WEXITSTATUS(status) : 8;
}
