#define _GNU_SOURCE
#include "bind/below.h"

#include <link.h>

#include "base/hooks.h"
#include "base/loader.h"
#include "base/lookup.h"
#include "base/sys.h"
#include "bind/names.h"
#include "bind/passed.h"
#include "session/process.h"
#include "session/session.h"

/* Object files that are part of the runtime, or under or beside it. */
static bool a_part(const char *path) { return path != NULL && (lookup_of_runtime(path) || lookup_beside(path)); }

void below_found(const char *name, const void *f, const void *caller)
{
	if (passed_has_prefix(shim_below, name) && a_part(shim_object_of(f)) && (caller == NULL || !a_part(shim_object_of(caller))))
		shim_passed(name);
}

enum { MOST_PARTS = 16, MOST_OBJECTS = 1024 };

static struct {
	unsigned long long loads; /* that the loader had made at the last visit */
	struct link_map parts[MOST_PARTS]; /* reset by each visit */
	unsigned count;
	uint64_t seen[MOST_OBJECTS]; /* addresses of dynamic sections */
} below;

static const ElfW(Dyn) *dynamic(const struct dl_phdr_info *o)
{
	for (unsigned i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const ElfW(Dyn) *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	return NULL;
}

static int part(struct dl_phdr_info *o, size_t size, void *none)
{
	(void)size, (void)none;
	const ElfW(Dyn) *d = dynamic(o);
	if (lookup_of_operators(o->dlpi_name))
		process_maps(o->dlpi_name);
	if (d != NULL && a_part(o->dlpi_name) && below.count < MOST_PARTS)
		below.parts[below.count++] = (struct link_map){.l_addr = o->dlpi_addr, .l_name = (char *)o->dlpi_name, .l_ld = (ElfW(Dyn) *)d};
	return 0;
}

/* Whether an object is visited for the first time. Those without room are not visited. */
static bool is_new(uint64_t at)
{
	for (uint32_t i = 0; i < MOST_OBJECTS; i++) {
		uint64_t *s = &below.seen[(at / 16 + i) % MOST_OBJECTS];
		if (*s == at)
			return false;
		if (*s == 0) {
			*s = at;
			return true;
		}
	}
	return false;
}

/* The number of symbols that come before the defined ones: the linker puts the undefined ones there. A table without a GNU hash has no order. */
static uint32_t undefined(const uint32_t *gnu, const uint32_t *sysv) { return gnu != NULL ? gnu[1] : sysv != NULL ? sysv[1] : 0; }

static int references(struct dl_phdr_info *o, size_t size, void *none)
{
	(void)size, (void)none;
	const ElfW(Dyn) *dyn = dynamic(o);
	if (dyn == NULL || a_part(o->dlpi_name) || shim_is_own(dyn) || !is_new((uint64_t)dyn))
		return 0;
	struct link_map l = {.l_addr = o->dlpi_addr, .l_ld = (ElfW(Dyn) *)dyn};
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const uint32_t *gnu = NULL, *sysv = NULL;
	for (const ElfW(Dyn) *d = dyn; d->d_tag != DT_NULL; d++) {
		uint64_t p = lookup_address(&l, d);
		switch (d->d_tag) {
		case DT_SYMTAB: symbols = (const void *)p; break;
		case DT_STRTAB: strings = (const char *)p; break;
		case DT_GNU_HASH: gnu = (const uint32_t *)p; break;
		case DT_HASH: sysv = (const uint32_t *)p; break;
		}
	}
	if (symbols == NULL || strings == NULL)
		return 0;
	for (uint32_t i = 1, n = undefined(gnu, sysv); i < n; i++) {
		const char *name = strings + symbols[i].st_name;
		if (symbols[i].st_shndx != SHN_UNDEF || !passed_has_prefix(shim_below, name) || shim_lookup(name) != NULL)
			continue;
		for (unsigned k = 0; k < below.count; k++)
			if (lookup_in(&below.parts[k], name) != NULL) {
				shim_passed(name);
				break;
			}
	}
	return 0;
}

typedef int iterate_fn(int (*visit)(struct dl_phdr_info *, size_t, void *), void *);

static int visit(struct dl_phdr_info *first, size_t size, void *iterate)
{
	if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof first->dlpi_adds && first->dlpi_adds == below.loads)
		return 1;
	below.loads = first->dlpi_adds;
	below.count = 0;
	((iterate_fn *)iterate)(part, NULL);
	if (below.count > 0)
		((iterate_fn *)iterate)(references, NULL);
	return 1;
}

/*
 * dl_iterate_phdr holds a lock, against libraries that another thread unloads meanwhile. In a forked child the lock may be held for ever by a thread that
 * the child does not have.
 */
void below_linked(void)
{
	static void *real;
	static uint32_t busy;
	uint32_t none = 0, pid = shim_p->pid; /* 0 before the first call, also in a child */
	if (shim_below[0].name == NULL || session_pid == 0 || session_pid != (pid ? pid : (uint32_t)sys0(__NR_getpid)))
		return;
	iterate_fn *iterate = (iterate_fn *)shim_optional(&real, "dl_iterate_phdr");
	if (iterate == NULL || !__atomic_compare_exchange_n(&busy, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	iterate(visit, (void *)iterate);
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

SHIM_HOOKS(.end = below_linked);
