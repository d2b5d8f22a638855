#include "base/sys.h"

#include <asm/fcntl.h>
#include <linux/mman.h>

#include "base/copy.h"

#define EPERM 1
#define ENOMEM 12
#define EINVAL 22

static uint32_t filtered; /* atomic; inherited by children, as the filter is */

bool shim_filtered(void)
{
	if (__atomic_load_n(&filtered, __ATOMIC_SEQ_CST))
		return true;
	const struct process *p = shim_own_process();
	if (p == NULL || !__atomic_load_n(&p->filtered, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&filtered, 1, __ATOMIC_SEQ_CST);
	return true;
}

void shim_set_filtered(bool on) { __atomic_store_n(&filtered, on, __ATOMIC_SEQ_CST); }

long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	long r = -EPERM;
	/* Either this call sees the filter, or the thread that sets the filter sees this call and waits. */
	__atomic_add_fetch(&shim_p->inside, 1, __ATOMIC_SEQ_CST);
	if (!shim_filtered())
		r = sys_raw(n, a, b, c, d, e, f);
	__atomic_sub_fetch(&shim_p->inside, 1, __ATOMIC_RELEASE);
	return r;
}

void *memcpy(void *restrict d, const void *restrict s, size_t n)
{
	uint8_t *dp = d;
	const uint8_t *sp = s;
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dp), "+S"(sp), "+c"(n) : : "memory");
#else
	for (; n >= 32; n -= 32, dp += 32, sp += 32) {
		typedef uint64_t v __attribute__((may_alias, aligned(1)));
		v a = ((const v *)sp)[0], b = ((const v *)sp)[1], c = ((const v *)sp)[2], e = ((const v *)sp)[3];
		((v *)dp)[0] = a, ((v *)dp)[1] = b, ((v *)dp)[2] = c, ((v *)dp)[3] = e;
	}
	while (n--)
		*dp++ = *sp++;
#endif
	return d;
}

void *memset(void *d, int c, size_t n)
{
	volatile uint8_t *p = d;
	while (n--)
		*p++ = (uint8_t)c;
	return d;
}

bool shim_careful_copy(void *to, const void *from, uint64_t len)
{
	struct { void *base; uint64_t len; } local = {to, len}, remote = {(void *)(uintptr_t)from, len};
	return sys6(__NR_process_vm_readv, sys0(__NR_getpid), SYS_ARG(&local), 1, SYS_ARG(&remote), 1, 0) == (long)len;
}

long sys_open(const char *path, long flags) { return sys4(__NR_openat, -100, path, flags | O_CLOEXEC, 0); }

long sys_read_once(long fd, void *to, uint64_t size)
{
	uint64_t got = 0;
	if (fd < 0)
		return fd;
	for (long n; got < size && (n = sys3(__NR_read, fd, (uint8_t *)to + got, size - got)) > 0;)
		got += (uint64_t)n;
	sys1(__NR_close, fd);
	return (long)got;
}

bool shim_mapped(uint64_t at)
{
	uint8_t in;
	for (uint64_t page = 4096; page <= 65536; page *= 4) {
		long e = sys3(__NR_mincore, at & ~(page - 1), 1, &in);
		if (e != -EINVAL)
			return e != -ENOMEM;
	}
	return true;
}
