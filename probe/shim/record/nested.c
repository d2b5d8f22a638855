/*
 * Calls that a thread makes inside another call. Calls by the runtime itself are part of the outer one. Calls by a signal handler are the
 * program's, but no record can begin inside another: they are counted as lost. A handler's call is recognized by two facts: it returns to code
 * outside the runtime's folder, and a kernel's signal frame is between it and the outer call.
 */
#include "record/nested.h"

#include <link.h>

#include "base/copy.h"
#include "base/loader.h"
#include "base/lookup.h"
#include "base/sys.h"
#include "session/share.h"
#include "session/thread.h"

enum { KNOWN = 256, RETURNS = 4 };

/* Cache: a return address shifted left, plus 1 if it is in the runtime. Wrong if another library is loaded at the same address later. */
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
		if (!lookup_of_runtime(r->l_name) || folder(r->l_name) != n)
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

/* Addresses to which signal handlers return. */
static uint64_t returns[RETURNS];

static void add_return(uint64_t at)
{
	for (int i = 0; i < RETURNS && at != 0; i++) {
		uint64_t was = 0;
		if (__atomic_compare_exchange_n(&returns[i], &was, at, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || was == at)
			return;
	}
}

static void find_returns(void)
{
#if defined(__x86_64__)
	/* The C library's, and those of handlers that the program has set without it. */
	enum { SIGNALS = 64, RESTORER = 0x04000000 };
	struct { uint64_t handler, flags, restorer, mask; } old;
	for (int i = 1; i <= SIGNALS; i++)
		if (sys4(__NR_rt_sigaction, i, NULL, &old, sizeof old.mask) == 0 && (old.flags & RESTORER))
			add_return(old.restorer);
#else
	for (const struct link_map *l = shim_objects(); l; l = l->l_next)
		add_return((uint64_t)lookup_in(l, "__kernel_rt_sigreturn"));
#endif
}

/* Whether a signal frame is between this frame and the outer call's. There may also be coroutine stacks. */
static bool in_handler(const uint8_t *frame, const uint8_t *outer)
{
	enum { PART = 512, MOST = 64 * 1024 };
	uint64_t words[PART / 8];
	if (shim_filtered() || on_signal_stack()) /* no system calls, or a stack that only handlers use */
		return true;
	for (const uint8_t *p = frame, *end = outer - frame > MOST ? frame + MOST : outer; p < end; p += PART) {
		uint64_t n = (uint64_t)(end - p) < PART ? (uint64_t)(end - p) & ~(uint64_t)7 : PART;
		if (n == 0 || !shim_careful_copy(words, p, n))
			return false;
		for (uint64_t i = 0; i < n / 8; i++)
			for (int k = 0; k < RETURNS && returns[k]; k++)
				if (words[i] == returns[k])
					return true;
	}
	return false;
}

bool on_signal_stack(void)
{
	struct { void *sp; int flags; uint64_t size; } stack = {NULL, 0, 0};
	enum { ON_STACK = 1, NEAR = 1 << 20 };
	if (shim_filtered()) /* no system calls: assume another stack if the frames are far apart */
		return (uint64_t)__builtin_frame_address(0) - (uint64_t)shim_t.frame >= NEAR;
	return sys2(__NR_sigaltstack, NULL, &stack) != 0 || (stack.flags & ON_STACK);
}

bool shim_abandoned(void)
{
	struct shim_thread *t = &shim_t;
	if (on_signal_stack())
		return false;
	t->depth = 1;
	if (t->base == NULL)
		return true;
	/* The published part of the record stays. A later record has already moved t->head. */
	uint64_t head = __atomic_load_n(&t->ring->head, __ATOMIC_RELAXED);
	if (head != t->head) {
		struct record *r = (struct record *)(t->base + (t->head & (t->size - 1)));
		t->head = head;
		__atomic_store_n(&r->state, STATE_ABANDONED, __ATOMIC_RELEASE);
	}
	return true;
}

static void count_nested(void)
{
	struct shim_thread *t = &shim_t;
	if (t->base == NULL && !t->off) {
		/* The thread's first call is still making the ring. */
		if (__atomic_load_n(&shim_control->off, __ATOMIC_RELAXED) == OFF_NO)
			__atomic_fetch_add(&t->lost, 1, __ATOMIC_RELAXED);
	} else if (shim_p->ready == PROCESS_RECORDS && t->generation == shim_p->generation && (t->off || __atomic_load_n(&shim_control->slots[t->slot].off, __ATOMIC_RELAXED) == 0))
		shim_add_nested(1);
}

void shim_nested(void *frame)
{
	struct shim_thread *t = &shim_t;
	static uint32_t others; /* calls by neither the runtime nor a handler, such as a tool between shim and runtime */
	/* The word after the saved frame pointer is the wrapper's return address. */
	if (of_the_runtime(((uint64_t *)frame)[1]))
		return;
	if (!shim_stranger() && !in_handler(frame, t->frame)) {
		uint32_t n = __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
		if (n & (n - 1)) /* look for new handlers after 1, 2, 4, 8 ... such calls */
			return;
		find_returns();
		if (!in_handler(frame, t->frame))
			return;
	}
	count_nested();
}
