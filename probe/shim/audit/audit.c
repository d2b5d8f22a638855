/*
 * The library for LD_AUDIT. The loader asks it about every reference that it binds through a PLT and every answer of dlsym,
 * in all namespaces: also those of libraries loaded with RTLD_DEEPBIND or dlmopen, which never come by the shim in
 * LD_PRELOAD. The shim does the work; this library lives in a namespace of its own and only tells it of them.
 *
 * References to data and calls of code built with -fno-plt are not told to it; for these the shim comes first in the
 * program's own search order, as it does without this library.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lookup.h"

#define EXPORT __attribute__((visibility("default")))

static void *(*bind)(const char *name, void *f);

/* Before glibc 2.35, which brought version 2 of this interface, auditing makes every call through a PLT slow and destroys
 * vector arguments on aarch64. 0 is: go on without me. */
EXPORT unsigned la_version(unsigned version) { return version < 2 ? 0 : 2; }

/*
 * The cookie of an object is what is to be told of it. References between layers of the runtime are left alone: their
 * outermost one is called from elsewhere. So are those of the shim, which would come back to itself.
 */
EXPORT unsigned la_objopen(struct link_map *l, Lmid_t space, uintptr_t *cookie)
{
	*cookie = LA_FLG_BINDFROM;
	if (space == LM_ID_BASE && bind == NULL) {
		bind = (void *(*)(const char *, void *))lookup_in(l, "acltrace_bind");
		if (bind != NULL)
			*cookie = 0;
	}
	if (lookup_of_runtime(l->l_name))
		*cookie = LA_FLG_BINDTO;
	return (unsigned)*cookie;
}

/* The loader also tells of an answer of dlsym where only one side asked to be told. */
EXPORT uintptr_t la_symbind64(Elf64_Sym *sym, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name)
{
	(void)index, (void)flags;
	if (bind == NULL || *from != LA_FLG_BINDFROM || *to != LA_FLG_BINDTO)
		return sym->st_value;
	return (uintptr_t)bind(name, (void *)sym->st_value);
}
