/*
 * Reads memory that may be unmapped, and counts the system calls. Prints a line for each expectation that fails.
 *
 *	careful new|old|lies
 *
 * old: as on a kernel without MADV_POPULATE_READ; lies: as in an emulator that accepts any advice. Ends with 77 if process_vm_readv is not allowed.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/sys.h"

static long calls;
static bool old, lies;

static long counted(long n, long a, long b, long c, long d, long e, long f)
{
	calls++;
	if ((old || lies) && n == __NR_madvise)
		return old ? -22 : 0;
	return sys_raw(n, a, b, c, d, e, f);
}

#define sys_raw counted
#include "../../shim/base/sys.c"

enum { PAGE = 4096, PAGES = 600, HOLE = 300, GUARD = 301, BEYOND = 302 };
static int failures;

#define EXPECT(what) do { if (!(what)) { printf("line %d: " #what "\n", __LINE__); failures++; } } while (0)

static uint8_t *memory(void)
{
	FILE *empty = tmpfile();
	uint8_t *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || empty == NULL)
		exit(3);
	for (int i = 0; i < PAGES * PAGE; i++)
		p[i] = (uint8_t)(i * 131 + (i >> 8) * 7);
	munmap(p + HOLE * PAGE, PAGE);
	mprotect(p + GUARD * PAGE, PAGE, PROT_NONE);
	/* Beyond the end of the file. */
	if (mmap(p + BEYOND * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fileno(empty), 0) == MAP_FAILED)
		exit(3);
	return p;
}

int main(int argc, char **argv)
{
	static uint8_t to[HOLE * PAGE];
	uint8_t *p = memory();
	uint64_t plain[2], careful[2];
	if (!shim_careful_copy(to, p, 1))
		return 77; /* not allowed here */
	lies = argc > 1 && strcmp(argv[1], "lies") == 0;
	old = (argc > 1 && strcmp(argv[1], "old") == 0) || madvise(p, PAGE, MADV_POPULATE_READ) != 0;

	for (int at = HOLE; at <= BEYOND; at++) {
		EXPECT(!shim_readable(p + at * PAGE, 1));
		EXPECT(!shim_readable(p + at * PAGE + PAGE - 1, 1));
		EXPECT(!shim_careful_copy(to, p + at * PAGE + 7, 8));
	}
	EXPECT(shim_readable(p, HOLE * PAGE));
	EXPECT(shim_readable(p + HOLE * PAGE - 1, 1));
	EXPECT(!shim_readable(p + HOLE * PAGE - 1, 2));
	EXPECT(!shim_readable(p + 100, HOLE * PAGE - 99));
	EXPECT(shim_readable(p + (BEYOND + 1) * PAGE, 5));
	EXPECT(!shim_readable(p + (BEYOND + 1) * PAGE - 1, 5));
	EXPECT(!shim_hash(p, (HOLE + 1) * PAGE, true, careful));
	EXPECT(!shim_hash(p, HOLE * PAGE + 1, true, careful));

	/* One MiB is read in a few large pieces. A copy of it takes two system calls. */
	calls = 0;
	EXPECT(shim_hash(p + 1, 256 * PAGE, true, careful));
	EXPECT(calls <= (old || lies ? 32 : 6));
	EXPECT(shim_hash(p + 1, 256 * PAGE, false, plain) && memcmp(plain, careful, sizeof plain) == 0);
	calls = 0;
	EXPECT(shim_careful_copy(to, p + 1, 256 * PAGE) && memcmp(to, p + 1, 256 * PAGE) == 0);
	EXPECT(calls == 2);
	calls = 0;
	EXPECT(shim_careful_rows(to, p + 3, PAGE, 5, 64) && memcmp(to + 5 * 63, p + 3 + 63 * PAGE, 5) == 0);
	EXPECT(calls == 3);
	EXPECT(!shim_careful_rows(to, p + 3, PAGE, 5, HOLE + 1));

	/* A child reads its own memory: after vfork that of its parent, after fork a copy. */
	for (int i = 0; i < 2; i++) {
		pid_t child = i == 0 ? fork() : vfork();
		if (child == 0) {
			if (i == 0)
				memset(p, 'c', 8);
			to[0] = 0;
			_exit(!shim_careful_copy(to, p, 8) || memcmp(to, p, 8) != 0);
		}
		int status = 1;
		EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	}
	return failures != 0;
}
