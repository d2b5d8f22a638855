/*
 * Finding the function behind the shim, by the loader's own list of what it has mapped. The list is in the order in
 * which the loader searches what a program starts with, and in the order of loading for the rest, whatever scope that
 * was loaded into: a runtime that a Python extension has brought along for itself is found as well. Asking dlsym would
 * take the loader's lock and wipe out the error that the program may still want to read from dlerror.
 */
#include "shim.h"

#include <elf.h>
#include <link.h>

#include "bind.h"

extern struct r_debug _r_debug __attribute__((weak)); /* glibc */
extern struct r_debug *_dl_debug_addr __attribute__((weak)); /* musl */

static const struct link_map *objects(void)
{
	if (&_r_debug != NULL)
		return _r_debug.r_map;
	if (&_dl_debug_addr != NULL && _dl_debug_addr != NULL)
		return _dl_debug_addr->r_map;
	return NULL;
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static uint32_t gnu_hash(const char *s)
{
	uint32_t h = 5381;
	for (; *s; s++)
		h = h * 33 + (uint8_t)*s;
	return h;
}

static void *symbol(const struct link_map *l, const ElfW(Sym) *sym, const char *strings, const char *name)
{
	unsigned type = sym->st_info & 15;
	if (sym->st_shndx == SHN_UNDEF || sym->st_value == 0 || type != STT_FUNC || !same(strings + sym->st_name, name))
		return NULL;
	return (void *)(l->l_addr + sym->st_value);
}

static void *find_in(const struct link_map *l, const char *name)
{
	const ElfW(Sym) *symtab = NULL;
	const char *strtab = NULL;
	const uint32_t *gnu = NULL, *sysv = NULL;
	for (const ElfW(Dyn) *d = l->l_ld; d && d->d_tag != DT_NULL; d++) {
		/* glibc relocates these pointers in place, musl does not. */
		ElfW(Addr) p = d->d_un.d_ptr < l->l_addr ? d->d_un.d_ptr + l->l_addr : d->d_un.d_ptr;
		if (d->d_tag == DT_SYMTAB)
			symtab = (const ElfW(Sym) *)p;
		else if (d->d_tag == DT_STRTAB)
			strtab = (const char *)p;
		else if (d->d_tag == DT_GNU_HASH)
			gnu = (const uint32_t *)p;
		else if (d->d_tag == DT_HASH)
			sysv = (const uint32_t *)p;
	}
	if (symtab == NULL || strtab == NULL)
		return NULL;
	if (gnu != NULL) {
		uint32_t nbuckets = gnu[0], first = gnu[1], bloom = gnu[2];
		const uint32_t *buckets = gnu + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
		const uint32_t *chain = buckets + nbuckets;
		uint32_t h = gnu_hash(name);
		if (nbuckets == 0 || buckets[h % nbuckets] < first)
			return NULL;
		for (uint32_t i = buckets[h % nbuckets];; i++) {
			uint32_t hi = chain[i - first];
			if ((hi | 1) == (h | 1)) {
				void *f = symbol(l, &symtab[i], strtab, name);
				if (f)
					return f;
			}
			if (hi & 1)
				return NULL;
		}
	}
	if (sysv != NULL)
		for (uint32_t i = 0; i < sysv[1]; i++) {
			void *f = symbol(l, &symtab[i], strtab, name);
			if (f)
				return f;
		}
	return NULL;
}

void *shim_next(const char *name)
{
	/* What lies before the shim, as a tool that was preloaded first, may call the shim: going back to it would never end. */
	const struct link_map *first = objects(), *l = first;
	while (l && l->l_ld != _DYNAMIC)
		l = l->l_next;
	for (l = l ? l->l_next : first; l; l = l->l_next) {
		void *f = find_in(l, name);
		if (f)
			return f;
	}
	return NULL;
}

const struct shim_name *shim_lookup(const char *name)
{
	uint32_t lo = 0, hi = shim_names_count;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		const char *a = shim_names[mid].name, *b = name;
		while (*a && *a == *b)
			a++, b++;
		if (*a == *b)
			return &shim_names[mid];
		if ((uint8_t)*a < (uint8_t)*b)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

void *shim_resolve(const char *name) { return shim_next(name); }
