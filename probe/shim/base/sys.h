/* Raw system calls, which return -errno on failure, and C library functions that the compiler may call. */
#ifndef ACLTRACE_SHIM_SYS_H
#define ACLTRACE_SHIM_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <asm/unistd.h>

#include "base/state.h"

#ifndef MADV_POPULATE_READ /* headers before Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static inline long sys_raw(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#endif
}

/* As sys_raw, but returns EPERM without a call once the program filters its system calls: the filter might kill the process. */
long sys6(long n, long a, long b, long c, long d, long e, long f) HIDDEN;

/*
 * Whether the program filters its system calls (seccomp). Known from session/filter.c, which watches the functions that set a filter, or from
 * the recorder, which looks at the process now and then. Asking the kernel would be a system call too.
 */
bool shim_filtered(void) HIDDEN;
void shim_set_filtered(bool on) HIDDEN;

#define SYS_ARG(x) ((long)(x))
#define sys0(n) sys6(n, 0, 0, 0, 0, 0, 0)
#define sys1(n, a) sys6(n, SYS_ARG(a), 0, 0, 0, 0, 0)
#define sys2(n, a, b) sys6(n, SYS_ARG(a), SYS_ARG(b), 0, 0, 0, 0)
#define sys3(n, a, b, c) sys6(n, SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), 0, 0, 0)
#define sys4(n, a, b, c, d) sys6(n, SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), 0, 0)

HIDDEN void *memcpy(void *restrict d, const void *restrict s, size_t n);
HIDDEN void *memset(void *d, int c, size_t n);

static inline bool sys_failed(long ret) { return ret < 0 && ret > -4096; }

static inline long sys_map(uint64_t len, long prot, long flags, long fd, uint64_t off, void *at)
{
	return sys6(__NR_mmap, SYS_ARG(at), SYS_ARG(len), prot, flags, fd, SYS_ARG(off));
}

/* Opens a file by its path. */
long sys_open(const char *path, long flags);
/* Reads the first bytes of an open file and closes it. Returns their number, or fd if that is an error. */
long sys_read_once(long fd, void *to, uint64_t size);
/* Whether memory is mapped at an address, for any page size. */
bool shim_mapped(uint64_t at) HIDDEN;

#endif
