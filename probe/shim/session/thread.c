/*
 * A thread's ring is made at its first call, or taken over from a thread that has ended. Calls without room are counted in the ring, calls of
 * threads without a ring in the process's file. See ring.h.
 */
#include "session/thread.h"

#include <asm/fcntl.h>
#include <linux/mman.h>

#include "base/clock.h"
#include "base/hooks.h"
#include "base/sys.h"
#include "session/pool.h"
#include "session/process.h"
#include "session/session.h"
#include "session/slot.h"

#define ENOENT 2
#define ESRCH 3
#define HEARTBEAT_NS 500000000ULL
/* Of the silence, a waiting thread must see this much itself; and one pause counts PAUSE_NS at most. The whole machine may have stood still. */
#define SEEN_NS 200000000ULL
#define PAUSE_NS 10000000ULL
#define SHORTEST_PAUSE_NS 20000
#define LONGEST_PAUSE_NS 5000000

/* The rings of this process, by slot. */
static uint8_t *mapped[RING_MAX_SLOTS];

static uint8_t *base_of(const struct slot *s, uint32_t i) { return s->range == 0 ? mapped[i] : range_at(s->range - 1); }

/* Whether the thread of this process that had a slot has ended, and the recorder has emptied its ring. */
static bool left(const struct slot *s, uint32_t i)
{
	const struct ring *r = (const struct ring *)(base_of(s, i) - RING_HEADER);
	return __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) == __atomic_load_n(&r->head, __ATOMIC_RELAXED) &&
	       sys3(__NR_tgkill, shim_p->pid, s->tid, 0) == -ESRCH;
}

static void own_slot(struct slot *s, uint32_t i)
{
	enum { PR_NAME = 16 };
	bool filtered = shim_filtered();
	s->pid = shim_p->pid;
	s->tid = filtered ? thread_id(i) : (uint32_t)sys0(__NR_gettid);
	s->ppid = filtered ? 0 : (uint32_t)sys0(__NR_getppid);
	s->process = shim_p->generation;
	s->start = shim_now();
	__atomic_store_n(&s->off, 0, __ATOMIC_RELAXED);
	memset(s->name, 0, sizeof s->name);
	sys2(__NR_prctl, PR_NAME, s->name);
}

