/*
 * Finding the function behind the shim, by the loader's own list of what it has mapped. The list is in the order in
 * which the loader searches what a program starts with, and in the order of loading for the rest, whatever scope that
 * was loaded into: a runtime that a Python extension has brought along for itself is found as well. Asking dlsym would
 * take the loader's lock and wipe out the error that the program may still want to read from dlerror.
 */
#include "shim.h"

#include <link.h>

#include "bind.h"
#include "lookup.h"

extern struct r_debug _r_debug __attribute__((weak)); /* glibc */
extern struct r_debug *_dl_debug_addr __attribute__((weak)); /* musl */

const struct link_map *shim_objects(void)
{
	if (&_r_debug != NULL)
		return _r_debug.r_map;
	if (&_dl_debug_addr != NULL && _dl_debug_addr != NULL)
		return _dl_debug_addr->r_map;
	return NULL;
}

void *shim_next(const char *name)
{
	/* What lies before the shim, as a tool that was preloaded first, may call the shim: going back to it would never end. */
	const struct link_map *first = shim_objects(), *l = first;
	while (l && l->l_ld != _DYNAMIC)
		l = l->l_next;
	for (l = l ? l->l_next : first; l; l = l->l_next) {
		void *f = lookup_in(l, name);
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
