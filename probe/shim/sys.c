/* What a C library would have for the shim, which calls none. */
#include "sys.h"

#include <linux/mman.h>

#include "shim.h"

#define CLOCK_MONO 1

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

uint64_t shim_monotonic(void)
{
	struct { int64_t sec, nsec; } ts = {0, 0};
	if (shim_filtered()) /* as the recorder last saw it */
		return __atomic_load_n(&shim_control->heartbeat, __ATOMIC_RELAXED);
	sys2(__NR_clock_gettime, CLOCK_MONO, &ts);
	return (uint64_t)ts.sec * 1000000000ULL + (uint64_t)ts.nsec;
}

bool shim_careful_copy(void *to, const void *from, uint64_t len)
{
	struct { void *base; uint64_t len; } local = {to, len}, remote = {(void *)(uintptr_t)from, len};
	return sys6(__NR_process_vm_readv, sys0(__NR_getpid), SYS_ARG(&local), 1, SYS_ARG(&remote), 1, 0) == (long)len;
}

bool sys_map_once(void *at, uint64_t len)
{
	typedef void *pointer __attribute__((may_alias));
	pointer *slot = at, none = NULL;
	if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != NULL)
		return true;
	long m = sys_map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	if (sys_failed(m))
		return false;
	if (!__atomic_compare_exchange_n(slot, &none, (void *)m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sys2(__NR_munmap, m, len);
	return true;
}
