/*
 * Calls that are made while their thread is inside another one. The runtime's own are a part of that. Those of a signal's handler, or of
 * a function that the runtime calls, are the program's, but the record of the outer call has no room for another: they are counted as lost.
 * A call is the program's if it returns to code outside the folder of the runtime's libraries.
 */
#include <link.h>

#include "bind.h"
#include "parts.h"

enum { KNOWN = 256 };

/* 2 * an address that a call returns to, 1 more if it is the runtime's. Libraries that are loaded later at the same place are taken for the earlier ones. */
static uint64_t known[KNOWN];

static size_t folder(const char *name)
{
	size_t n = 0;
	for (size_t i = 0; name[i]; i++)
		if (name[i] == '/')
			n = i + 1;
	return n;
}

static bool beside_runtime(const struct link_map *l)
{
	size_t n = folder(l->l_name);
	for (const struct link_map *r = shim_objects(); r; r = r->l_next) {
		if (!is_runtime(r) || folder(r->l_name) != n)
			continue;
		size_t i = 0;
		while (i < n && r->l_name[i] == l->l_name[i])
			i++;
		if (i == n)
			return true;
	}
	return false;
}

static bool has(const struct link_map *l, uint64_t at)
{
	const ElfW(Ehdr) *h = (const void *)l->l_addr;
	if (h == NULL || at < l->l_addr || h->e_ident[0] != ELFMAG0 || h->e_ident[1] != ELFMAG1)
		return false;
	const ElfW(Phdr) *p = (const void *)(l->l_addr + h->e_phoff);
	for (unsigned i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && at - (l->l_addr + p[i].p_vaddr) < p[i].p_memsz)
			return true;
	return false;
}

static bool of_the_runtime(uint64_t at)
{
	uint64_t *k = &known[(at ^ at >> 8) % KNOWN], was = __atomic_load_n(k, __ATOMIC_RELAXED);
	if (was >> 1 == at)
		return was & 1;
	bool inner = shim_is_own((const void *)at) || !shim_loaded();
	for (const struct link_map *l = shim_objects(); l && !inner; l = l->l_next)
		inner = l->l_name != NULL && beside_runtime(l) && has(l, at);
	__atomic_store_n(k, at << 1 | inner, __ATOMIC_RELAXED);
	return inner;
}

void shim_nested(void *frame)
{
	struct shim_thread *t = &shim_t;
	/* Behind the frame's own word is the address that the wrapper returns to. */
	if (of_the_runtime(((uint64_t *)frame)[1]) || t->off)
		return;
	if (t->base == NULL) {
		/* The thread's first call is about to make the ring. */
		if (__atomic_load_n(&shim_control->off, __ATOMIC_RELAXED) == OFF_NO)
			__atomic_fetch_add(&t->lost, 1, __ATOMIC_RELAXED);
	} else if (shim_p->ready == 2 && t->generation == shim_p->generation && __atomic_load_n(&shim_control->slots[t->slot].off, __ATOMIC_RELAXED) == 0)
		shim_add_nested(1);
}

void shim_add_nested(uint64_t calls)
{
	struct shim_thread *t = &shim_t;
	if (calls == 0)
		return;
	if (__atomic_fetch_add(&t->ring->nested, calls, __ATOMIC_RELAXED) == 0)
		t->ring->nested_since = shim_now();
	t->room = 0; /* the next call tells of it */
}

void shim_write_nested(void)
{
	struct shim_thread *t = &shim_t;
	struct lost_record *r = (struct lost_record *)(t->base + (t->head & (t->size - 1)));
	*r = (struct lost_record){.h = {.size = sizeof *r, .func = LOST_NESTED, .type = REC_LOST, .state = STATE_DONE}, .since = t->ring->nested_since, .until = shim_now()};
	r->calls = __atomic_exchange_n(&t->ring->nested, 0, __ATOMIC_RELAXED);
	t->ring->seq += r->calls;
	__atomic_store_n(&t->ring->lost, t->ring->lost + r->calls, __ATOMIC_RELEASE);
	t->head += sizeof *r;
	__atomic_store_n(&t->ring->head, t->head, __ATOMIC_RELEASE);
}
