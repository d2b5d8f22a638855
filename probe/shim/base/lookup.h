/* Finding a function in a loaded object by its own tables, without the loader. */
#ifndef ACLTRACE_SHIM_LOOKUP_H
#define ACLTRACE_SHIM_LOOKUP_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "libraries_gen.h"

static inline bool lookup_same(const char *a, const char *b)
{
	const char *rest = text_after(a, b);
	return rest != NULL && *rest == 0;
}

static inline uint32_t lookup_hash(const char *s)
{
	uint32_t h = 5381;
	for (; *s; s++)
		h = h * 33 + (uint8_t)*s;
	return h;
}

static inline void *lookup_symbol(const struct link_map *l, const ElfW(Sym) *sym, const char *strings, const char *name)
{
	unsigned type = sym->st_info & 15;
	if (sym->st_shndx == SHN_UNDEF || sym->st_value == 0 || (type != STT_FUNC && type != STT_OBJECT) || !lookup_same(strings + sym->st_name, name))
		return NULL;
	return (void *)(l->l_addr + sym->st_value);
}

/* The address in an entry in the dynamic section. glibc relocates such entries in place, musl does not. */
static inline ElfW(Addr) lookup_address(const struct link_map *l, const ElfW(Dyn) *d)
{
	return d->d_un.d_ptr < l->l_addr ? d->d_un.d_ptr + l->l_addr : d->d_un.d_ptr;
}

static inline void *lookup_in(const struct link_map *l, const char *name)
{
	const ElfW(Sym) *symtab = NULL;
	const char *strtab = NULL;
	const uint32_t *gnu = NULL, *sysv = NULL;
	for (const ElfW(Dyn) *d = l->l_ld; d && d->d_tag != DT_NULL; d++) {
		ElfW(Addr) p = lookup_address(l, d);
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
		uint32_t h = lookup_hash(name);
		if (nbuckets == 0 || buckets[h % nbuckets] < first)
			return NULL;
		for (uint32_t i = buckets[h % nbuckets];; i++) {
			uint32_t hi = chain[i - first];
			if ((hi | 1) == (h | 1)) {
				void *f = lookup_symbol(l, &symtab[i], strtab, name);
				if (f)
					return f;
			}
			if (hi & 1)
				return NULL;
		}
	}
	if (sysv != NULL)
		for (uint32_t i = 0; i < sysv[1]; i++) {
			void *f = lookup_symbol(l, &symtab[i], strtab, name);
			if (f)
				return f;
		}
	return NULL;
}

static inline bool lookup_file(const char *path, const char *const *names, unsigned count)
{
	const char *base = path;
	for (const char *s = path; *s; s++)
		if (*s == '/')
			base = s + 1;
	for (unsigned i = 0; i < count; i++) {
		const char *version = text_after(base, names[i]);
		if (version != NULL && (*version == 0 || *version == '.'))
			return true;
	}
	return false;
}

/* Whether a file is a runtime library, by its name with or without a version. */
static inline bool lookup_of_runtime(const char *path)
{
	static const char *const names[] = {RUNTIME_LIBRARIES};
	return lookup_file(path, names, sizeof names / sizeof *names);
}

/* Whether a file is a library with operators. */
static inline bool lookup_of_operators(const char *path)
{
	static const char *const names[] = {OPERATOR_LIBRARIES};
	return lookup_file(path, names, sizeof names / sizeof *names);
}

/* Whether a file is a library under or beside a runtime. */
static inline bool lookup_beside(const char *path)
{
	static const char *const names[] = {BESIDE_LIBRARIES};
	return lookup_file(path, names, sizeof names / sizeof *names);
}

#endif
