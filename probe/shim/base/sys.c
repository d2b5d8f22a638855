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

bool shim_careful_rows(void *to, const void *from, uint64_t pitch, uint64_t width, uint64_t rows)
{
	enum { AT_ONCE = 32 };
	struct { const void *base; uint64_t len; } remote[AT_ONCE];
	uint8_t *t = to;
	const uint8_t *f = from;
	/* The kernel knows: a child that shares the memory shares every variable that could hold the pid. */
	long pid = sys0(__NR_getpid);
	for (uint64_t n; rows > 0; rows -= n, t += n * width, f += n * pitch) {
		n = rows < AT_ONCE ? rows : AT_ONCE;
		struct { void *base; uint64_t len; } local = {t, n * width};
		for (uint64_t i = 0; i < n; i++) {
			remote[i].base = f + i * pitch;
			remote[i].len = width;
		}
		if (sys6(__NR_process_vm_readv, pid, SYS_ARG(&local), 1, SYS_ARG(remote), (long)n, 0) != (long)(n * width))
			return false;
	}
	return true;
}

bool shim_careful_copy(void *to, const void *from, uint64_t len) { return shim_careful_rows(to, from, 0, len, 1); }

/* Has the kernel map all pages of some memory that can be read. An emulator may accept any advice: it would accept that for address 0 too. */
static bool populate(uint64_t from, uint64_t end)
{
	static uint32_t known; /* atomic; 0 not yet, 1 no, 2 yes */
	uint32_t k = __atomic_load_n(&known, __ATOMIC_RELAXED);
	if (k == 0) {
		k = sys3(__NR_madvise, 0, SHIM_PAGE, MADV_POPULATE_READ) == -ENOMEM ? 2 : 1;
		__atomic_store_n(&known, k, __ATOMIC_RELAXED);
	}
	return k == 2 && sys3(__NR_madvise, from, end - from, MADV_POPULATE_READ) == 0;
}

bool shim_readable(const void *from, uint64_t len)
{
	enum { PAGE = 4096, AT_ONCE = 64 };
	uint64_t at = (uint64_t)from & -(uint64_t)PAGE, whole = (uint64_t)from & -(uint64_t)SHIM_PAGE, end = (uint64_t)from + len;
	if (populate(whole, end))
		return true;
	/* Before Linux 5.14, and for mappings that the kernel doesn't populate: reads a byte of each page. */
	uint8_t byte[AT_ONCE];
	for (uint64_t n; at < end; at += n * PAGE) {
		n = (end - at + PAGE - 1) / PAGE < AT_ONCE ? (end - at + PAGE - 1) / PAGE : AT_ONCE;
		if (!shim_careful_rows(byte, (const void *)at, PAGE, 1, n))
			return false;
	}
	return true;
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
