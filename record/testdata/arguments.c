/* arguments: a launch whose arguments' size exceeds the mapped memory by far. The runtime refuses it because of its kernel. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"

int main(void)
{
	long page = sysconf(_SC_PAGESIZE);
	char *args = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (args == MAP_FAILED || munmap(args + page, (size_t)page) != 0 || aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
		return 1;
	if (aclrtLaunchKernelWithHostArgs((aclrtFuncHandle)0x10, 1, NULL, NULL, args, 1 << 20, NULL, 0) == ACL_SUCCESS)
		return 1;
	puts("refused");
	return 0;
}
