#include "bind/names.h"

#include "base/loader.h"
#include "base/sys.h"
#include "bind/passed.h"

extern char **environ __attribute__((weak));

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

bool name_exists(const struct shim_name *n)
{
	return __atomic_load_n(n->real, __ATOMIC_RELAXED) != NULL || shim_next(n->name) != NULL;
}

/* Clears a function whose library was unloaded. `seen` caches a mapped page. */
static void forget(void **real, uint64_t *seen)
{
	uint64_t f = (uint64_t)__atomic_load_n(real, __ATOMIC_ACQUIRE);
	if (f == 0 || f >> 12 == *seen)
		return;
	if (shim_mapped(f))
		*seen = f >> 12;
	else
		__atomic_store_n(real, NULL, __ATOMIC_RELEASE);
}

void *shim_substitute(const struct shim_name *n, const char *name, void *f)
{
	if (n == NULL) {
		passed_found(name, f);
		return f;
	}
	/* A trampoline counts before it jumps. */
	if (n->real >= &shim_counted[0].real && n->real < &shim_counted[shim_counted_count].real) {
		struct shim_counted *c = (struct shim_counted *)n->real;
		if (__atomic_load_n(&c->count, __ATOMIC_ACQUIRE) == NULL)
			__atomic_store_n(&c->count, passed_counter(name), __ATOMIC_RELEASE);
	}
	/* A library may be unloaded without dlclose, for example in another namespace. */
	void *have = __atomic_load_n(n->real, __ATOMIC_ACQUIRE);
	if (have != NULL && have != f) {
		uint64_t seen = 0;
		forget(n->real, &seen);
		if (n->copy_real)
			forget(n->copy_real, &seen);
		have = __atomic_load_n(n->real, __ATOMIC_ACQUIRE);
	}
	/* A linked reference always means the first library in the list, even if the program asks for another one earlier. */
	if (have == NULL) {
		void *first = shim_next(name);
		if (first == NULL)
			first = f; /* in a namespace of its own */
		if (__atomic_compare_exchange_n(n->real, &have, first, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			have = first;
	}
	if (have == f)
		return n->wrapper;
	if (n->copy != NULL) {
		void *second = NULL;
		if (__atomic_compare_exchange_n(n->copy_real, &second, f, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || second == f)
			return n->copy;
	}
	shim_passed(name);
	return f;
}

void forget_unloaded(void)
{
	uint64_t seen = 0;
	for (uint32_t i = 0; i < SHIM_OWN; i++)
		forget(&shim_own[i], &seen);
	for (uint32_t i = 0; i < shim_names_count; i++) {
		forget(shim_names[i].real, &seen);
		if (shim_names[i].copy_real)
			forget(shim_names[i].copy_real, &seen);
	}
}

/*
 * For the audit library, which sees references that bypass the shim: returns the function for a reference to `name` that the loader would bind to f.
 * Early in a program's start, the shim is not relocated and the environment is not set. References that are bound then find the shim first anyway.
 */
SHIM_EXPORT void *acltrace_bind(const char *name, void *f)
{
	static void *volatile self = (void *)&self; /* differs from its own address until the shim is relocated */
	if (self != (void *)&self || &environ == NULL || environ == NULL)
		return f;
	return shim_substitute(shim_lookup(name), name, f);
}
