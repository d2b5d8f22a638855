#include "task/pairs.h"

#include "base/sys.h"

static struct pair pairs[PAIRS];
static uint32_t used; /* pairs that were ever taken */
static uint32_t waiting; /* atomic */

/* The free pairs have the streams' form: free_pairs is no stream's handle. A line with pairs never moves; one without gets the next key. */
static const char free_pairs;
static struct line {
	const void *stream, *context;
	struct pair *first, *last;
} lines[PAIRS];
static uint32_t lines_used; /* atomic */

static uint32_t busy, lost; /* atomic */

static bool lock(void)
{
	enum { SHORTLY = 100, LONG = 1000000 };
	for (uint32_t n = 0; __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE) != 0; n++) {
		if (n > LONG || __atomic_load_n(&lost, __ATOMIC_RELAXED)) {
			__atomic_store_n(&lost, 1, __ATOMIC_RELAXED);
			return false;
		}
		if (n > SHORTLY)
			sys0(__NR_sched_yield);
	}
	return true;
}

static void unlock(void) { __atomic_store_n(&busy, 0, __ATOMIC_RELEASE); }

/* Returns the line of a key, or an empty one for it. There is one: a pair is in one line. */
static struct line *line_of(const void *stream, const void *context)
{
	struct line *empty = NULL;
	for (uint32_t i = 0; i < lines_used; i++) {
		struct line *l = &lines[i];
		if (l->first == NULL)
			empty = empty == NULL ? l : empty;
		else if (l->stream == stream && l->context == context)
			return l;
	}
	if (empty == NULL) {
		empty = &lines[lines_used];
		__atomic_store_n(&lines_used, lines_used + 1, __ATOMIC_RELEASE);
	}
	empty->stream = stream;
	empty->context = context;
	empty->last = NULL;
	return empty;
}

/* Takes the pair after `before`, the first one if it is NULL. */
static struct pair *unlink_after(struct line *l, struct pair *before)
{
	struct pair **at = before == NULL ? &l->first : &before->next, *p = *at;
	if (p == NULL)
		return NULL;
	*at = p->next;
	if (l->last == p)
		l->last = before;
	if (!p->free)
		__atomic_sub_fetch(&waiting, 1, __ATOMIC_RELAXED);
	return p;
}

/* Inserts a pair by its order, which is the last one in most cases. */
static void put(struct pair *p, bool free)
{
	if (!lock())
		return;
	p->free = free;
	struct line *l = line_of(free ? (const void *)&free_pairs : p->place.stream, p->context);
	struct pair *before = l->first == NULL || free || l->first->place.order > p->place.order ? NULL : l->last;
	if (before != NULL && before->place.order > p->place.order)
		for (before = l->first; before->next != NULL && before->next->place.order < p->place.order;)
			before = before->next;
	struct pair **at = before == NULL ? &l->first : &before->next;
	p->next = *at;
	*at = p;
	if (p->next == NULL)
		l->last = p;
	if (!free)
		__atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED);
	unlock();
}

void pair_free(struct pair *p) { put(p, true); }
void pair_wait(struct pair *p) { put(p, false); }

struct pair *pair_take(const void *context)
{
	struct pair *p = NULL;
	if (!lock())
		return NULL;
	struct line *none = NULL, *other = NULL;
	for (uint32_t i = 0; i < lines_used && p == NULL; i++) {
		struct line *l = &lines[i];
		if (l->first == NULL || l->stream != &free_pairs)
			continue;
		if (l->context == context)
			p = unlink_after(l, NULL);
		else if (l->context == NULL)
			none = l;
		else
			other = l;
	}
	if (p == NULL && none != NULL)
		p = unlink_after(none, NULL);
	if (p == NULL && used < PAIRS)
		p = &pairs[used++];
	if (p == NULL && other != NULL)
		p = unlink_after(other, NULL);
	unlock();
	return p;
}

uint32_t pairs_waiting(void) { return __atomic_load_n(&waiting, __ATOMIC_RELAXED); }
bool pairs_used(void) { return __atomic_load_n(&used, __ATOMIC_RELAXED) != 0; }
uint32_t pairs_lines(void) { return __atomic_load_n(&lines_used, __ATOMIC_ACQUIRE); }

struct pair *pair_oldest(uint32_t line)
{
	struct line *l = &lines[line];
	if (!lock())
		return NULL;
	struct pair *p = l->stream == &free_pairs ? NULL : unlink_after(l, NULL);
	unlock();
	return p;
}

struct pair *pair_find(bool (*wanted)(const struct pair *p, const void *why), const void *why)
{
	struct pair *found = NULL;
	if (!lock())
		return NULL;
	for (uint32_t i = 0; i < lines_used && found == NULL; i++) {
		struct pair *before = NULL;
		for (struct pair *p = lines[i].first; p != NULL && found == NULL; before = p, p = p->next)
			if (wanted(p, why))
				found = unlink_after(&lines[i], before);
	}
	unlock();
	return found;
}

void pairs_forget(void)
{
	for (uint32_t i = 0; i < used; i++)
		pairs[i] = (struct pair){0};
	for (uint32_t i = 0; i < lines_used; i++)
		lines[i] = (struct line){0};
	used = waiting = lines_used = busy = lost = 0;
}
