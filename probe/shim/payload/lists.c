/* No call ends a list. A new list takes the place of the oldest one in its set. */
#include "payload/lists.h"

#include "base/hooks.h"
#include "base/limits.h"
#include "base/sys.h"
#include "record/piece.h"

enum { LISTS = 1024, WAYS = 4, BUFFERS = 64 };
static struct list {
	void *args;
	uint64_t begun; /* 0: unused */
	uint32_t used; /* may be more than BUFFERS */
	struct { uint64_t addr, len; } buffer[BUFFERS];
} (*lists)[WAYS]; /* mapped for the first ring */
static uint64_t lists_begun;

static void open_lists(void) { shim_map_once(&lists, sizeof *lists * LISTS, -1); }

SHIM_HOOKS(.thread = open_lists, .filter = open_lists);

static struct list *lists_of(const void *args) { return lists[((uint64_t)args * 0x9e3779b97f4a7c15ULL >> 32) % LISTS]; }

static struct list *list_of(const void *args)
{
	if (__atomic_load_n(&lists, __ATOMIC_ACQUIRE) == NULL)
		return NULL;
	struct list *l = lists_of(args);
	for (int i = 0; i < WAYS; i++)
		if (__atomic_load_n(&l[i].args, __ATOMIC_ACQUIRE) == args)
			return &l[i];
	return NULL;
}

void shim_buffers_reset(void *args)
{
	if (__atomic_load_n(&lists, __ATOMIC_ACQUIRE) == NULL)
		return;
	struct list *l = list_of(args), *of = lists_of(args);
	for (int i = 0; i < WAYS && l == NULL; i++) {
		/* Another thread may take the place first. */
		struct list *oldest = of;
		for (int k = 1; k < WAYS; k++)
			if (__atomic_load_n(&of[k].begun, __ATOMIC_RELAXED) < __atomic_load_n(&oldest->begun, __ATOMIC_RELAXED))
				oldest = &of[k];
		void *was = __atomic_load_n(&oldest->args, __ATOMIC_RELAXED);
		if (__atomic_compare_exchange_n(&oldest->args, &was, args, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			l = oldest;
	}
	if (l == NULL)
		return;
	__atomic_store_n(&l->begun, __atomic_add_fetch(&lists_begun, 1, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	l->used = 0;
}

void shim_buffer(void *args, void *param, uint64_t addr, uint64_t len)
{
	struct list *l = list_of(args);
	(void)param;
	if (l == NULL)
		return;
	if (l->used < BUFFERS) {
		l->buffer[l->used].addr = addr;
		l->buffer[l->used].len = len;
	}
	l->used++;
}

void shim_buffers_captured(struct shim_call *c, uint8_t param, void *args)
{
	const struct list *l = list_of(args);
	for (uint32_t i = 0; l != NULL && i < l->used && i < BUFFERS; i++)
		far_piece(c, param, 1 + i, l->buffer[i].addr, l->buffer[i].len);
}
