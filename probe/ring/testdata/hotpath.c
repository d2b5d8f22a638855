/*
 * hotpath N: launches N kernels in a process that the kernel kills at any system call except exit. Two launches come before
 * that, since a thread's first call makes its ring. Launch I has I % 4 attributes, the first with value I; I % 75 32-bit
 * arguments, each I; and I % 3 placeholders.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl.h"

/* Strict mode would disable the counter as well. */
static int alone(void)
{
	struct sock_filter rule[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog filter = {sizeof rule / sizeof *rule, rule};
	/* Bypasses the C library, so that the shim does not notice. */
	long r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#if defined(__x86_64__)
	if (r == 0)
		__asm__ volatile("syscall" : "=a"(r) : "a"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(0), "d"(&filter) : "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = SYS_seccomp;
	register long x0 __asm__("x0") = SECCOMP_SET_MODE_FILTER;
	register long x1 __asm__("x1") = 0;
	register const void *x2 __asm__("x2") = &filter;
	if (r == 0)
		__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	r |= x0 != SECCOMP_SET_MODE_FILTER && x0 != 0;
#endif
	return r != 0;
}

int main(int argc, char **argv)
{
	uint32_t args[75];
	aclrtLaunchKernelAttr attrs[4] = {{0}};
	aclrtPlaceHolderInfo holders[3];
	long n = argc > 1 ? atol(argv[1]) : 1;
	for (long i = 0; i < 2 + n; i++) {
		if (i == 2 && alone())
			_exit(3);
		aclrtLaunchKernelCfg cfg = {attrs, (size_t)i % 4};
		attrs[0].value.localMemorySize = (uint32_t)i;
		for (long k = 0; k < i % 75; k++)
			args[k] = (uint32_t)i;
		for (long k = 0; k < i % 3; k++)
			holders[k] = (aclrtPlaceHolderInfo){(uint32_t)i, (uint32_t)k};
		if (aclrtLaunchKernelWithHostArgs((aclrtFuncHandle)0x1000, 8, (aclrtStream)0x2000, i % 4 ? &cfg : NULL, args, (size_t)(i % 75) * 4,
						  i % 3 ? holders : NULL, (size_t)(i % 3)) != ACL_SUCCESS)
			_exit(4);
	}
	syscall(SYS_exit_group, 0); /* the shim's _exit asks which process it is */
	return 5;
}
