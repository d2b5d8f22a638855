/*
 * The window of a long plan's data. The data is a private copy, since the player writes relocations and spoils into it. So that the copy does not grow
 * with the plan, pages that all threads of the process have passed are given back, and have the file's content again. A page stays if one of its
 * relocations outlives its call: the runtime may still read it.
 */
#include "player.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { WINDOW = 64 << 20, WINDOW_STEP = 4 << 20, PAGE = 4096 };

static struct {
	uint8_t *lasting;    /* by page: 1 if it stays; NULL in a short plan, which keeps all pages */
	uint64_t *passed;    /* by thread: offset of the relocation that it stored last */
	uint64_t first, end; /* threads of this process */
	uint64_t released;   /* index of the first page that was not given back */
} window;

bool long_plan(void) { return P.plan->data > WINDOW; }

static void release_data(void)
{
	uint64_t to = UINT64_MAX, from = __atomic_load_n(&window.released, __ATOMIC_RELAXED);
	for (uint64_t t = window.first; t < window.end; t++) {
		uint64_t passed = __atomic_load_n(&window.passed[t], __ATOMIC_ACQUIRE);
		to = passed < to ? passed : to;
	}
	to = to < WINDOW ? 0 : (to - WINDOW) / PAGE;
	do {
		if (from >= to)
			return;
	} while (!__atomic_compare_exchange_n(&window.released, &from, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	for (uint64_t end; from < to; from = end) {
		bool lasting = window.lasting[from] != 0;
		for (end = from + 1; end < to && (window.lasting[end] != 0) == lasting; end++)
			;
		if (!lasting)
			madvise(P.data + from * PAGE, (end - from) * PAGE, MADV_DONTNEED);
	}
}

void pass_data(uint64_t thread, const struct plan_instruction *in, const struct plan_reloc *spoils)
{
	const struct plan_reloc *l = &P.relocs[in->relocs];
	const uint64_t base = (uint64_t)in->base * DATA_ALIGN, first = base + l->at;
	for (; !(l->flags & RELOC_SPOIL); l++) {
		bool covered = false;
		for (const struct plan_reloc *s = spoils; s != NULL && !covered; s = s->flags & RELOC_LAST ? NULL : s + 1)
			covered = l->at - s->at < s->addend;
		if (!covered)
			window.lasting[(base + l->at) / PAGE] = 1;
		if (l->flags & RELOC_LAST)
			break;
	}
	uint64_t before = window.passed[thread];
	if (first <= before)
		return; /* data of an earlier call, whose result is checked now */
	__atomic_store_n(&window.passed[thread], first, __ATOMIC_RELEASE);
	if (first / WINDOW_STEP != before / WINDOW_STEP)
		release_data();
}

void end_data(uint64_t thread) { __atomic_store_n(&window.passed[thread], UINT64_MAX, __ATOMIC_RELEASE); }

static void *zeroed(uint64_t n, size_t size)
{
	void *p = calloc(n, size);
	if (p == NULL)
		refuse("allocate %llu bytes: out of memory", (unsigned long long)(n * size));
	return p;
}

void open_window(const struct plan_process *p)
{
	window.first = p->first;
	window.end = p->first + p->count;
	if (!long_plan() || window.lasting != NULL)
		return;
	window.lasting = zeroed(P.plan->data / PAGE + 1, 1);
	window.passed = zeroed(P.plan->threads.count, sizeof *window.passed);
	P.windowed = true;
}
