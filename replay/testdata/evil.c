/* A kernel library whose code writes the file "pwned" as soon as it is loaded. -DNO_KERNELS: it is no kernel library. */
#include <aclsim/kernel.h>
#include <stdio.h>

__attribute__((constructor)) static void loaded(void)
{
	FILE *f = fopen(PWNED, "w");
	if (f)
		fclose(f);
}

#ifndef NO_KERNELS
const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel_library none = {ACLSIM_KERNEL_ABI, 0, 0};
	return &none;
}
#endif
