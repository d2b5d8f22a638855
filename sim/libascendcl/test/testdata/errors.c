/* Unsimulated functions, and an engine that can't be opened. Prints the address of the first allocation. */
#include "test.h"

int main(int argc, char **argv)
{
	void *d;

	if (argc > 1 && !strcmp(argv[1], "no-engine")) {
		WANT(ACL_ERROR_INTERNAL_ERROR, aclInit(NULL));
		WANT(ACL_ERROR_INTERNAL_ERROR, aclrtSetDevice(0));
		CHECK(!aclrtGetSocName());
		return 0;
	}
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlInitDump());
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlInitDump());
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtMalloc(&d, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	printf("%p\n", d);
	OK(aclrtMalloc(&d, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	printf("%p\n", d);
	return 0;
}