/* Takes a slot whose ring is this process's and unused: made ahead, or left by a thread that has ended. */
static bool take_left(struct slot *s, uint32_t i)
{
	uint32_t was = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
	if ((was != SLOT_LIVE && was != SLOT_READY) || s->process != shim_p->generation || base_of(s, i) == NULL)
		return false;
	if (was == SLOT_READY)
		return __atomic_compare_exchange_n(&s->state, &was, SLOT_TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (!left(s, i) || !__atomic_compare_exchange_n(&s->state, &was, SLOT_TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	if (left(s, i))
		return true;
	/* Another thread took it in between. */
	__atomic_store_n(&s->state, SLOT_LIVE, __ATOMIC_RELEASE);
	return false;
}

/*
 * Takes over a ring whose thread has ended, after the recorder has emptied it. Offsets and call numbers go on. The slot's generation shows the
 * recorder that the thread is another one.
 */
static bool reuse_ring(struct shim_thread *t)
{
	struct control *c = shim_control;
	uint32_t n = __atomic_load_n(&c->next_slot, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n && i < c->max_slots; i++) {
		struct slot *s = &c->slots[i];
		if (!take_left(s, i))
			continue;
		t->ring = (struct ring *)(base_of(s, i) - RING_HEADER);
		__atomic_signal_fence(__ATOMIC_SEQ_CST); /* who sees base may count in the ring */
		t->base = base_of(s, i);
		t->size = t->capacity = s->ring_bytes;
		t->head = __atomic_load_n(&t->ring->head, __ATOMIC_RELAXED);
		t->tail = __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
		t->slot = i;
		own_slot(s, i);
		__atomic_store_n(&s->generation, s->generation + 1, __ATOMIC_RELEASE);
		__atomic_store_n(&s->state, SLOT_LIVE, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

/* Notes that the thread gets no ring. */
static bool refuse(enum refusal why)
{
	struct control *c = shim_control;
	shim_t.shut_out = shim_filtered();
	__atomic_add_fetch(shim_t.shut_out ? &c->shut_out : &c->refused[why], 1, __ATOMIC_RELAXED);
	return false;
}

static bool make_ring(struct shim_thread *t)
{
	struct control *c = shim_control;
	enum refusal why = REFUSED_FILES;
	if (reuse_ring(t))
		return true;
	if (shim_filtered())
		return refuse(why);
	uint64_t size = claim_memory(1, c->ring_bytes, &why);
	if (size == 0)
		return refuse(why);
	uint32_t n = take_slot();
	why = REFUSED_SLOTS;
	if (n >= c->max_slots)
		goto no_slot;
	struct slot *s = &c->slots[n];
	own_slot(s, n);
	s->ring_bytes = size;
	s->range = 0;
	why = REFUSED_FILES;
	long fd = open_in_session("ring.", n, true, O_RDWR | O_CREAT | O_EXCL);
	if (fd == -ENOENT)
		look_for_session();
	if (fd < 0)
		goto no_file;
	/* The recorder may be another user in the folder's group. The folder keeps others out. */
	sys2(__NR_fchmod, fd, 0660);
	/* Allocate in full: a hole in a file on a full tmpfs would end the program by SIGBUS. */
	why = REFUSED_MEMORY;
	if (!allocate(fd, 0, RING_HEADER + size))
		goto no_map;
	why = REFUSED_LIMIT;
	long whole = sys_map(ring_addresses(size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	if (sys_failed(whole))
		goto no_map;
	if (!map_ring(whole, fd, 0, size, MAP_POPULATE)) {
		sys2(__NR_munmap, whole, ring_addresses(size));
		goto no_map;
	}
	sys1(__NR_close, fd);
	t->ring = (struct ring *)whole;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->base = (uint8_t *)whole + RING_HEADER;
	t->size = t->capacity = size;
	t->head = t->tail = 0;
	t->slot = n;
	mapped[n] = t->base;
	__atomic_store_n(&s->state, SLOT_LIVE, __ATOMIC_RELEASE);
	return true;
no_map:
	sys1(__NR_close, fd);
	remove_from_session("ring.", n);
no_file:
	return_slot(n);
no_slot:
	return_memory(size);
	return refuse(why);
}

void shim_set_room(void)
{
	struct shim_thread *t = &shim_t;
	bool plain = t->base != NULL && t->lost == 0 && t->owner == 0 && shim_control->clock == CLOCK_COUNTER && shim_control->stack_frames == 0 && shim_control->time_every == 0;
	t->room = plain ? t->tail + t->size - PLAIN_BYTES : 0;
}

/* In a process with a filter, a thread without a ring takes one that the recorder has made since. */
static void take_offer(struct shim_thread *t)
{
	uint32_t offered = __atomic_load_n(&shim_control->offered, __ATOMIC_ACQUIRE);
	if (t->confined || offered == t->offered)
		return;
	t->offered = offered;
	t->off = !reuse_ring(t);
	if (t->off)
		return;
	if (t->shut_out)
		__atomic_sub_fetch(&shim_control->shut_out, 1, __ATOMIC_RELAXED);
	shim_set_room();
}

/* Counts calls that are in no ring. */
static void lose_outside(uint64_t calls)
{
	struct process *p = shim_own_process();
	__atomic_add_fetch(p != NULL ? &p->unrecorded : &shim_control->unrecorded, calls, __ATOMIC_RELAXED);
}

static bool all_confined; /* new threads may not read the counter */

void shim_confine(bool heirs)
{
	struct shim_thread *t = &shim_t;
	t->confined = true;
	if (heirs)
		__atomic_store_n(&all_confined, true, __ATOMIC_RELAXED);
	if (t->off || t->base == NULL || t->generation != shim_p->generation)
		return;
	t->off = true;
	t->base = NULL;
	t->ring = NULL;
	shim_set_room();
	__atomic_add_fetch(&shim_control->shut_out, 1, __ATOMIC_RELAXED);
}

bool shim_open_thread(void)
{
	struct shim_thread *t = &shim_t;
	bool on = open_process();
	if (!on && !process_refused())
		return false;
	uint32_t off = __atomic_load_n(&shim_control->off, __ATOMIC_RELAXED);
	if (off == OFF_ENDED || (off == OFF_WAITING && __atomic_load_n(&shim_control->only, __ATOMIC_RELAXED) != shim_p->pid))
		return false;
	if (on && t->generation == shim_p->generation && t->off && shim_filtered())
		take_offer(t);
	if (t->generation != shim_p->generation) {
		/* The first call of the thread, or a child, which must not write to its parent's ring. */
		/* A child drops what its parent has counted. In a new thread all is 0, but for calls that signal handlers or other processes have counted. */
		if (t->generation != 0)
			*t = (struct shim_thread){.device = t->device, .late = t->late, .depth = t->depth, .frame = t->frame, .outer = t->outer, .outer_frame = t->outer_frame, .confined = t->confined};
		t->confined |= __atomic_load_n(&all_confined, __ATOMIC_RELAXED);
		t->generation = shim_p->generation;
		t->offered = __atomic_load_n(&shim_control->offered, __ATOMIC_ACQUIRE);
		t->off = on && !t->confined ? !make_ring(t) : !refuse(REFUSED_FILES);
		uint64_t nested = __atomic_exchange_n(&t->lost, 0, __ATOMIC_RELAXED);
		if (t->off)
			lose_outside(nested);
		else {
			shim_add_nested(nested);
			shim_calls();
		}
		shim_set_room();
		if (!t->off)
			SHIM_RUN_HOOKS(thread);
	}
	if (t->off)
		lose_outside(1);
	return !t->off;
}

void shim_lose(void)
{
	struct shim_thread *t = &shim_t;
	if (t->lost++ == 0)
		t->ring->lost_since = shim_now();
	t->ring->lost_until = shim_now();
	__atomic_store_n(&t->ring->lost, t->ring->lost + 1, __ATOMIC_RELEASE);
	t->ring->seq++;
	shim_set_room();
}

void shim_write_lost(void)
{
	struct shim_thread *t = &shim_t;
	struct lost_record *r = shim_next_record();
	*r = (struct lost_record){.h = {.size = sizeof *r, .type = REC_LOST, .state = STATE_DONE}, .calls = t->lost, .since = t->ring->lost_since, .until = shim_now()};
	t->lost = 0;
	shim_set_room();
	shim_publish(sizeof *r);
}

void shim_add_nested(uint64_t calls)
{
	struct shim_thread *t = &shim_t;
	if (calls == 0)
		return;
	if (t->off) {
		lose_outside(calls);
		return;
	}
	if (__atomic_fetch_add(&t->ring->nested, calls, __ATOMIC_RELAXED) == 0)
		t->ring->nested_since = shim_now();
	t->room = 0; /* the next call takes the wrapper, which writes the number */
}

void shim_write_nested(void)
{
	struct ring *ring = shim_t.ring;
	struct lost_record *r = shim_next_record();
	*r = (struct lost_record){.h = {.size = sizeof *r, .func = LOST_NESTED, .type = REC_LOST, .state = STATE_DONE}, .since = ring->nested_since, .until = shim_now()};
	r->calls = __atomic_exchange_n(&ring->nested, 0, __ATOMIC_RELAXED);
	ring->seq += r->calls;
	__atomic_store_n(&ring->lost, ring->lost + r->calls, __ATOMIC_RELEASE);
	shim_publish(sizeof *r);
}

bool shim_make_room(uint64_t need)
{
	struct shim_thread *t = &shim_t;
	if (need > t->capacity)
		return false;
	uint64_t since = 0, last_beat = ~0ULL, last = 0, silent = 0;
	for (;;) {
		t->tail = __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
		shim_set_room();
		if (t->head + need - t->tail <= t->capacity)
			return true;
		if (__atomic_load_n(&shim_control->policy, __ATOMIC_RELAXED) != POLICY_BLOCK || shim_p->drop || __atomic_load_n(&t->ring->given_up, __ATOMIC_RELAXED))
			return false;
		uint64_t beat = __atomic_load_n(&shim_control->heartbeat, __ATOMIC_RELAXED);
		uint64_t now = shim_monotonic();
		if (beat != last_beat) {
			uint64_t age = now > beat ? now - beat : 0;
			silent = age < HEARTBEAT_NS - SEEN_NS ? age : HEARTBEAT_NS - SEEN_NS;
			last_beat = beat;
		} else {
			silent += now - last < PAUSE_NS ? now - last : PAUSE_NS;
		}
		last = now;
		if (silent > HEARTBEAT_NS) {
			/* The recorder is stopped or gone: never wait again. */
			shim_p->drop = 1;
			return false;
		}
		/* An eighth of the wait so far: a short delay in proportion, and few wakeups if the recorder is frozen. */
		if (since == 0)
			since = now;
		struct { int64_t sec, nsec; } pause = {0, (int64_t)((now - since) / 8)};
		if (pause.nsec < SHORTEST_PAUSE_NS)
			pause.nsec = SHORTEST_PAUSE_NS;
		if (pause.nsec > LONGEST_PAUSE_NS)
			pause.nsec = LONGEST_PAUSE_NS;
		sys2(__NR_nanosleep, &pause, NULL);
	}
}
