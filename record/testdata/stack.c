/* stack: the same call from two places. */
#include "acl/acl.h"

__attribute__((noinline)) static int inner(void)
{
	int32_t device;
	int ret = aclrtGetDevice(&device);
	__asm__ volatile("" : "+r"(ret)); /* no tail call */
	return ret;
}

__attribute__((noinline)) int one_way(void);
int one_way(void)
{
	int ret = inner();
	__asm__ volatile("" : "+r"(ret));
	return ret;
}

__attribute__((noinline)) int other_way(void);
int other_way(void)
{
	int ret = inner();
	__asm__ volatile("" : "+r"(ret));
	return ret + 1;
}

int main(void)
{
	if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
		return 1;
	for (int i = 0; i < 100; i++)
		if (one_way() != 0 || other_way() != 1)
			return 1;
	return 0;
}
