//go:build cgo

/*
 * Takes the addresses of the devices before the Go runtime of this library starts: its heap begins at a random place, and
 * that may lie among them. Priority 101 comes before the initializer of Go, which has none.
 *
 * If ACLSIM_VA_BASE is not set, the devices get the first window that is free. ThreadSanitizer's shadow memory covers the first one;
 * the second is among the addresses that it leaves to the program.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* VA_BASE and VA_STRIDE are the same as in package sim; where they differ, the device can't be opened. */
#define VA_BASE 0x124000000000
#define VA_STRIDE (256ull << 30)
#define MAX_DEVICES 16
#ifdef __x86_64__
#define SANITIZED_BASE 0x550000000000
#else
#define SANITIZED_BASE VA_BASE
#endif

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

/* A sanitizer's mmap ends the program if the addresses are not the program's: the kernel is called past it. */
static bool take(uint64_t base, uint64_t size)
{
	uint64_t at = (uint64_t)syscall(SYS_mmap, base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (at == (uint64_t)-1)
		return false;
	if (at != base) { /* a kernel before 4.17 takes the address for a hint */
		syscall(SYS_munmap, at, size);
		return false;
	}
	aclsim_reserved_base = base;
	aclsim_reserved_size = size;
	return true;
}

__attribute__((constructor(101))) static void reserve(void)
{
	uint64_t base = number("ACLSIM_VA_BASE", 16, 0), n = number("ACLSIM_DEVICES", 10, 1);

	if (!n || n > MAX_DEVICES)
		n = 1;
	/* If no window is free, the engine tries again and says why. */
	if (base && base % (2 << 20) == 0)
		take(base, n * VA_STRIDE);
	else if (!take(VA_BASE, n * VA_STRIDE))
		take(SANITIZED_BASE, n * VA_STRIDE);
}
