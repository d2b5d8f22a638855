/*
 * Preloaded into tiny_decoder, it wraps the clock that the program reads before and after each token. It appends to the file in
 * TOKENS three times in microseconds: for a token, on a processor and waiting for one, both in the calling thread. Each is a mean
 * over all tokens except the first, which make rings and start threads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Microseconds. */
struct moment {
	double wall, cpu, wait;
};

static const unsigned first = 8; /* tokens that do not count */
static struct moment before, sum;
static unsigned reads;
static uintptr_t from, to; /* the program's code: libraries in the process read the clock too */
static int (*real)(clockid_t, struct timespec *);

static int program(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
			from = info->dlpi_addr + p->p_vaddr;
			to = from + p->p_memsz;
		}
	}
	return 1; /* the first object is the program */
}

__attribute__((constructor)) static void find(void)
{
	*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	dl_iterate_phdr(program, NULL);
}

/* Kernel statistics for the calling thread. */
static struct moment account(const struct timespec *t)
{
	static int file = -1;
	char text[128] = "", *end;

	if (file < 0)
		file = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	if (pread(file, text, sizeof text - 1, 0) <= 0)
		abort();
	double cpu = strtod(text, &end), wait = strtod(end, NULL);
	return (struct moment){(double)t->tv_sec * 1e6 + (double)t->tv_nsec / 1e3, cpu / 1e3, wait / 1e3};
}

__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("TOKENS");
	unsigned n = reads / 2 - first;
	FILE *f = path != NULL && reads / 2 > first ? fopen(path, "a") : NULL;

	if (f == NULL)
		return;
	fprintf(f, "%.1f %.1f %.1f\n", sum.wall / n, sum.cpu / n, sum.wait / n);
	fclose(f);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	bool ours = clock == CLOCK_MONOTONIC && caller >= from && caller < to;
	struct moment at = {0};

	if (real == NULL)
		find();
	if (ours && reads % 2 == 0)
		at = account(&(struct timespec){0});
	int err = real(clock, t);
	if (!ours || err != 0)
		return err;
	if (reads++ % 2 == 0) {
		before = at;
		before.wall = (double)t->tv_sec * 1e6 + (double)t->tv_nsec / 1e3;
		return 0;
	}
	at = account(t);
	if (reads / 2 > first) {
		sum.wall += at.wall - before.wall;
		sum.cpu += at.cpu - before.cpu;
		sum.wait += at.wait - before.wait;
	}
	return 0;
}
