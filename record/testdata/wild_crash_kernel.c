/* A kernel that crashes its process. */
#include "aclsim/kernel.h"

void hang(const aclsim_launch *launch, uint32_t block);
void hang(const aclsim_launch *launch, uint32_t block)
{
	(void)launch, (void)block;
	*(volatile int *)16 = 1;
}

static uint32_t extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	(void)launch, (void)out, (void)max;
	return 0;
}

const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_arg args[] = {{"unused", ACLSIM_SCALAR, 8}};
	static const aclsim_kernel kernels[] = {{.name = "hang", .args = args, .num_args = 1, .extents = extents, .run = hang}};
	static const aclsim_kernel_library library = {ACLSIM_KERNEL_ABI, 1, kernels};
	return &library;
}
