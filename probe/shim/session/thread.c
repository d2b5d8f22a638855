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

static struct ring *ring_of(const struct slot *s, uint32_t i)
{
	uint8_t *base = base_of(s, i);
	return base == NULL ? NULL : (struct ring *)(base - RING_HEADER);
}

/* Bytes that a ring has free. None in a damaged ring, which the recorder does not read. */
static uint64_t room_of(const struct ring *r, uint64_t size)
{
	uint64_t unread = __atomic_load_n(&r->head, __ATOMIC_RELAXED) - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
	return unread > size || __atomic_load_n(&r->given_up, __ATOMIC_RELAXED) ? 0 : size - unread;
}

static bool ended(uint64_t holder)
{
	uint32_t tid = (uint32_t)holder;
	return tid != 0 && sys3(__NR_tgkill, shim_p->pid, tid, 0) == -ESRCH;
}

static uint32_t own_id(uint32_t slot) { return shim_filtered() ? thread_id(slot) : (uint32_t)sys0(__NR_gettid); }

/* The holder after another one, if this is the caller. A child of vfork is no thread of the process. */
static uint64_t next_holder(uint64_t holder, uint32_t tid)
{
	bool found = shim_filtered() ? tid <= HIGHEST_ID : (uint32_t)sys0(__NR_getpid) == shim_p->pid;
	return HOLDER((holder >> 32) + 1, found ? tid : 0);
}

/* Makes a slot that nobody else uses the caller's. */
static uint32_t own_slot(struct slot *s, uint32_t i)
{
	uint32_t tid = own_id(i);
	s->pid = shim_p->pid;
	s->ppid = shim_filtered() ? 0 : (uint32_t)sys0(__NR_getppid);
	s->process = shim_p->generation;
	s->start = shim_now();
	__atomic_store_n(&s->off, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->holder, next_holder(s->holder, tid), __ATOMIC_RELEASE);
	return tid;
}

/*
 * Sets the tail that the thread counts with. On its first way through the records, whose pages are touched up to `touched` (an offset), it is one that leaves no
 * room after them. So the thread comes to shim_make_room before a page that is not.
 */
static void see_tail(struct shim_thread *t, uint64_t touched)
{
	t->tail = touched < t->size ? touched - t->size : __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
}

/*
 * Touches the pages before the thread on its first way through the records: one system call instead of a fault for each page, if the kernel has the call
 * (Linux 5.14). Returns the offset up to which it has done so. No process makes this call before the recorder has looked for filters.
 */
static uint64_t touch_ahead(const struct shim_thread *t, uint64_t need)
{
	enum { AHEAD = 128 * 1024 }; /* takes the kernel about 40 us */
	const struct process *p = shim_own_process();
	uint64_t page = t->head & -(uint64_t)SHIM_PAGE, end = t->head + need + AHEAD;
	if (t->head >= t->size || end > t->size)
		end = t->size;
	if (page < end && p != NULL && __atomic_load_n(&p->unfiltered, __ATOMIC_RELAXED) && !shim_filtered())
		sys3(__NR_madvise, SYS_ARG(base_of(&shim_control->slots[t->slot], t->slot) + page), end - page, MADV_POPULATE_WRITE);
	return end;
}

/*
 * Begins to write into a ring, whose slot is the caller's. Offsets and call numbers go on. The OWNER also ends the earlier thread's calls: those that
 * it has lost since its last record are in the ring's count. A ring without room for a call has room for an OWNER: see shim_enter_at. False if there is
 * none. Then nothing was written.
 */
