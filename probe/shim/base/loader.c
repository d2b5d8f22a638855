/*
 * The list has first the objects that the program started with, in the loader's search order, then the others as they were loaded, in
 * any scope. A runtime that a Python extension has loaded for itself is found too.
 */
#define _GNU_SOURCE
#include "base/loader.h"

#include <dlfcn.h>
#include <link.h>

#include "base/lookup.h"

extern struct r_debug _r_debug __attribute__((weak)); /* glibc */
extern struct r_debug *_dl_debug_addr __attribute__((weak)); /* musl */
extern const char __ehdr_start[] HIDDEN, _end[] HIDDEN;

void *shim_own[SHIM_OWN];

const struct link_map *shim_objects(void)
{
	if (&_r_debug != NULL)
		return _r_debug.r_map;
	if (&_dl_debug_addr != NULL && _dl_debug_addr != NULL)
		return _dl_debug_addr->r_map;
	return NULL;
}

static const struct link_map *own_object(void)
{
	const struct link_map *l = shim_objects();
	while (l && l->l_ld != _DYNAMIC)
		l = l->l_next;
	return l;
}

bool shim_exports(const char *name)
{
	const struct link_map *l = own_object();
	return l != NULL && lookup_in(l, name) != NULL;
}

void *shim_next(const char *name)
{
	/* Objects before the shim are skipped: a tool that was preloaded earlier may call the shim, and calling it back would not end. */
	const struct link_map *first = shim_objects(), *l = own_object();
	for (l = l ? l->l_next : first; l; l = l->l_next) {
		void *f = lookup_in(l, name);
		if (f)
			return f;
	}
	return NULL;
}

bool shim_is_own(const void *f) { return (const char *)f >= __ehdr_start && (const char *)f < _end; }

bool shim_loaded(void)
{
	const struct link_map *l = shim_objects();
	while (l && !lookup_of_runtime(l->l_name))
		l = l->l_next;
	return l != NULL;
}

const char *shim_object_of(const void *address)
{
	static void *real;
	Dl_info of;
	int (*where)(const void *, Dl_info *) = (int (*)(const void *, Dl_info *))shim_optional(&real, "dladdr");
	return where != NULL && where(address, &of) ? of.dli_fname : NULL;
}
