/*
 * Device memory at its recorded addresses, for the CUDA driver, whose functions take no address.
 *
 * Before the driver is initialised, the recorded ranges are mapped without access rights, so that the driver does not use them. An allocation
 * gives back its part of a range, reserves it by the driver's address functions, and maps memory there. Memory stays mapped after it is freed,
 * for the next allocation at the address. If a range is not available, the driver places the allocation, and the replay reports the address.
 *
 * The file that PLACE_VARIABLE names has the ranges: a line "ADDRESS SIZE" for each allocation, in their order.
 */
#define _GNU_SOURCE
#include "place.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PLACE_UNIT = 2 << 20 }; /* bytes; memory is mapped in such units */

struct place_range {
	uint64_t at, size;
	enum { PLACE_TO_COME, PLACE_LIVE, PLACE_ENDED } state;
	void *freed; /* event that is complete when the stream `by` has freed it */
	void *by;
};

static struct {
	pthread_mutex_t lock;
	struct place_range *ranges;
	size_t count, next; /* all ranges before next have come */
	struct place_range **live, **freed; /* allocations; freed ones that have an event */
	size_t live_count, next_freed;
	struct { uint64_t at; bool held, mapped; } *units; /* that overlap the ranges, sorted by address */
	size_t units_count;
	int (*init)(unsigned);
	int (*alloc)(uint64_t *, size_t), (*free)(uint64_t), (*range)(uint64_t *, size_t *, uint64_t);
	int (*alloc_async[2])(uint64_t *, size_t, void *), (*alloc_pool[2])(uint64_t *, size_t, void *, void *), (*free_async[2])(uint64_t, void *);
	int (*reserve)(uint64_t *, size_t, size_t, uint64_t, unsigned long long), (*unreserve)(uint64_t, size_t);
	int (*create)(uint64_t *, size_t, const void *, unsigned long long), (*map)(uint64_t, size_t, size_t, uint64_t, unsigned long long);
	int (*access)(uint64_t, size_t, const void *, size_t), (*device)(int *), (*synchronize)(void);
	int (*capturing[2])(void *, int *), (*event)(void **, unsigned), (*record[2])(void *, void *), (*await)(void *), (*forget)(void *);
} place = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int place_ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Returns the index of the first unit at or after an address. */
static size_t place_unit(uint64_t at)
{
	size_t from = 0, to = place.units_count;
	while (from < to) {
		size_t k = from + (to - from) / 2;
		if (place.units[k].at < at)
			from = k + 1;
		else
			to = k;
	}
	return from;
}

static void place_hold(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (!place.units[i].held)
			place.units[i].held = mmap((void *)(uintptr_t)place.units[i].at, PLACE_UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) ==
				(void *)(uintptr_t)place.units[i].at;
}

static int place_init(unsigned flags)
{
	place_hold(0, place.units_count);
	return place.init(flags);
}

static void place_give_back(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		if (place.units[i].held)
			munmap((void *)(uintptr_t)place.units[i].at, PLACE_UNIT);
		place.units[i].held = false;
	}
}

/* Maps device memory into consecutive units that are held. */
static bool place_map(size_t from, size_t to)
{
	struct { int type, handles, location, device; void *other; uint64_t flags; } prop = {.type = 1 /* pinned */, .location = 1 /* a device */};
	struct { int location, device, flags; } access = {.location = 1, .flags = 3 /* read and write */};
	uint64_t at = place.units[from].at, size = (to - from) * (uint64_t)PLACE_UNIT, got = 0, handle;
	if (place.device(&prop.device) != 0)
		return false;
	access.device = prop.device;
	place_give_back(from, to);
	if (place.reserve(&got, size, 0, at, 0) != 0)
		return false;
	if (got != at || place.create(&handle, size, &prop, 0) != 0) {
		place.unreserve(got, size);
		place_hold(from, to);
		return false;
	}
	if (place.map(at, size, 0, handle, 0) != 0 || place.access(at, size, &access, 1) != 0)
		return false;
	for (size_t i = from; i < to; i++)
		place.units[i].mapped = true;
	return true;
}

/* Whether a range overlaps a live allocation. */
static bool place_taken(const struct place_range *r)
{
	for (size_t i = 0; i < place.live_count; i++)
		if (r->at < place.live[i]->at + place.live[i]->size && place.live[i]->at < r->at + r->size)
			return true;
	return false;
}

/* Returns the next recorded allocation of a size, NULL if there is none. */
static struct place_range *place_wanted(uint64_t size)
{
	while (place.next < place.count && place.ranges[place.next].state != PLACE_TO_COME)
		place.next++;
	for (size_t i = place.next; i < place.count; i++)
		if (place.ranges[i].state == PLACE_TO_COME && place.ranges[i].size == size)
			return &place.ranges[i];
	return NULL;
}

/*
 * Returns the event of memory in a range that was freed on a stream and may still be in use. The caller owns the event. NULL if there is none, or
 * if the memory was freed on the stream `by` that gets it now.
 */
