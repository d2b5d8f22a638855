/*
 * A ring's pages are charged to the cgroup in which the process runs. Beyond the limit, allocation does not fail: the kernel kills a
 * process of the cgroup. So the limit is read first, and rings may use a quarter of the program's memory. probe/ring/cgroup.go does the same for
 * the recorder.
 */
#include "base/cgroup.h"

#include <asm/fcntl.h>
#include <linux/mman.h>

#include "base/sys.h"

enum { TEXT = 4096 };

/* Mapped, since a thread's stack may be small. */
struct scratch { char groups[TEXT], path[TEXT + 64], text[TEXT]; };

static long read_text(const char *path, char *text)
{
	long fd = sys4(__NR_openat, -100, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	long n = sys3(__NR_read, fd, text, TEXT - 1);
	sys1(__NR_close, fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

/* Returns the rest of s after a prefix, NULL if s does not begin with it. */
static const char *after(const char *s, const char *with)
{
	while (*with)
		if (*s++ != *with++)
			return NULL;
	return s;
}

static const char *next_line(const char *s)
{
	while (*s && *s != '\n')
		s++;
	return *s ? s + 1 : s;
}

static uint64_t number(const char *s)
{
	uint64_t v = 0;
	if (*s < '0' || *s > '9')
		return ~(uint64_t)0; /* "max" */
	for (; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (uint64_t)(*s - '0');
	return v;
}

/* Returns the number after a key in a file of the folder whose path has n bytes, `none` if there is no such line. */
static uint64_t value(struct scratch *a, uint64_t n, const char *file, const char *key, uint64_t none)
{
	const char *s = a->text, *v = NULL;
	do
		a->path[n++] = *file;
	while (*file++);
	if (read_text(a->path, a->text) <= 0)
		return none;
	for (; *s && v == NULL; s = next_line(s))
		v = after(s, key);
	return v ? number(v) : none;
}

struct version {
	const char *line, *mount, *limit, *usage, *file_key;
};

/* Returns the bytes left in a cgroup and its parents. Cached files do not count as used. */
static uint64_t left_in(struct scratch *a, const struct version *v, const char *group)
{
	char *path = a->path;
	uint64_t least = ~(uint64_t)0, n = 0, root;
	for (const char *s = v->mount; *s;)
		path[n++] = *s++;
	root = n;
	for (; *group && *group != '\n' && n < TEXT; group++)
		path[n++] = *group;
	for (;;) {
		while (n > root && path[n - 1] == '/')
			n--;
		/* In a container the path may be the host's: then only the root exists. */
		uint64_t limit = value(a, n, v->limit, "", ~(uint64_t)0);
		if (limit != ~(uint64_t)0) {
			uint64_t used = value(a, n, v->usage, "", 0), cached = value(a, n, "/memory.stat", v->file_key, 0);
			used = used > cached ? used - cached : 0;
			uint64_t left = limit > used ? limit - used : 0;
			if (left < least)
				least = left;
		}
		if (n == root)
			return least;
		while (n > root && path[n - 1] != '/')
			n--;
	}
}

uint64_t shim_memory_left(void)
{
	static const struct version versions[] = {
		{":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "},
		{"0::", "/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file "},
	};
	uint64_t least = ~(uint64_t)0;
	long m = sys6(__NR_mmap, 0, sizeof(struct scratch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m < 0 && m > -4096)
		return least;
	struct scratch *a = (struct scratch *)m;
	if (read_text("/proc/self/cgroup", a->groups) < 0)
		a->groups[0] = 0;
	for (const char *line = a->groups; *line; line = next_line(line))
		for (unsigned i = 0; i < 2; i++) {
			/* A line of version 1 has the hierarchy's number first. */
			const char *s = line;
			while (i == 0 && *s >= '0' && *s <= '9')
				s++;
			const char *group = after(s, versions[i].line);
			uint64_t left = group ? left_in(a, &versions[i], group) : least;
			if (left < least)
				least = left;
		}
	sys2(__NR_munmap, m, sizeof(struct scratch));
	return least;
}
