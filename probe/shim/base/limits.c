/*
 * A ring's pages are charged to the cgroup in which the process runs. Beyond the limit, allocation does not fail: the kernel kills a
 * process of the cgroup. A ring's mapping takes address space, and locks memory after mlockall(MCL_FUTURE). Beyond those limits the program's own
 * requests fail, as for a new thread's stack. So the limits are read first, and rings use a part of what is left. probe/ring/memory.go does the same
 * for the recorder.
 */
#include "base/limits.h"

#include <asm/fcntl.h>
#include <linux/mman.h>
#include <linux/resource.h>

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
	while (*s == ' ' || *s == '\t')
		s++;
	if (*s < '0' || *s > '9')
		return NO_LIMIT; /* "max" */
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
	uint64_t least = NO_LIMIT, n = 0, root;
	for (const char *s = v->mount; *s;)
		path[n++] = *s++;
	root = n;
	for (; *group && *group != '\n' && n < TEXT; group++)
		path[n++] = *group;
	for (;;) {
		while (n > root && path[n - 1] == '/')
			n--;
		/* In a container the path may be the host's: then only the root exists. */
		uint64_t limit = value(a, n, v->limit, "", NO_LIMIT);
		if (limit != NO_LIMIT) {
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

static struct scratch *open_scratch(void)
{
	long m = sys_map(sizeof(struct scratch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, NULL);
	return sys_failed(m) ? NULL : (struct scratch *)m;
}

static void close_scratch(struct scratch *a) { sys2(__NR_munmap, a, sizeof *a); }

uint64_t shim_memory_left(void)
{
	static const struct version versions[] = {
		{":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "},
		{"0::", "/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file "},
	};
	uint64_t least = NO_LIMIT;
	struct scratch *a = open_scratch();
	if (a == NULL)
		return least;
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
	close_scratch(a);
	return least;
}

uint64_t shim_limit(int resource)
{
	struct { uint64_t soft, hard; } limit;
	return sys4(__NR_prlimit64, 0, resource, NULL, &limit) == 0 ? limit.soft : NO_LIMIT;
}

/* What a limit leaves, by the line of /proc/self/status that has the use in KiB. A process above its limit may exceed it. */
static uint64_t limit_left(struct scratch *a, int resource, const char *line)
{
	static const char folder[] = "/proc/self";
	uint64_t limit = shim_limit(resource);
	if (limit == NO_LIMIT)
		return NO_LIMIT;
	memcpy(a->path, folder, sizeof folder - 1);
	uint64_t used = value(a, sizeof folder - 1, "/status", line, 0) * 1024;
	return used <= limit ? limit - used : NO_LIMIT;
}

/* Whether new mappings are locked in memory: then the kernel has filled this one, which nobody has used. */
static bool locked(const struct scratch *a)
{
	uint8_t in = 0;
	return sys3(__NR_mincore, a, 1, &in) == 0 && (in & 1) != 0;
}

uint64_t shim_address_left(bool own)
{
	static const struct { int resource; const char *line; } limits[] = {{RLIMIT_AS, "VmSize:"}, {RLIMIT_MEMLOCK, "VmLck:"}, {RLIMIT_DATA, "VmData:"}};
	uint64_t least = NO_LIMIT;
	struct scratch *a = open_scratch();
	if (a == NULL)
		return 0; /* the limit is reached */
	bool applies[] = {true, locked(a), own};
	for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
		uint64_t left = applies[i] ? limit_left(a, limits[i].resource, limits[i].line) : least;
		if (left < least)
			least = left;
	}
	close_scratch(a);
	return least;
}

bool shim_map_once(void *at, uint64_t len, long fd)
{
	enum { SHARE = 8 };
	typedef void *pointer __attribute__((may_alias));
	pointer *slot = at, none = NULL;
	if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != NULL)
		return true;
	if (len > shim_address_left(fd < 0) / SHARE)
		return false;
	long m = sys_map(len, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0, NULL);
	if (sys_failed(m))
		return false;
	if (!__atomic_compare_exchange_n(slot, &none, (void *)m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sys2(__NR_munmap, m, len);
	return true;
}