static void *place_pending(const struct place_range *r, const void *by)
{
	for (size_t i = 0; i < place.next_freed; i++) {
		struct place_range *old = place.freed[i];
		if (old->at >= r->at + r->size || r->at >= old->at + old->size)
			continue;
		void *event = old->freed;
		place.freed[i--] = place.freed[--place.next_freed];
		old->freed = NULL;
		if ((uintptr_t)by <= 2 || by != old->by) /* default streams have one handle for several */
			return event;
		place.forget(event);
	}
	return NULL;
}

/*
 * Places an allocation at the address of the next recorded one of its size, and waits until the memory is free there. `by` is the stream that
 * allocates. Returns false if a live allocation overlaps: then the recorded call had failed, and the driver will refuse it too.
 */
static bool place_next(uint64_t *p, size_t size, const void *by)
{
	bool ok = false;
	pthread_mutex_lock(&place.lock);
	struct place_range *r = place_wanted(size);
	if (r && p != NULL && !place_taken(r)) {
		size_t from = place_unit(r->at / PLACE_UNIT * PLACE_UNIT), to = place_unit(r->at + size);
		r->state = PLACE_ENDED;
		ok = true;
		for (size_t i = from; i < to && ok; i++) {
			size_t run = i;
			while (run < to && !place.units[run].mapped && place.units[run].held)
				run++;
			ok = run > i ? place_map(i, run) : place.units[i].mapped;
		}
		if (ok) {
			r->state = PLACE_LIVE;
			place.live[place.live_count++] = r;
			*p = r->at;
		}
	}
	for (void *event; ok && (event = place_pending(r, by)) != NULL;) {
		pthread_mutex_unlock(&place.lock);
		place.await(event);
		place.forget(event);
		pthread_mutex_lock(&place.lock);
	}
	pthread_mutex_unlock(&place.lock);
	return ok;
}

/* Returns the entry of place.live that has an address, NULL for none. */
static struct place_range **place_live(uint64_t at)
{
	for (size_t i = 0; i < place.live_count; i++)
		if (at - place.live[i]->at < place.live[i]->size)
			return &place.live[i];
	return NULL;
}

static bool place_end(uint64_t at, void *event, void *by)
{
	pthread_mutex_lock(&place.lock);
	struct place_range **r = place_live(at);
	bool is = r && (*r)->at == at; /* for another address the driver returns an error */
	if (is) {
		(*r)->state = PLACE_ENDED;
		(*r)->freed = event, (*r)->by = by;
		if (event)
			place.freed[place.next_freed++] = *r;
		*r = place.live[--place.live_count];
	}
	pthread_mutex_unlock(&place.lock);
	return is;
}

/* Returns a new event for the work that is on a stream now. NULL on failure, or while the stream is captured. */
static void *place_event(void *stream, int own)
{
	void *event = NULL;
	int captured = 0;
	if (place.capturing[own] == NULL || place.record[own] == NULL || place.event == NULL || place.await == NULL || place.forget == NULL ||
	    place.capturing[own](stream, &captured) != 0 || captured || place.event(&event, 2 /* no times */) != 0)
		return NULL;
	if (place.record[own](event, stream) == 0)
		return event;
	place.forget(event);
	return NULL;
}

static int place_free_on(uint64_t p, void *s, int own)
{
	pthread_mutex_lock(&place.lock);
	struct place_range **r = place_live(p);
	bool is = r && (*r)->at == p;
	pthread_mutex_unlock(&place.lock);
	if (!is)
		return place.free_async[own](p, s);
	place_end(p, place_event(s, own), s);
	return 0;
}

static int place_alloc(uint64_t *p, size_t size) { return place_next(p, size, NULL) ? 0 : place.alloc(p, size); }
static int place_alloc_async(uint64_t *p, size_t size, void *s) { return place_next(p, size, s) ? 0 : place.alloc_async[0](p, size, s); }
static int place_alloc_async_ptsz(uint64_t *p, size_t size, void *s) { return place_next(p, size, s) ? 0 : place.alloc_async[1](p, size, s); }
static int place_alloc_pool(uint64_t *p, size_t size, void *pool, void *s) { return place_next(p, size, s) ? 0 : place.alloc_pool[0](p, size, pool, s); }
static int place_alloc_pool_ptsz(uint64_t *p, size_t size, void *pool, void *s) { return place_next(p, size, s) ? 0 : place.alloc_pool[1](p, size, pool, s); }
/* Waits for all work that may use the memory, as the driver does. */
static int place_free(uint64_t p) { return place_end(p, NULL, NULL) ? place.synchronize() : place.free(p); }
static int place_free_async(uint64_t p, void *s) { return place_free_on(p, s, 0); }
static int place_free_async_ptsz(uint64_t p, void *s) { return place_free_on(p, s, 1); }

static int place_range(uint64_t *base, size_t *size, uint64_t p)
{
	pthread_mutex_lock(&place.lock);
	struct place_range **r = place_live(p);
	if (r && base)
		*base = (*r)->at;
	if (r && size)
		*size = (*r)->size;
	pthread_mutex_unlock(&place.lock);
	return r ? 0 : place.range(base, size, p);
}

