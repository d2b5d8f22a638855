/*
 * Finding the function behind the shim. dlsym(RTLD_NEXT) is right where there is a dlsym: it follows the scope of the
 * program. It finds nothing where the runtime was loaded into a scope of its own (a Python extension), and there is none
 * in programs that were linked without it. Then the objects that the loader has mapped are searched, in its order.
 */
#include "shim.h"

#include <elf.h>
#include <link.h>

extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern struct r_debug _r_debug __attribute__((weak));

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

void *shim_resolve(const char *name)
{
	if (dlsym != NULL) {
		void *f = dlsym((void *)-1L /* RTLD_NEXT */, name);
		if (f)
			return f;
	}
	if (&_r_debug == NULL)
		return NULL;
	for (const struct link_map *l = _r_debug.r_map; l; l = l->l_next) {
		if (l->l_ld == _DYNAMIC)
			continue;
		void *f = find_in(l, name);
		if (f)
			return f;
	}
	return NULL;
}
