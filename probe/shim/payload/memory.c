/* A table that was full once is incomplete for good: see maybe_pinned. */
#include "payload/memory.h"

#include "base/hooks.h"
#include "payload/captured.h"
#include "payload/results.h"

struct range {
	uint64_t addr, end;
	bool registered; /* the program's memory, not allocated by the runtime */
	bool inherited;  /* of a parent: the driver may have kept it from the child */
};
struct ranges {
	struct range *at;
	uint32_t size;
	uint32_t used; /* slots ever used */
	bool forgot; /* a range had no room */
};

static void add_range(struct ranges *r, uint64_t addr, uint64_t len, bool registered)
{
	if (addr == 0)
		return;
	for (uint32_t i = 0; i < r->size; i++) {
		uint64_t was = 0;
		if (__atomic_load_n(&r->at[i].addr, __ATOMIC_RELAXED) == 0 &&
		    __atomic_compare_exchange_n(&r->at[i].addr, &was, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			r->at[i].end = addr + len;
			r->at[i].registered = registered;
			r->at[i].inherited = false;
			__atomic_store_n(&r->at[i].addr, addr, __ATOMIC_RELEASE);
			raise_to(&r->used, i + 1);
			return;
		}
	}
	r->forgot = true;
}

static bool in_range(const struct ranges *r, uint64_t addr)
{
	uint32_t n = __atomic_load_n(&r->used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t a = __atomic_load_n(&r->at[i].addr, __ATOMIC_ACQUIRE);
		if (a > 1 && addr >= a && addr < r->at[i].end)
			return true;
	}
	return false;
}

/* Whether the program may read all of the memory: the runtime has allocated it, and has not freed it. */
static bool in_allocation(const struct ranges *r, uint64_t addr, uint64_t len)
{
	uint32_t n = __atomic_load_n(&r->used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		const struct range *at = &r->at[i];
		uint64_t a = __atomic_load_n(&at->addr, __ATOMIC_ACQUIRE);
		bool in = a > 1 && addr >= a && addr < at->end && len <= at->end - addr && !at->registered && !at->inherited;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (in && __atomic_load_n(&at->addr, __ATOMIC_RELAXED) == a) /* else the slot was reused meanwhile */
			return true;
	}
	return false;
}

/* Removes and returns the range that begins at an address. Its end is 0 if there is none. */
static struct range end_range(struct ranges *r, uint64_t addr, bool registered)
{
	uint32_t n = __atomic_load_n(&r->used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		if (__atomic_load_n(&r->at[i].addr, __ATOMIC_ACQUIRE) != addr || r->at[i].registered != registered)
			continue;
		struct range was = r->at[i];
		__atomic_store_n(&r->at[i].addr, 0, __ATOMIC_RELEASE);
		return was;
	}
	return (struct range){0};
}

/*
 * The driver maps its whole window (device_from to device_to) at its first use. So an address in the window is the device's, unless the runtime has
 * allocated host memory there. Device memory outside the window is known from the calls that return it. An asynchronous copy from or to host memory
 * of the runtime goes on after the call has returned.
 */
static struct range host_ranges[8192], far_ranges[FAR_KINDS][SHIM_FAR];
static struct ranges host = {.at = host_ranges, .size = 8192};
static struct ranges far[FAR_KINDS] = {{.at = far_ranges[ALLOCATED], .size = SHIM_FAR}, {.at = far_ranges[RESERVED], .size = SHIM_FAR}};

void shim_host_new(uint64_t addr, uint64_t len, bool registered)
{
	add_range(&host, addr, len, registered);
	if (registered)
		visible_new(addr, len);
}
void shim_far_new(enum far_memory kind, uint64_t addr, uint64_t len) { add_range(&far[kind], addr, len, false); }
void shim_far_end(enum far_memory kind, uint64_t addr) { end_range(&far[kind], addr, false); }

void shim_visible_new(enum far_memory kind, uint64_t addr, uint64_t len)
{
	shim_device_new(kind, addr, len);
	visible_new(addr, len);
}

bool pinned(uint64_t addr) { return in_range(&host, addr); }
bool allocated(uint64_t addr, uint64_t len) { return in_allocation(&host, addr, len); }

static void forget_parent(void)
{
	for (uint32_t i = 0; i < host.used; i++)
		host.at[i].inherited = true;
}

SHIM_HOOKS(.process = forget_parent);

bool on_device(uint64_t addr)
{
	return shim_in_window(addr) ? !pinned(addr) : in_range(&far[ALLOCATED], addr) || in_range(&far[RESERVED], addr);
}

bool maybe_pinned(void) { return host.forgot; }
bool maybe_on_device(void) { return far[ALLOCATED].forgot || far[RESERVED].forgot; }

/* Memory of the runtime may be registered too. Then it stays pinned after the registration, and the registration ends with the memory. */
void shim_host_end(uint64_t addr, bool registered)
{
	struct range r = end_range(&host, addr, registered);
	if (r.end == 0)
		return;
	if (registered && shim_visible != 0)
		shim_visible_end(addr);
	if (registered && pinned(addr))
		return;
	uint32_t n = registered ? 0 : __atomic_load_n(&host.used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t a = __atomic_load_n(&host.at[i].addr, __ATOMIC_ACQUIRE);
		if (a >= addr && a < r.end && host.at[i].registered)
			shim_host_end(a, true);
	}
	give_up_pending(addr, r.end - addr, registered ? UNREGISTERED : FREED);
	forget_captured(addr, r.end);
}