static bool enter_ring(struct shim_thread *t, struct ring *ring, uint32_t n, uint32_t tid)
{
	enum { PR_NAME = 16 };
	struct slot *s = &shim_control->slots[n];
	t->ring = ring;
	ring->read = ring->stack_end = 0; /* the previous thread's */
	ring->marks = ring->keeps = 0;
	t->size = t->capacity = s->ring_bytes;
	t->head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	t->slot = (uint16_t)n;
	see_tail(t, ring->seq == 0 ? RING_TOUCHED : t->head);
	bool nested = __atomic_load_n(&ring->nested, __ATOMIC_RELAXED) != 0;
	if (!shim_room(sizeof(struct owner_record) + (nested ? sizeof(struct lost_record) : 0))) {
		t->ring = NULL;
		return false;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* who sees base may count in the ring */
	t->base = (uint8_t *)ring + RING_HEADER;
	if (nested)
		shim_write_nested();
	ring->recording = ring->in_payload = 0;
	struct owner_record *r = shim_next_record();
	*r = (struct owner_record){.h = {.size = sizeof *r, .type = REC_OWNER, .state = STATE_DONE}, .tid = tid, .generation = (uint32_t)(s->holder >> 32)};
	r->start = shim_now();
	r->seq = ring->seq;
	r->lost = ring->lost;
	sys2(__NR_prctl, PR_NAME, r->name);
	shim_publish(sizeof *r);
	return true;
}

/* Takes a ring of this process that was made ahead. */
static bool take_ready(struct shim_thread *t)
{
	struct control *c = shim_control;
	uint32_t slots = __atomic_load_n(&c->next_slot, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < slots && i < c->max_slots; i++) {
		struct slot *s = &c->slots[i];
		uint32_t was = SLOT_READY;
		if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != was || s->process != shim_p->generation || ring_of(s, i) == NULL ||
		    !__atomic_compare_exchange_n(&s->state, &was, SLOT_TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		bool entered = enter_ring(t, ring_of(s, i), i, own_slot(s, i));
		__atomic_store_n(&s->state, SLOT_LIVE, __ATOMIC_RELEASE);
		return entered;
	}
	return false;
}

/* Of the rings whose thread has ended, finds the one with the most room, and at least `least` of its bytes in 8. Returns max_slots if there is none. */
static uint32_t roomiest(uint64_t least, uint64_t *holder)
{
	struct control *c = shim_control;
	uint32_t slots = __atomic_load_n(&c->next_slot, __ATOMIC_ACQUIRE), best = c->max_slots;
	uint64_t most = 0;
	for (uint32_t i = 0; i < slots && i < c->max_slots; i++) {
		const struct slot *s = &c->slots[i];
		if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SLOT_LIVE || s->process != shim_p->generation || ring_of(s, i) == NULL)
			continue;
		uint64_t room = room_of(ring_of(s, i), s->ring_bytes), was = __atomic_load_n(&s->holder, __ATOMIC_ACQUIRE);
		if (room <= most || room < s->ring_bytes / 8 * least || !ended(was))
			continue;
		best = i;
		most = room;
		*holder = was;
		if (room == c->ring_bytes)
			break;
	}
	return best;
}

/* Takes over the ring of a thread that has ended. The recorder may still have to read that thread's calls. */
static bool take_over(struct shim_thread *t, uint64_t least)
{
	uint64_t was = 0, mine;
	uint32_t n, tid;
	struct slot *s;
	do {
		n = roomiest(least, &was);
		if (n == shim_control->max_slots)
			return false;
		s = &shim_control->slots[n];
		tid = own_id(n);
		mine = next_holder(was, tid);
	} while (!__atomic_compare_exchange_n(&s->holder, &was, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	__atomic_store_n(&s->off, 0, __ATOMIC_RELAXED);
	if (enter_ring(t, ring_of(s, n), n, tid))
		return true;
	__atomic_store_n(&s->holder, HOLDER(mine >> 32, (uint32_t)was), __ATOMIC_RELEASE);
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

/* Makes a file with a ring, whose memory was claimed, and maps it. Returns NULL on failure. */
static struct ring *map_new(uint32_t n, uint64_t size, enum refusal *why)
{
	*why = REFUSED_FILES;
	long fd = open_in_session("ring.", n, true, O_RDWR | O_CREAT | O_EXCL), whole = -1;
	if (fd == -ENOENT)
		look_for_session();
	if (fd < 0)
		return NULL;
	/* The recorder may be another user in the folder's group. The folder keeps others out. */
	sys2(__NR_fchmod, fd, 0660);
	/* Allocate in full: a hole in a file on a full tmpfs would end the program by SIGBUS. */
	*why = REFUSED_MEMORY;
	if (allocate(fd, 0, RING_HEADER + size)) {
		*why = REFUSED_LIMIT;
		whole = sys_map(ring_addresses(size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	}
	if (!sys_failed(whole) && !map_ring(whole, fd, 0, size, true)) {
		sys2(__NR_munmap, whole, ring_addresses(size));
		whole = -1;
	}
	sys1(__NR_close, fd);
	if (!sys_failed(whole))
		return (struct ring *)whole;
	remove_from_session("ring.", n);
	return NULL;
}

static bool new_ring(struct shim_thread *t, enum refusal *why)
{
	struct control *c = shim_control;
	uint64_t size = claim_memory(1, c->ring_bytes, why);
	if (size == 0)
		return false;
	uint32_t n = take_slot();
	struct ring *ring = NULL;
	*why = REFUSED_SLOTS;
	if (n < c->max_slots && (ring = map_new(n, size, why)) == NULL)
		return_slot(n);
	if (ring == NULL) {
		return_memory(size);
		return false;
	}
	struct slot *s = &c->slots[n];
	s->ring_bytes = size;
	s->range = 0;
	mapped[n] = (uint8_t *)ring + RING_HEADER;
	enter_ring(t, ring, n, own_slot(s, n));
	__atomic_store_n(&s->state, SLOT_LIVE, __ATOMIC_RELEASE);
	return true;
}

static bool make_ring(struct shim_thread *t)
{
	enum refusal why = REFUSED_FILES;
	if (take_ready(t))
		return true;
	if (shim_filtered())
		return refuse(why);
	/* A ring that is almost empty is better than a new one, and one that is almost full is better than none. */
	return take_over(t, 7) || new_ring(t, &why) || take_over(t, 0) || refuse(why);
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
	t->off = !take_ready(t);
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
	uint64_t since = 0, last_beat = ~0ULL, last = 0, silent = 0, touched = touch_ahead(t, need);
	for (;;) {
		see_tail(t, touched);
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
