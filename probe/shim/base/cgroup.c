/*
 * A ring's pages are charged to the cgroup in which the process runs. Beyond the limit, allocation does not fail: the kernel kills a
 * process of the cgroup. So the limit is read first, and rings may use a quarter of the program's memory. probe/ring/memory.go does the same for
 * the recorder.
 */
#include "base/cgroup.h"

#include <asm/fcntl.h>
#include <linux/mman.h>

#include "base/sys.h"
#include "base/text.h"

enum { TEXT = 4096 };

/* Mapped, since a thread's stack may be small. */
struct scratch { char groups[TEXT], path[TEXT + 64], text[TEXT]; };

/* An unreadable file is empty. */
static void read_text(const char *path, char *text)
{
	long n = sys_read_once(sys_open(path, O_RDONLY), text, TEXT - 1);
	text[n > 0 ? n : 0] = 0;
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
	const char *v = NULL;
	do
		a->path[n++] = *file;
	while (*file++);
	read_text(a->path, a->text);
	for (const char *s = a->text; *s && v == NULL; s = text_next_line(s))
		v = text_after(s, key);
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
	long m = sys_map(sizeof(struct scratch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, NULL);
	if (sys_failed(m))
		return least;
	struct scratch *a = (struct scratch *)m;
	read_text("/proc/self/cgroup", a->groups);
	for (const char *line = a->groups; *line; line = text_next_line(line))
		for (unsigned i = 0; i < 2; i++) {
			/* A line of version 1 has the hierarchy's number first. */
			const char *s = line;
			while (i == 0 && *s >= '0' && *s <= '9')
				s++;
			const char *group = text_after(s, versions[i].line);
			uint64_t left = group ? left_in(a, &versions[i], group) : least;
			if (left < least)
				least = left;
		}
	sys2(__NR_munmap, m, sizeof(struct scratch));
	return least;
}
