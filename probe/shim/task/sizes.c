/*
 * A cache of kernels' parameter sizes. A line is valid until any function ends, since another kernel may then get the handle. Lines have a
 * sequence lock: a thread that reads a line while another one writes it asks the runtime instead.
 */
#include "task/sizes.h"

#include "record/piece.h"
#include "runtime.h"

enum { LINES = SHIM_KERNELS, WAYS = 8 };

struct line {
	uint64_t key;
	uint32_t version; /* odd: being written */
	uint32_t epoch; /* 0: valid in all */
	struct shim_sizes sizes;
};
_Static_assert(sizeof(struct line) == 64, "a line of the cache");
_Static_assert((LINES & (LINES - 1)) == 0, "a power of two");

static struct line lines[LINES] __attribute__((aligned(64)));
static uint32_t epoch = 1;

void shim_functions_end(void)
{
	if (__atomic_add_fetch(&epoch, 1, __ATOMIC_ACQ_REL) == 0)
		__atomic_add_fetch(&epoch, 1, __ATOMIC_ACQ_REL);
}

static uint32_t current_epoch(void) { return __atomic_load_n(&epoch, __ATOMIC_ACQUIRE); }

static struct line *way(uint64_t key, unsigned i) { return &lines[((key * 0x9e3779b97f4a7c15ULL >> 32) + i) % LINES]; }

static bool valid(const struct line *l, uint64_t key)
{
	uint32_t e = __atomic_load_n(&l->epoch, __ATOMIC_RELAXED);
	return __atomic_load_n(&l->key, __ATOMIC_RELAXED) == key && (e == 0 || e == current_epoch());
}

bool shim_sizes_known(uint64_t key, struct shim_sizes *s)
{
	typedef uint64_t word __attribute__((may_alias));
	for (unsigned i = 0; i < WAYS; i++) {
		struct line *l = way(key, i);
		uint32_t version = __atomic_load_n(&l->version, __ATOMIC_ACQUIRE);
		if ((version & 1) != 0 || !valid(l, key))
			continue;
		for (unsigned k = 0; k < sizeof *s / 8; k++)
			((word *)s)[k] = __atomic_load_n((word *)&l->sizes + k, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		return __atomic_load_n(&l->version, __ATOMIC_RELAXED) == version;
	}
	return false;
}

void shim_sizes_keep(uint64_t key, uint32_t since, const struct shim_sizes *s)
{
	typedef uint64_t word __attribute__((may_alias));
	struct line *to = NULL;
	for (unsigned i = 0; i < WAYS && (to == NULL || to->key != key); i++) {
		struct line *l = way(key, i);
		uint32_t e = __atomic_load_n(&l->epoch, __ATOMIC_RELAXED);
		uint64_t k = __atomic_load_n(&l->key, __ATOMIC_RELAXED);
		if (k == key || (to == NULL && (k == 0 || (e != 0 && e != current_epoch()))))
			to = l;
	}
	if (to == NULL)
		to = way(key, (unsigned)(key >> 7) % WAYS);
	uint32_t version = __atomic_load_n(&to->version, __ATOMIC_RELAXED);
	if ((version & 1) != 0 || !__atomic_compare_exchange_n(&to->version, &version, version + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&to->key, key, __ATOMIC_RELAXED);
	__atomic_store_n(&to->epoch, since, __ATOMIC_RELAXED);
	for (unsigned k = 0; k < sizeof *s / 8; k++)
		__atomic_store_n((word *)&to->sizes + k, ((const word *)s)[k], __ATOMIC_RELAXED);
	__atomic_store_n(&to->version, version + 2, __ATOMIC_RELEASE);
}

/* Asks the runtime for the sizes from parameter n on. False if there are none. */
static bool ask(const void *func, uint32_t n, uint64_t key, struct shim_sizes *s)
{
	uint32_t since = current_epoch();
	size_t size;
	*s = (struct shim_sizes){0};
	while (s->count < SHIM_PARAMS && shim_param_size(func, n + s->count, &size) && size <= UINT16_MAX)
		s->size[s->count++] = (uint16_t)size;
	if (s->count == SHIM_PARAMS && shim_param_size(func, n + SHIM_PARAMS, &size))
		s->count |= SHIM_MORE;
	if (s->count > 0)
		shim_sizes_keep(key, since, s);
	return s->count > 0;
}

void shim_args_array(struct shim_call *c, uint8_t param, uint32_t item, const void *func, void **args)
{
	struct shim_sizes s = {.count = SHIM_MORE};
	for (uint32_t part = 0, n = 0; args != NULL && part < SHIM_PARTS && (s.count & SHIM_MORE); part++) {
		uint64_t key = shim_part((uint64_t)func, part);
		if (!shim_sizes_known(key, &s) && !ask(func, n, key, &s))
			return;
		for (uint32_t i = 0; i < (s.count & ~SHIM_MORE); i++, n++)
			shim_array_item(c, param, item + n, args[n], s.size[i]);
	}
}
