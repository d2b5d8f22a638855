//go:build cgo

/*
 * Takes the addresses of the devices before the Go runtime of this library starts: its heap begins at a random place, and
 * that may lie among them. Priority 101 comes before the initializer of Go, which has none.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* The same as in package sim; where they differ, the device can't be opened. */
#define VA_BASE 0x124000000000
#define VA_STRIDE (256ull << 30)
#define MAX_DEVICES 16

uint64_t aclsim_reserved_base, aclsim_reserved_size;

static uint64_t number(const char *name, int radix, uint64_t otherwise)
{
	const char *s = getenv(name);
	char *end;
	uint64_t n;

	if (!s || !*s)
		return otherwise;
	n = strtoull(s, &end, radix);
	return *end ? otherwise : n;
}

__attribute__((constructor(101))) static void reserve(void)
{
	uint64_t base = number("ACLSIM_VA_BASE", 16, VA_BASE), n = number("ACLSIM_DEVICES", 10, 1);
	void *p;

	if (!base || base % (2 << 20))
		base = VA_BASE;
	if (!n || n > MAX_DEVICES)
		n = 1;
	p = mmap((void *)(uintptr_t)base, n * VA_STRIDE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		return; /* the engine tries again and says why */
	if ((uintptr_t)p != base) {
		munmap(p, n * VA_STRIDE);
		return;
	}
	aclsim_reserved_base = base;
	aclsim_reserved_size = n * VA_STRIDE;
}