/* A reservation of addresses: asks the driver for the recorded ones. */
static int place_reserve(uint64_t *p, size_t size, size_t align, uint64_t at, unsigned long long flags)
{
	pthread_mutex_lock(&place.lock);
	struct place_range *r = place_wanted(size);
	if (r) {
		r->state = PLACE_ENDED;
		place_give_back(place_unit(r->at), place_unit(r->at + size));
		at = r->at;
	}
	pthread_mutex_unlock(&place.lock);
	return place.reserve(p, size, align, at, flags);
}

static void place_read(void)
{
	const char *path = getenv(PLACE_VARIABLE);
	FILE *f = path && *path ? fopen(path, "r") : NULL;
	unsigned long long at, size;
	size_t units = 0;
	while (f && fscanf(f, "%llx %llu", &at, &size) == 2) {
		if (size == 0 || at + size + PLACE_UNIT < at)
			continue;
		void *more = realloc(place.ranges, (place.count + 1) * sizeof *place.ranges);
		if (more == NULL)
			break;
		place.ranges = more;
		place.ranges[place.count++] = (struct place_range){.at = at, .size = size, .state = PLACE_TO_COME};
		units += (at + size + PLACE_UNIT - 1) / PLACE_UNIT - at / PLACE_UNIT;
	}
	if (f)
		fclose(f);
	uint64_t *all = calloc(units + 1, sizeof *all);
	place.units = calloc(units + 1, sizeof *place.units);
	place.live = calloc(place.count + 1, sizeof *place.live);
	place.freed = calloc(place.count + 1, sizeof *place.freed);
	if (all == NULL || place.units == NULL || place.live == NULL || place.freed == NULL) {
		place.count = 0;
		return;
	}
	units = 0;
	for (size_t i = 0; i < place.count; i++)
		for (uint64_t k = place.ranges[i].at / PLACE_UNIT * PLACE_UNIT; k < place.ranges[i].at + place.ranges[i].size; k += PLACE_UNIT)
			all[units++] = k;
	qsort(all, units, sizeof *all, place_ascending);
	for (size_t i = 0; i < units; i++)
		if (i == 0 || all[i] != all[i - 1])
			place.units[place.units_count++].at = all[i];
	free(all);
}

void *place_cuda(void *library, const char *name, void *real)
{
	const struct { const char *name; void *own, *real; } functions[] = {
		{"cuInit", (void *)place_init, &place.init},
		{"cuMemAlloc_v2", (void *)place_alloc, &place.alloc},
		{"cuMemFree_v2", (void *)place_free, &place.free},
		{"cuMemGetAddressRange_v2", (void *)place_range, &place.range},
		{"cuMemAllocAsync", (void *)place_alloc_async, &place.alloc_async[0]},
		{"cuMemAllocAsync_ptsz", (void *)place_alloc_async_ptsz, &place.alloc_async[1]},
		{"cuMemAllocFromPoolAsync", (void *)place_alloc_pool, &place.alloc_pool[0]},
		{"cuMemAllocFromPoolAsync_ptsz", (void *)place_alloc_pool_ptsz, &place.alloc_pool[1]},
		{"cuMemFreeAsync", (void *)place_free_async, &place.free_async[0]},
		{"cuMemFreeAsync_ptsz", (void *)place_free_async_ptsz, &place.free_async[1]},
		{"cuMemAddressReserve", (void *)place_reserve, &place.reserve},
	};
	static const struct { const char *name; void *real; } used[] = {
		{"cuMemAddressReserve", &place.reserve}, {"cuMemAddressFree", &place.unreserve}, {"cuMemCreate", &place.create}, {"cuMemMap", &place.map},
		{"cuMemSetAccess", &place.access}, {"cuCtxGetDevice", &place.device}, {"cuCtxSynchronize", &place.synchronize},
	}, wanted[] = {
		{"cuStreamIsCapturing", &place.capturing[0]}, {"cuStreamIsCapturing_ptsz", &place.capturing[1]}, {"cuEventRecord", &place.record[0]},
		{"cuEventRecord_ptsz", &place.record[1]}, {"cuEventCreate", &place.event}, {"cuEventSynchronize", &place.await}, {"cuEventDestroy_v2", &place.forget},
	};
	static bool begun;
	if (getenv(PLACE_VARIABLE) == NULL)
		return real;
	if (!begun) {
		begun = true;
		place_read();
		for (size_t i = 0; i < sizeof used / sizeof *used; i++)
			if ((*(void **)used[i].real = dlsym(library, used[i].name)) == NULL)
				place.count = 0; /* the driver can't map memory at an address */
		for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
			*(void **)wanted[i].real = dlsym(library, wanted[i].name);
	}
	for (size_t i = 0; i < sizeof functions / sizeof *functions && place.count > 0 && real != NULL; i++)
		if (strcmp(functions[i].name, name) == 0) {
			*(void **)functions[i].real = real;
			return functions[i].own;
		}
	return real;
}
