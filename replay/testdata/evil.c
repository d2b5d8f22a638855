/* A kernel library whose code writes the file "pwned" as soon as it is loaded. -DNO_KERNELS: it is no kernel library. -DGREEDY: it takes 2 GiB. */
#include <aclsim/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void loaded(void)
{
	FILE *f = fopen(PWNED, "w");
	if (f)
		fclose(f);
#ifdef GREEDY
	for (int i = 0; i < 2048; i++) {
		char *p = malloc(1 << 20);
		if (p)
			memset(p, i | 1, 1 << 20);
	}
	for (;;)
		;
#endif
}

#ifndef NO_KERNELS
const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel_library none = {ACLSIM_KERNEL_ABI, 0, 0};
	return &none;
}
#endif
