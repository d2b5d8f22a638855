/*
 * mstx, compiled into a program or in its library, loads a tool at its first call: the one in MSTX_INJECTION_PATH, or one that is already loaded.
 * The tool's InitInjectionMstx puts functions into tables of slots. The shim exports that name: it calls the tool's, and then replaces the
 * functions in the slots by its wrappers.
 *
 * Without a tool, the shim's own functions number ranges, domains, heaps and regions, so that their ends can be matched. Other slots stay unchanged.
 */
#include "inject.h"

#include "acl/acl.h"
#include "base/loader.h"
#include "session/process.h"

#include "mstx_gen.h"

typedef int init_tool(shim_tables *get);

enum { FAILED = 1, MODULES = 4, SLOTS = 8 };

static uint64_t numbers;

static uint64_t range_start(const char *message, void *stream)
{
	(void)message, (void)stream;
	return __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
}

static uint64_t domain_range_start(void *domain, const char *message, void *stream)
{
	(void)domain;
	return range_start(message, stream);
}

static void *domain_create(const char *name) { return (void *)range_start(name, NULL); }
static void *heap_register(void *domain, const void *desc)
{
	(void)domain;
	return desc ? domain_create(NULL) : NULL;
}

static void regions_register(void *domain, const mstxMemRegionsRegisterBatch_t *desc)
{
	(void)domain;
	/* Without an array for handles, the program names its regions by their addresses. */
	void **handles = desc ? desc->regionHandleArrayOut : NULL;
	for (uint64_t i = 0; handles && i < desc->regionCount; i++)
		handles[i] = domain_create(NULL);
}

static void nothing(void) {}

/* The functions that are called without a tool, by module and slot. */
static void *const alone[MODULES][SLOTS] = {
	[1] = {[1] = (void *)nothing, [2] = (void *)range_start, [3] = (void *)nothing},
	[2] = {[1] = (void *)domain_create, [2] = (void *)nothing, [3] = (void *)nothing, [4] = (void *)domain_range_start, [5] = (void *)nothing},
	[3] = {[1] = (void *)heap_register, [2] = (void *)nothing, [3] = (void *)regions_register, [4] = (void *)nothing},
};

static void **slot_of(shim_tables *get, const struct shim_injected *f)
{
	shim_function **table = NULL;
	unsigned size = 0;
	if (get(f->module, &table, &size) != 0 || table == NULL || f->slot >= size)
		return NULL;
	return (void **)table[f->slot];
}

static int inject(shim_tables *get, init_tool *tool)
{
	void *before[MODULES][SLOTS] = {{NULL}};
	if (get == NULL || !open_process())
		return tool ? tool(get) : FAILED;
	for (const struct shim_injected *f = shim_injected; f->name; f++) {
		void **slot = slot_of(get, f);
		before[f->module][f->slot] = slot ? *slot : NULL;
	}
	int e = tool ? tool(get) : FAILED;
	for (const struct shim_injected *f = shim_injected; f->name; f++) {
		void **slot = slot_of(get, f);
		if (slot == NULL)
			continue;
		/* A slot that the tool has not set holds a function that would look for a tool again. */
		void *real = e == 0 && *slot != before[f->module][f->slot] ? *slot : alone[f->module][f->slot], *none = NULL;
		if (real == NULL || real == f->wrapper)
			continue;
		if (__atomic_compare_exchange_n(f->real, &none, real, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || none == real)
			*slot = f->wrapper;
	}
	return 0;
}

static int no_tool(shim_tables *get)
{
	(void)get;
	return FAILED;
}

void *shim_inject_real = (void *)no_tool, *shim_inject_copy_real;

int InitInjectionMstx(shim_tables *get) { return inject(get, (init_tool *)shim_next("InitInjectionMstx")); }
int shim_inject_copy(shim_tables *get) { return inject(get, (init_tool *)shim_inject_copy_real); }
