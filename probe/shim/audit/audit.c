/*
 * The LD_AUDIT library. The loader calls it for every reference that it binds through a PLT and for every dlsym result, in all
 * namespaces. That includes libraries loaded with RTLD_DEEPBIND or dlmopen, whose references bypass the shim in LD_PRELOAD. This
 * library has its own namespace and only passes symbols to the shim.
 *
 * References to data, and calls in code built with -fno-plt, are not audited. For these the shim comes first in the program's search
 * order, as without this library.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lookup.h"

#define EXPORT __attribute__((visibility("default")))

static void *(*bind)(const char *name, void *f);

/* 0 disables auditing. Before version 2 of the interface, in glibc 2.35, it slows down every PLT call and destroys vector
 * arguments on aarch64. */
EXPORT unsigned la_version(unsigned version) { return version < 2 ? 0 : 2; }

/*
 * Selects the bindings to audit: those to the runtime from objects outside it. References between layers of the runtime are left
 * alone, since other objects call the outermost layer. Libraries with operators are outside: they call the runtime, and each other's marks. The
 * shim's own references are excluded, because they would return to it.
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
	else if (lookup_of_operators(l->l_name))
		*cookie |= LA_FLG_BINDTO;
	return (unsigned)*cookie;
}

/* For dlsym the loader calls this if only one of the two objects was selected, too. */
EXPORT uintptr_t la_symbind64(Elf64_Sym *sym, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name)
{
	(void)index, (void)flags;
	if (bind == NULL || !(*from & LA_FLG_BINDFROM) || !(*to & LA_FLG_BINDTO))
		return sym->st_value;
	return (uintptr_t)bind(name, (void *)sym->st_value);
}
