/*
 * The shim: loaded into the traced program by LD_PRELOAD, it stands before the runtime's functions and writes down what
 * they are called with. It is linked to nothing, calls no C library, takes no lock and installs no handler; whatever it
 * can't do it leaves undone, and the program runs on. See ring.h for what it writes and shim.h for how.
 */
#include "shim.h"

#include <asm/fcntl.h>
#include <asm/stat.h>
#include <linux/mman.h>

#include "bind.h"
#include "sys.h"

#define AT_SECURE 23
#define CLOCK_MONO 1
#define MADV_WIPE_ON_FORK 18
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define EINTR 4
#define ESRCH 3
#define HEARTBEAT_NS 500000000ULL
/* What a thread that waits must see of that itself, and what one pause of it counts at most: on a machine that stood still meanwhile, nobody gave a sign. */
#define SEEN_NS 200000000ULL
#define PAUSE_NS 10000000ULL
#define SHORTEST_PAUSE_NS 20000
#define LONGEST_PAUSE_NS 5000000

__thread struct shim_thread shim_t __attribute__((tls_model("initial-exec"), visibility("hidden")));
union shim_process_page shim_process_page __attribute__((aligned(SHIM_PAGE)));
union shim_control_pages shim_control_pages __attribute__((aligned(SHIM_PAGE)));
static bool attached; /* to the session that shim_control is of */
/* What the process could have when the first of its threads made a ring, 0 before; and the rings of other processes then. */
static uint64_t first_memory, used_before;

static char session[256]; /* folder, from ACLTRACE_SESSION */
/* The folder, kept open once its path may lead elsewhere. The program may close what it has not opened. */
static struct { long fd; uint64_t dev, ino; } session_dir = {.fd = -1};

/* The compiler may call these; the program's own are out of reach for a library that is linked to nothing. */
__attribute__((visibility("hidden"))) void *memcpy(void *restrict d, const void *restrict s, size_t n)
{
	uint8_t *dp = d;
	const uint8_t *sp = s;
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dp), "+S"(sp), "+c"(n) : : "memory");
#else
	for (; n >= 32; n -= 32, dp += 32, sp += 32) {
		typedef uint64_t v __attribute__((may_alias, aligned(1)));
		v a = ((const v *)sp)[0], b = ((const v *)sp)[1], c = ((const v *)sp)[2], e = ((const v *)sp)[3];
		((v *)dp)[0] = a, ((v *)dp)[1] = b, ((v *)dp)[2] = c, ((v *)dp)[3] = e;
	}
	while (n--)
		*dp++ = *sp++;
#endif
	return d;
}

__attribute__((visibility("hidden"))) void *memset(void *d, int c, size_t n)
{
	volatile uint8_t *p = d;
	while (n--)
		*p++ = (uint8_t)c;
	return d;
}

static size_t length(const char *s)
{
	size_t n = 0;
	while (s[n])
		n++;
	return n;
}

static uint64_t monotonic(void)
{
	struct { int64_t sec, nsec; } ts = {0, 0};
	sys2(__NR_clock_gettime, CLOCK_MONO, &ts);
	return (uint64_t)ts.sec * 1000000000ULL + (uint64_t)ts.nsec;
}

uint64_t shim_slow_clock(void) { return monotonic(); }

/* The value of a variable of the environment, in the program's own copy of it. */
extern char **environ __attribute__((weak));

static const char *variable(const char *name)
{
	size_t n = length(name);
	if (&environ == NULL || environ == NULL)
		return NULL;
	for (char **e = environ; *e; e++) {
		size_t i = 0;
		while (i < n && (*e)[i] == name[i])
			i++;
		if (i == n && (*e)[n] == '=')
			return *e + n + 1;
	}
	return NULL;
}

extern unsigned long getauxval(unsigned long) __attribute__((weak));

/* A program that runs with more rights than its caller is left alone, whatever the loader thought of it. */
static bool secure(void)
{
	if (getauxval != NULL)
		return getauxval(AT_SECURE) != 0;
	long fd = sys3(__NR_openat, -100, "/proc/self/auxv", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	uint64_t v[64];
	long n = sys3(__NR_read, fd, v, sizeof v);
	sys1(__NR_close, fd);
	for (long i = 0; i + 1 < n / 8; i += 2)
		if (v[i] == AT_SECURE)
			return v[i + 1] != 0;
	return true;
}

static bool failed(long ret) { return ret < 0 && ret > -4096; }

static long map(long len, long prot, long flags, long fd, long off, void *at)
{
	return sys6(__NR_mmap, SYS_ARG(at), len, prot, flags, fd, off);
}

/* The folder's number and which it is, false where it is not open. */
static bool same_dir(long fd, uint64_t *dev, uint64_t *ino)
{
	struct stat st;
	if (fd < 0 || sys2(__NR_fstat, fd, &st) < 0)
		return false;
	*dev = st.st_dev, *ino = st.st_ino;
	return true;
}

void keep_session(void)
{
	if (!open_process() || __atomic_load_n(&session_dir.fd, __ATOMIC_ACQUIRE) >= 0)
		return;
	long fd = sys4(__NR_openat, -100, session, O_PATH | O_DIRECTORY | O_CLOEXEC, 0), none = -1;
	if (same_dir(fd, &session_dir.dev, &session_dir.ino) &&
	    !__atomic_compare_exchange_n(&session_dir.fd, &none, fd, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sys1(__NR_close, fd);
}

long open_in_session(const char *name, uint64_t number, bool numbered, long flags)
{
	char path[300];
	uint64_t dev, ino;
	long dir = __atomic_load_n(&session_dir.fd, __ATOMIC_ACQUIRE);
	bool kept = same_dir(dir, &dev, &ino) && dev == session_dir.dev && ino == session_dir.ino;
	size_t n = 0;
	if (!kept) {
		n = length(session);
		memcpy(path, session, n);
		path[n++] = '/';
	}
	size_t m = length(name);
	memcpy(path + n, name, m);
	n += m;
	if (numbered) {
		char digits[20];
		int d = 0;
		do
			digits[d++] = (char)('0' + number % 10);
		while (number /= 10);
		while (d)
			path[n++] = digits[--d];
	}
	path[n] = 0;
	return sys4(__NR_openat, kept ? dir : -100, path, flags | O_CLOEXEC, 0600);
}

bool allocate(long fd, uint64_t size)
{
	enum { FILE_SIZE = 1, PART = 256 * 1024, TRIES = 1000 };
	struct { uint64_t soft, hard; } limit;
	if (sys4(__NR_prlimit64, 0, FILE_SIZE, NULL, &limit) == 0 && limit.soft < size)
		return false;
	/* A program that is signalled often would end each try at all of it, before Linux 6.0. */
	for (uint64_t at = 0; at < size; at += PART) {
		uint64_t n = size - at < PART ? size - at : PART;
		long e = -EINTR;
		for (int i = 0; i < TRIES && e == -EINTR; i++)
			e = sys4(__NR_fallocate, fd, 0, at, n);
		if (e < 0)
			return false;
	}
	return true;
}

static bool attach_session(void)
{
	if (secure())
		return false;
	const char *dir = variable("ACLTRACE_SESSION");
	if (dir == NULL || dir[0] != '/' || length(dir) >= sizeof session)
		return false;
	memcpy(session, dir, length(dir) + 1);
	long fd = open_in_session("control", 0, false, O_RDWR);
	if (fd < 0)
		return false;
	struct control *c = shim_control;
	bool mapped = !failed(map(sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0, c));
	sys1(__NR_close, fd);
	if (!mapped)
		return false;
	attached = c->magic == RING_MAGIC && c->version == RING_VERSION && c->functions == shim_functions;
	if (attached)
		used_before = __atomic_load_n(&c->memory_used, __ATOMIC_RELAXED);
	else {
		if (c->magic == RING_MAGIC)
			__atomic_store_n(&c->stranger, (uint32_t)sys0(__NR_getpid), __ATOMIC_RELEASE);
		map(sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0, c);
	}
	return attached;
}

static void forget_pending(void);
static void open_lists(void);

/* Makes this process ready to record, once, and again in a child after a fork. */
bool open_process(void)
{
	struct shim_process *p = shim_p;
	uint32_t was = 0;
	static bool unfit; /* the kernel has no such pages: a child would write into its parent's rings */
	if (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) == 0 && sys3(__NR_madvise, SYS_ARG(p), SHIM_PAGE, MADV_WIPE_ON_FORK) < 0)
		unfit = true;
	if (__atomic_compare_exchange_n(&p->ready, &was, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		p->pid = (uint32_t)sys0(__NR_getpid);
		forget_pending();
		shim_times_forked();
		bool on = (attached || attach_session()) && shim_register();
		if (on && unfit) {
			__atomic_add_fetch(&shim_control->refused, 1, __ATOMIC_RELAXED);
			on = false;
		}
		p->generation = shim_process_number();
		shim_after_task = on && (shim_control->task_ids || shim_control->time_every);
		__atomic_store_n(&p->ready, on ? 2 : 3, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) == 1)
		sys0(__NR_sched_yield);
	return p->ready == 2;
}

/* Where the rings of this process lie, by slot. */
static uint8_t *mapped[RING_MAX_SLOTS];

/* Whether the thread of this process that had a slot has ended, and the recorder has emptied its ring. */
static bool left(const struct slot *s, uint32_t i)
{
	const struct ring *r = (const struct ring *)(mapped[i] - RING_HEADER);
	return __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) == __atomic_load_n(&r->head, __ATOMIC_RELAXED) &&
	       sys3(__NR_tgkill, shim_p->pid, s->tid, 0) == -ESRCH;
}

static void own_slot(struct slot *s)
{
	enum { PR_NAME = 16 };
	s->pid = shim_p->pid;
	s->tid = (uint32_t)sys0(__NR_gettid);
	s->ppid = (uint32_t)sys0(__NR_getppid);
	s->process = shim_p->generation;
	s->start = shim_now();
	__atomic_store_n(&s->off, 0, __ATOMIC_RELAXED);
	sys2(__NR_prctl, PR_NAME, s->name);
}

/*
 * A ring whose thread has ended, and which the recorder has emptied, serves the next thread. It goes on where it was:
 * the bytes written and the numbers of calls are those of the slot, and the generation tells the recorder of the change.
 */
static bool reuse_ring(struct shim_thread *t)
{
	struct control *c = shim_control;
	uint32_t n = __atomic_load_n(&c->next_slot, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n && i < c->max_slots; i++) {
		struct slot *s = &c->slots[i];
		uint32_t was = SLOT_LIVE;
		if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SLOT_LIVE || s->process != shim_p->generation || mapped[i] == NULL || !left(s, i) ||
		    !__atomic_compare_exchange_n(&s->state, &was, SLOT_TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		if (!left(s, i)) {
			/* Another thread has had it meanwhile, for a short while or still. */
			__atomic_store_n(&s->state, SLOT_LIVE, __ATOMIC_RELEASE);
			continue;
		}
		t->ring = (struct ring *)(mapped[i] - RING_HEADER);
		t->base = mapped[i];
		t->size = t->capacity = s->ring_bytes;
		t->head = __atomic_load_n(&t->ring->head, __ATOMIC_RELAXED);
		t->tail = __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
		t->slot = i;
		own_slot(s);
		__atomic_store_n(&s->generation, s->generation + 1, __ATOMIC_RELEASE);
		__atomic_store_n(&s->state, SLOT_LIVE, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

/* A slot that nobody has had, or one that was given back when all are used up. */
static uint32_t take_slot(void)
{
	struct control *c = shim_control;
	if (__atomic_load_n(&c->next_slot, __ATOMIC_RELAXED) < c->max_slots) {
		uint32_t n = __atomic_fetch_add(&c->next_slot, 1, __ATOMIC_RELAXED);
		if (n < c->max_slots)
			return n;
	}
	for (uint32_t i = 0; i < c->max_slots; i++) {
		uint32_t was = SLOT_GIVEN;
		if (__atomic_load_n(&c->slots[i].state, __ATOMIC_RELAXED) == SLOT_GIVEN &&
		    __atomic_compare_exchange_n(&c->slots[i].state, &was, SLOT_TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return i;
	}
	return c->max_slots;
}

static bool make_ring(struct shim_thread *t)
{
	struct control *c = shim_control;
	uint64_t size = c->ring_bytes;
	if (reuse_ring(t))
		return true;
	uint64_t used = __atomic_add_fetch(&c->memory_used, size, __ATOMIC_RELAXED), left = shim_memory_left();
	uint64_t whole_memory = left < ~(uint64_t)0 - used ? left + used - size : ~(uint64_t)0;
	/* Rings that other threads are just making count as used and are not taken from what is left yet. Before the first ring nothing was. */
	uint64_t first = 0, most = left < ~(uint64_t)0 - used_before ? left + used_before : left;
	if (!__atomic_compare_exchange_n(&first_memory, &first, most, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		most = first;
	if (whole_memory > most)
		whole_memory = most;
	if (used > c->memory_limit || used > whole_memory / 4)
		goto no_memory;
	uint32_t n = take_slot();
	if (n >= c->max_slots)
		goto no_memory;
	struct slot *s = &c->slots[n];
	own_slot(s);
	s->ring_bytes = size;
	long fd = open_in_session("ring.", n, true, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		goto no_slot;
	/* The recorder may be another user, of the group that the folder belongs to. What is in nobody else's folder nobody else reaches. */
	sys2(__NR_fchmod, fd, 0660);
	/* In full before use: a hole in a file on a full tmpfs would kill the program with SIGBUS. */
	if (!allocate(fd, RING_HEADER + size))
		goto no_map;
	long whole = map((long)(RING_HEADER + 2 * size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	if (failed(whole))
		goto no_map;
	long a = map((long)(RING_HEADER + size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0, (void *)whole);
	long b = map((long)size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, RING_HEADER, (void *)(whole + RING_HEADER + (long)size));
	if (failed(a) || failed(b)) {
		sys2(__NR_munmap, whole, RING_HEADER + 2 * size);
		goto no_map;
	}
	sys1(__NR_close, fd);
	t->ring = (struct ring *)whole;
	t->base = (uint8_t *)whole + RING_HEADER;
	t->size = t->capacity = size;
	t->head = t->tail = t->lost = 0;
	t->slot = n;
	mapped[n] = t->base;
	__atomic_store_n(&s->state, SLOT_LIVE, __ATOMIC_RELEASE);
	return true;
no_map:
	sys1(__NR_close, fd);
no_slot:
	__atomic_store_n(&s->state, SLOT_DEAD, __ATOMIC_RELEASE);
no_memory:
	__atomic_sub_fetch(&c->memory_used, size, __ATOMIC_RELAXED);
	__atomic_add_fetch(&c->refused, 1, __ATOMIC_RELAXED);
	return false;
}

static void set_room(struct shim_thread *t)
{
	bool plain = t->base != NULL && t->lost == 0 && shim_control->clock == CLOCK_COUNTER && shim_control->stack_frames == 0 && shim_control->time_every == 0;
	t->room = plain ? t->tail + t->size - PLAIN_BYTES : 0;
}

/*
 * What recording costs here: launches into the new ring, which is not told of them. The least of some rounds, since the
 * first ones warm the cache.
 */
static void measure_cost(struct shim_thread *t)
{
	enum { ROUNDS = 8, CALLS = 32 };
	struct shim_thread saved = *t;
	struct ring nobody = {0};
	uint64_t words[8] = {0}, block[8] = {0}, least = ~(uint64_t)0;
	t->ring = &nobody;
	for (int r = 0; r < ROUNDS; r++) {
		t->head = t->tail = 0;
		set_room(t);
		uint64_t start = shim_now();
		for (int i = 0; i < CALLS; i++) {
			struct shim_call c;
			t->depth = 0;
			if (shim_plain()) {
				struct call_record *plain = shim_plain_enter(words, 8);
				shim_plain_commit(plain, 0, shim_plain_piece(shim_plain_pieces(plain, 8), 0, block, sizeof block));
				plain->end = shim_counter();
				shim_plain_exit(plain);
				continue;
			}
			if (shim_enter(&c, 0, words, 8, 72)) {
				shim_piece(&c, 0, 0, block, sizeof block, true);
				shim_commit(&c);
				shim_return(&c, 0);
				shim_exit(&c);
			}
			shim_leave();
		}
		uint64_t took = (shim_now() - start) / CALLS;
		if (took < least)
			least = took;
	}
	*t = saved;
	__atomic_store_n(&shim_control->cost, (uint32_t)least, __ATOMIC_RELAXED);
}

bool shim_open_thread(void)
{
	struct shim_thread *t = &shim_t;
	if (!open_process())
		return false;
	uint32_t off = __atomic_load_n(&shim_control->off, __ATOMIC_RELAXED);
	if (off == OFF_ENDED || (off == OFF_WAITING && __atomic_load_n(&shim_control->only, __ATOMIC_RELAXED) != (uint32_t)sys0(__NR_getpid)))
		return false;
	if (t->generation != shim_p->generation) {
		/* The first call of the thread, or a child with its parent's ring, which is not its own to write. */
		*t = (struct shim_thread){.device = t->device, .late = t->late, .depth = t->depth, .frame = t->frame, .outer = t->outer, .outer_frame = t->outer_frame, .generation = shim_p->generation};
		t->off = !make_ring(t);
		if (!t->off) {
			shim_times_thread();
			open_lists();
		}
		set_room(t);
		if (!t->off && shim_control->cost == 0 && shim_control->stack_frames == 0)
			measure_cost(t);
	}
	return !t->off;
}

/* Whether the thread runs on its alternate signal stack, as far as can be told. */
static bool on_signal_stack(void)
{
	struct { void *sp; int flags; uint64_t size; } stack = {NULL, 0, 0};
	enum { ON_STACK = 1 };
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
	/* What was published of the call stays; it never returned. A record behind it, if any, has moved head itself. */
	uint64_t head = __atomic_load_n(&t->ring->head, __ATOMIC_RELAXED);
	if (head != t->head) {
		struct record *r = (struct record *)(t->base + (t->head & (t->size - 1)));
		t->head = head;
		__atomic_store_n(&r->state, STATE_ABANDONED, __ATOMIC_RELEASE);
	}
	return true;
}

/*
 * Calls that enclose others. Room for the END record is kept from the BEGIN on, so that a ring that is full of what lies
 * between them loses some of that and not the result.
 */
enum { END_BYTES = 256 };

bool shim_begin_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve)
{
	struct shim_thread *t = &shim_t;
	c->rec = NULL;
	if (t->outer++ != 0) {
		if (frame < t->outer_frame || on_signal_stack())
			return false;
		t->outer = 1; /* the one before was left by a longjmp or an exception */
		t->capacity = t->size;
	}
	t->outer_frame = frame;
	if (t->base != NULL && t->capacity == t->size)
		t->capacity -= END_BYTES;
	/* The guard of the runtime's own calls is up while this one is written, and no longer. */
	bool on = shim_enter_at(frame, c, func, words, n, reserve);
	t->depth--;
	if (!on) {
		t->capacity = t->size;
		c->rec = NULL;
		return false;
	}
	if (t->capacity == t->size) /* the first call of the thread has made the ring just now */
		t->capacity -= END_BYTES;
	c->rec->h.type = REC_BEGIN;
	return true;
}

void shim_begun(struct shim_call *c)
{
	shim_commit(c);
	shim_exit(c);
}

void shim_ended(struct shim_call *c, uint16_t func, uint64_t ret)
{
	struct shim_thread *t = &shim_t;
	t->capacity = t->size;
	c->rec = NULL;
	if (t->base == NULL || t->generation != shim_p->generation || !shim_room(END_BYTES))
		return; /* a forked child, which has no part in it */
	struct call_record *r = (struct call_record *)(t->base + (t->head & (t->size - 1)));
	*r = (struct call_record){.h = {.func = func, .type = REC_END, .state = STATE_ENTERED}, .end = shim_now(), .ret = ret};
	c->rec = r;
	c->end = (uint8_t *)(r + 1);
	c->limit = (uint8_t *)r + END_BYTES;
}

void shim_finish(struct shim_call *c)
{
	if (c->rec != NULL)
		shim_exit(c);
}

void shim_lose(void)
{
	struct shim_thread *t = &shim_t;
	if (t->lost++ == 0)
		t->ring->lost_since = shim_now();
	t->ring->lost_until = shim_now();
	__atomic_store_n(&t->ring->lost, t->ring->lost + 1, __ATOMIC_RELEASE);
	t->ring->seq++;
	set_room(t);
}

void shim_write_lost(void)
{
	struct shim_thread *t = &shim_t;
	struct lost_record *r = (struct lost_record *)(t->base + (t->head & (t->size - 1)));
	*r = (struct lost_record){.h = {.size = sizeof *r, .type = REC_LOST, .state = STATE_DONE}, .calls = t->lost, .since = t->ring->lost_since, .until = shim_now()};
	t->lost = 0;
	set_room(t);
	t->head += sizeof *r;
	__atomic_store_n(&t->ring->head, t->head, __ATOMIC_RELEASE);
}

bool shim_make_room(uint64_t need)
{
	struct shim_thread *t = &shim_t;
	if (need > t->capacity)
		return false;
	uint64_t since = 0, last_beat = ~0ULL, last = 0, silent = 0;
	for (;;) {
		t->tail = __atomic_load_n(&t->ring->tail, __ATOMIC_ACQUIRE);
		set_room(t);
		if (t->head + need - t->tail <= t->capacity)
			return true;
		if (__atomic_load_n(&shim_control->policy, __ATOMIC_RELAXED) != POLICY_BLOCK || shim_p->drop || __atomic_load_n(&t->ring->given_up, __ATOMIC_RELAXED))
			return false;
		uint64_t beat = __atomic_load_n(&shim_control->heartbeat, __ATOMIC_RELAXED);
		uint64_t now = monotonic();
		if (beat != last_beat) {
			uint64_t age = now > beat ? now - beat : 0;
			silent = age < HEARTBEAT_NS - SEEN_NS ? age : HEARTBEAT_NS - SEEN_NS;
			last_beat = beat;
		} else {
			silent += now - last < PAUSE_NS ? now - last : PAUSE_NS;
		}
		last = now;
		if (silent > HEARTBEAT_NS) {
			/* The recorder is stopped or gone. The program does not wait for it again. */
			shim_p->drop = 1;
			return false;
		}
		/* An eighth of what was waited so far: little beside that, and few looks at a recorder that is frozen. */
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

/* Copies memory that may not be there. */
bool shim_careful_copy(void *to, const void *from, uint64_t len)
{
	struct { void *base; uint64_t len; } local = {to, len}, remote = {(void *)(uintptr_t)from, len};
	return sys6(__NR_process_vm_readv, sys0(__NR_getpid), SYS_ARG(&local), 1, SYS_ARG(&remote), 1, 0) == (long)len;
}

/* Room for need more bytes in the record that is being written, which no other record follows yet. */
static bool grow(struct shim_call *c, uint64_t need)
{
	if (c->end + need <= c->limit)
		return true;
	if (!shim_room((uint64_t)(c->end - (uint8_t *)c->rec) + need + sizeof(struct lost_record)))
		return false;
	c->limit = c->end + need;
	return true;
}

static void small_copy(void *to, const void *from, uint64_t len)
{
	typedef uint64_t word __attribute__((may_alias, aligned(1)));
	uint64_t i = 0;
	for (; i + 8 <= len; i += 8)
		*(word *)((uint8_t *)to + i) = *(const word *)((const uint8_t *)from + i);
	for (; i < len; i++)
		((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
}

void shim_any_piece(struct shim_call *c, uint8_t param, uint8_t flags, const void *p, uint64_t len, bool ok)
{
	uint64_t padded = round8(len);
	if (len > shim_t.size / 4 || !grow(c, sizeof(struct piece) + padded))
		return;
	struct piece *h = (struct piece *)c->end;
	*h = (struct piece){.param = param, .flags = (uint8_t)(flags | PIECE_BYTES), .len = (uint32_t)len};
	if (padded)
		*(uint64_t *)(c->end + sizeof *h + padded - 8) = 0;
	if (ok && len <= 512)
		small_copy(h + 1, p, len);
	/* So many arguments are more likely a size that the runtime will refuse. */
	else if (ok && len <= RING_INLINE)
		memcpy(h + 1, p, len);
	else if (!shim_careful_copy(h + 1, p, len))
		return;
	c->end += sizeof *h + padded;
}

void shim_in(struct shim_call *c, uint8_t param, const void *p, uint64_t len, bool ok)
{
	if (len <= RING_INLINE)
		shim_piece(c, param, 0, p, len, ok);
}

void shim_any_list(struct shim_call *c, uint8_t param, const void *p, uint32_t elem, bool ok)
{
	struct { const void *elems; uint64_t n; } l;
	if (ok)
		small_copy(&l, p, sizeof l);
	else if (!shim_careful_copy(&l, p, sizeof l))
		return;
	if (l.elems != NULL && l.n != 0 && l.n <= RING_INLINE / elem)
		shim_piece(c, param, 0, l.elems, l.n * elem, ok);
}

void shim_string(struct shim_call *c, uint8_t param, uint8_t flags, const char *s, uint64_t max, bool ok)
{
	if (s == NULL)
		return;
	char copy[256];
	uint64_t n = 0;
	if (max > RING_INLINE)
		max = RING_INLINE;
	while (n < max) {
		if (!ok) {
			/* Not known to be readable: by parts that end with a page. */
			uint64_t part = 256 - ((uint64_t)(s + n) & 255);
			if (!shim_careful_copy(copy, s + n, part))
				return;
			uint64_t i = 0;
			while (i < part && copy[i])
				i++;
			n += i;
			if (i < part)
				break;
		} else if (s[n] == 0)
			break;
		else
			n++;
	}
	shim_piece(c, param, flags, s, n < max ? n : max, ok);
}

#define PART (256 * 1024)

struct payload {
	uint32_t slot;
	uint8_t param, flags, missing;
	uint32_t item;
	uint64_t seq, addr, len;
};

bool shim_write_time(const struct time_record *time)
{
	struct shim_thread *t = &shim_t;
	if (!shim_room(sizeof *time + sizeof(struct lost_record)))
		return false;
	struct time_record *r = (struct time_record *)(t->base + (t->head & (t->size - 1)));
	*r = *time;
	r->h = (struct record){.size = sizeof *r, .type = REC_TIME, .state = STATE_DONE};
	t->head += sizeof *r;
	__atomic_store_n(&t->ring->head, t->head, __ATOMIC_RELEASE);
	return true;
}

/* One record with a part of a payload, or with the reason why it is missing. False where there is no room. */
static struct payload_record *begin_part(const struct payload *p, uint64_t offset, uint64_t bytes)
{
	struct shim_thread *t = &shim_t;
	uint64_t need = sizeof(struct payload_record) + round8(bytes);
	if (!shim_room(need + sizeof(struct lost_record)))
		return NULL;
	struct payload_record *r = (struct payload_record *)(t->base + (t->head & (t->size - 1)));
	*r = (struct payload_record){
		.h = {.size = (uint32_t)need, .type = REC_PAYLOAD, .state = STATE_DONE},
		.slot = p->slot, .param = p->param, .flags = p->flags, .missing = p->missing, .seq = p->seq,
		.addr = p->addr, .len = p->len, .offset = offset, .time = shim_now(), .item = p->item, .bytes = (uint32_t)bytes,
	};
	return r;
}

static void end_part(struct payload_record *r)
{
	struct shim_thread *t = &shim_t;
	t->head += r->h.size;
	__atomic_store_n(&t->ring->head, t->head, __ATOMIC_RELEASE);
}

static void payload_missing(struct payload *p, uint8_t why)
{
	p->missing = why;
	struct payload_record *r = begin_part(p, 0, 0);
	if (r)
		end_part(r);
}

/* What is too large to be kept is known by its hash. */
static void payload_hash(struct payload *p, bool careful)
{
	uint64_t hash[2];
	if (shim_control->payload_limit == 0)
		payload_missing(p, MISSING_NOT_ASKED);
	else if (p->len <= RING_INLINE) /* the hash has other ways for short inputs, and the limit is never that low */
		payload_missing(p, MISSING_OVER_LIMIT);
	else if (!shim_hash((const void *)p->addr, p->len, careful, hash))
		payload_missing(p, MISSING_UNREADABLE);
	else {
		p->missing = MISSING_HASHED;
		struct payload_record *r = begin_part(p, 0, sizeof hash);
		if (r == NULL)
			return;
		small_copy(r + 1, hash, sizeof hash);
		end_part(r);
	}
}

/* The arena is mapped when the process has its first large payload. */
static uint8_t *arena;

static bool open_arena(void)
{
	if (__atomic_load_n(&arena, __ATOMIC_ACQUIRE) != NULL)
		return true;
	long size = (long)shim_control->arena_chunks * ARENA_CHUNK;
	if (size == 0)
		return false;
	long fd = open_in_session("arena", 0, false, O_RDWR);
	if (fd < 0)
		return false;
	long m = map(size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0, NULL);
	sys1(__NR_close, fd);
	if (failed(m))
		return false;
	uint8_t *none = NULL;
	if (!__atomic_compare_exchange_n(&arena, &none, (uint8_t *)m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sys2(__NR_munmap, m, size);
	return true;
}

/* The number of a chunk that is the caller's now, -1 where all are in use. The lowest come first: they are warm. */
static int64_t take_chunk(void)
{
	for (uint32_t w = 0; w < ARENA_WORDS; w++) {
		uint64_t v = __atomic_load_n(&shim_control->arena_free[w], __ATOMIC_ACQUIRE);
		while (v != 0) {
			uint64_t bit = v & -v;
			if (__atomic_compare_exchange_n(&shim_control->arena_free[w], &v, v & ~bit, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				return w * 64 + __builtin_ctzll(bit);
		}
	}
	return -1;
}

/*
 * Copies to a chunk, past the caches on x86-64: what is written is not read first, and what the program has in its caches
 * stays there. Two pages at a time keep more of the memory's banks at work, with the next two asked for ahead. This is as
 * fast as a C library's memcpy of tens of MiB, where a string instruction has two thirds of that.
 */
static void copy_to_chunk(uint8_t *to, const uint8_t *from, uint64_t n)
{
#if defined(__x86_64__)
	typedef long long vector __attribute__((vector_size(16)));
	typedef vector unaligned __attribute__((may_alias, aligned(1)));
	enum { PAGE = 4096, LINE = 64, PAGES = 2 };
	for (; n >= PAGES * PAGE; n -= PAGES * PAGE, to += PAGES * PAGE, from += PAGES * PAGE)
		for (int i = 0; i < PAGE; i += LINE)
			for (int k = 0; k < PAGES; k++) {
				uint8_t *d = to + k * PAGE + i;
				const unaligned *s = (const unaligned *)(from + k * PAGE + i);
				__builtin_prefetch((const uint8_t *)s + PAGES * PAGE);
				vector a = s[0], b = s[1], c = s[2], e = s[3];
				__asm__ volatile("movntdq %1, (%0)\n\tmovntdq %2, 16(%0)\n\tmovntdq %3, 32(%0)\n\tmovntdq %4, 48(%0)"
						 : : "r"(d), "x"(a), "x"(b), "x"(c), "x"(e) : "memory");
			}
	/* Such stores are not ordered with the ones that publish the record. */
	__asm__ volatile("sfence" : : : "memory");
#endif
	memcpy(to, from, n);
}

/*
 * Has a chunk's pages mapped at once, when this process fills it for the first time: one system call instead of a fault a
 * page. Where the kernel can't (before 5.14), the faults come.
 */
static void map_chunk(int64_t n)
{
	static uint64_t filled[ARENA_WORDS];
	uint64_t bit = 1ULL << (n % 64);
	if ((__atomic_fetch_or(&filled[n / 64], bit, __ATOMIC_RELAXED) & bit) == 0)
		sys3(__NR_madvise, SYS_ARG(arena + n * ARENA_CHUNK), ARENA_CHUNK, MADV_POPULATE_WRITE);
}

static void give_chunk(int64_t n)
{
	__atomic_fetch_or(&shim_control->arena_free[n / 64], 1ULL << (n % 64), __ATOMIC_RELEASE);
}

/* A part of a large payload by way of the arena. 1 done, 0 no chunk free, -1 failed for good. */
static int part_in_arena(struct payload *p, uint64_t off, uint64_t n, bool careful)
{
	int64_t chunk = take_chunk();
	if (chunk < 0)
		return 0;
	map_chunk(chunk);
	uint8_t *to = arena + chunk * ARENA_CHUNK;
	const void *from = (const void *)(p->addr + off);
	bool there = !careful || shim_careful_copy(to, from, n);
	if (!careful)
		copy_to_chunk(to, from, n);
	struct payload_record *r = there ? begin_part(p, off, 0) : NULL;
	if (r == NULL) {
		give_chunk(chunk);
		if (!there)
			payload_missing(p, MISSING_UNREADABLE);
		return -1;
	}
	r->bytes = (uint32_t)n;
	r->chunk = (uint32_t)chunk + 1;
	end_part(r);
	return 1;
}

/* Streams memory to the recorder. Memory that the runtime has not just touched is read with care. */
static void payload_bytes(struct payload *p, bool careful)
{
	struct shim_thread *t = &shim_t;
	if (p->len < shim_control->payload_least) {
		payload_missing(p, MISSING_NOT_ASKED);
		return;
	}
	if (p->len > shim_control->payload_limit) {
		payload_hash(p, careful);
		return;
	}
	uint64_t part = t->size / 8 < PART ? t->size / 8 : PART;
	bool large = p->len >= ARENA_CHUNK / 4 && open_arena();
	for (uint64_t off = 0; off < p->len || off == 0;) {
		if (large) {
			uint64_t n = p->len - off < ARENA_CHUNK ? p->len - off : ARENA_CHUNK;
			int done = part_in_arena(p, off, n, careful);
			if (done < 0)
				return;
			if (done > 0) {
				off += n;
				continue;
			}
		}
		uint64_t n = p->len - off < part ? p->len - off : part;
		struct payload_record *r = begin_part(p, off, n);
		if (r == NULL) {
			/* Parts that are not followed by the rest are a payload that was dropped. */
			return;
		}
		if (!careful)
			memcpy(r + 1, (const void *)(p->addr + off), n);
		else if (!shim_careful_copy(r + 1, (const void *)(p->addr + off), n)) {
			payload_missing(p, MISSING_UNREADABLE);
			return;
		}
		end_part(r);
		off += n;
		if (n == 0)
			return;
	}
}

static struct payload payload_of(uint64_t seq, uint8_t param, uint8_t flags, uint32_t item, const void *p, uint64_t len)
{
	return (struct payload){.slot = shim_t.slot, .param = param, .flags = flags, .item = item, .seq = seq, .addr = (uint64_t)p, .len = len};
}

void shim_large(uint64_t seq, uint8_t param, uint32_t item, const void *p, uint64_t len)
{
	if (p == NULL || len <= RING_INLINE)
		return;
	struct payload d = payload_of(seq, param, 0, item, p, len);
	/* Arguments and binaries are kept whatever the limit on copies is: without them nothing can be understood. */
	uint64_t part = shim_t.size / 8 < PART ? shim_t.size / 8 : PART;
	for (uint64_t off = 0; off < len; off += part) {
		uint64_t n = len - off < part ? len - off : part;
		struct payload_record *r = begin_part(&d, off, n);
		if (r == NULL)
			return;
		memcpy(r + 1, (const uint8_t *)p + off, n);
		end_part(r);
	}
}

void shim_file(uint64_t seq, uint8_t param, const char *path)
{
	if (path == NULL)
		return;
	/* What is read but once, as a pipe, the runtime has read. */
	enum { KIND = 0170000, REGULAR = 0100000 };
	struct stat st;
	long fd = sys4(__NR_openat, -100, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		return;
	bool regular = sys2(__NR_fstat, fd, &st) == 0 && (st.st_mode & KIND) == REGULAR;
	struct payload d = payload_of(seq, param, 0, 1, NULL, regular ? (uint64_t)st.st_size : 0);
	uint64_t part = shim_t.size / 8 < PART ? shim_t.size / 8 : PART;
	for (uint64_t off = 0; off < d.len;) {
		uint64_t n = d.len - off < part ? d.len - off : part;
		struct payload_record *r = begin_part(&d, off, n);
		if (r == NULL)
			break;
		long got = sys3(__NR_read, fd, r + 1, n);
		if (got != (long)n)
			break;
		end_part(r);
		off += n;
	}
	sys1(__NR_close, fd);
}

/* Pieces of memory that the runtime has given out. The table forgets those that it has no room for, and says that it did. */
struct range { uint64_t addr, end; bool registered; /* the program's own, not the runtime's */ };
struct ranges {
	struct range *at;
	uint32_t size;
	uint32_t used; /* slots ever used */
	bool forgot; /* there was no room for one */
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
			__atomic_store_n(&r->at[i].addr, addr, __ATOMIC_RELEASE);
			uint32_t used = __atomic_load_n(&r->used, __ATOMIC_RELAXED);
			while (used <= i && !__atomic_compare_exchange_n(&r->used, &used, i + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				;
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

/* Takes out the range that begins at an address, and returns it; its end is 0 where there is none. */
static struct range end_range(struct ranges *r, uint64_t addr)
{
	uint32_t n = __atomic_load_n(&r->used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		if (__atomic_load_n(&r->at[i].addr, __ATOMIC_ACQUIRE) != addr)
			continue;
		struct range was = r->at[i];
		__atomic_store_n(&r->at[i].addr, 0, __ATOMIC_RELEASE);
		return was;
	}
	return (struct range){0, 0, false};
}

/*
 * Whether an address is one of device memory. The driver maps all of its window (device_from to device_to) at its first use, at
 * that very place, so nobody else has memory there but the runtime itself: host memory that it gave out is known. It also
 * reserves addresses for device memory beyond the window; those that it told the program are known too. A copy from or to
 * host memory that the runtime gave out goes on after an asynchronous call has returned.
 */
static struct range host_ranges[8192], far_ranges[FAR_KINDS][SHIM_FAR];
static struct ranges host = {.at = host_ranges, .size = 8192};
static struct ranges far[FAR_KINDS] = {{.at = far_ranges[ALLOCATED], .size = SHIM_FAR}, {.at = far_ranges[RESERVED], .size = SHIM_FAR}};

void shim_host_new(uint64_t addr, uint64_t len, bool registered) { add_range(&host, addr, len, registered); }
void shim_far_new(enum far_memory kind, uint64_t addr, uint64_t len) { add_range(&far[kind], addr, len, false); }
void shim_far_end(enum far_memory kind, uint64_t addr) { end_range(&far[kind], addr); }

static bool pinned(uint64_t addr) { return in_range(&host, addr); }

static bool on_device(uint64_t addr)
{
	return shim_in_window(addr) ? !pinned(addr) : in_range(&far[ALLOCATED], addr) || in_range(&far[RESERVED], addr);
}

/*
 * Results of asynchronous copies to the host: they are there once the program itself has waited for them. Each entry
 * remembers its place in the order of such copies; waiting for an event releases those before its record.
 */
#define PENDING 65536
enum { PENDING_FREE = 0, PENDING_BUSY = 1, PENDING_FULL = 2 };
static struct pending {
	uint32_t state;
	int32_t device;
	void *stream;
	uint64_t order; /* 0 while the slot is free */
	uint64_t gone;  /* WHYS times the order of the latest in this slot whose memory something else has got meanwhile, plus what */
	uint64_t pitch, width; /* of rows; pitch 0: one piece */
	uint32_t resumed; /* of the session, when the copy was asked for */
	struct payload what;
} pending[PENDING];
static uint32_t pending_count; /* slots in use */
static uint32_t taking; /* threads in release */
static uint64_t order;

/* What has become of the memory of a result before the program had waited for it. */
enum why { COPIED_OVER, FREED, UNREGISTERED, WHYS };
static const uint8_t why_missing[WHYS] = {MISSING_OVERWRITTEN, MISSING_FREED, MISSING_UNREGISTERED};

/*
 * The slots lie in sets, each of which holds results of one stream, so that a stream's are found without a look at those of others:
 * what waiting for it costs is what it releases, and a word for each set. A set is claimed when it is empty. Where none is, a result
 * goes to a set of another stream, which is one of any stream from then on until it is empty again. in_use has a bit for each slot
 * in its lower half and the stream's mark in the other. No result in the set is older than since.
 */
enum { SET = 32, SETS = PENDING / SET };
static struct set { uint64_t in_use, since; } sets[SETS];
static uint32_t sets_used, sets_low; /* sets ever used, where to look for an empty one */
static uint16_t set_of[256]; /* where a stream's last result went, by its mark */
static const uint32_t any_stream = 0xffffffff;

static uint32_t mark_of(const void *stream)
{
	uint32_t m = (uint32_t)((uint64_t)stream * 0x9e3779b97f4a7c15ULL >> 32);
	return m == any_stream ? 0 : m;
}

static uint32_t set_mark(uint64_t in_use) { return (uint32_t)(in_use >> 32); }
static uint32_t set_slots(uint64_t in_use) { return (uint32_t)in_use; }
#define NONE (~(uint64_t)0)

/*
 * What is pending for a piece of memory, in a hash table: an entry stands under the one or two blocks of memory that it
 * touches, which are of the least of 8, 64, 512 ... bytes that it is no longer than. So few entries that lie side by side share
 * a block. A place in the table is the order and the slot of an entry. It means nothing once the slot has another order, so
 * nothing is ever taken out.
 */
enum { LEVELS = 16, GROUPS = 32768, GROUP = 16 };
_Static_assert(PENDING == 1 << 16, "a place has 16 bits for the slot");
static uint64_t (*places)[GROUP]; /* mapped when the process first has something pending */
static uint32_t level_count[LEVELS]; /* entries, by the size of their blocks */

static uint32_t block_shift(uint32_t level) { return 3 + 3 * level; }

static uint32_t level_of(uint64_t len)
{
	uint32_t level = 0;
	while (level < LEVELS - 1 && len > 1ULL << block_shift(level))
		level++;
	return level;
}

static uint64_t *group_of(uint32_t level, uint64_t block)
{
	return places[((block << 4 | level) * 0x9e3779b97f4a7c15ULL >> 32) % GROUPS];
}

static uint64_t extent(const struct pending *e)
{
	return e->pitch ? e->pitch * (e->what.len / e->width) : e->what.len;
}

static void forget_pending(void)
{
	/* A forked child: what its parent waits for is not its own. */
	for (uint32_t i = 0; i < sets_used * SET; i++) {
		pending[i].order = 0;
		pending[i].state = PENDING_FREE;
	}
	for (uint32_t i = 0; i < sets_used; i++)
		sets[i].in_use = 0;
	sets_used = pending_count = sets_low = taking = 0;
	for (uint32_t i = 0; i < LEVELS; i++)
		level_count[i] = 0;
}

/*
 * A walk over what was pending when it began, of one stream or of any, with an order up to one: no further than that, since the
 * table may have been full once. A slot is counted before its bit is set, so that the count is of no fewer than are seen.
 */
struct walk {
	uint32_t mark, set, slots, used, state;
	int32_t left;
	uint64_t until;
};

static struct walk walk_pending(uint32_t mark, uint64_t until)
{
	struct walk w = {.mark = mark, .state = PENDING_FULL, .until = __atomic_load_n(&order, __ATOMIC_ACQUIRE)};
	if (w.until > until)
		w.until = until;
	w.left = (int32_t)__atomic_load_n(&pending_count, __ATOMIC_ACQUIRE);
	w.used = __atomic_load_n(&sets_used, __ATOMIC_ACQUIRE);
	return w;
}

/* Bits that are set. The compiler would call a library for it. */
static int32_t ones(uint32_t v)
{
	v -= v >> 1 & 0x55555555;
	v = (v & 0x33333333) + (v >> 2 & 0x33333333);
	return (int32_t)(((v + (v >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24);
}

static struct pending *next_pending(struct walk *w)
{
	for (;;) {
		while (w->slots != 0) {
			struct pending *e = &pending[(w->set - 1) * SET + (uint32_t)__builtin_ctz(w->slots)];
			w->slots &= w->slots - 1;
			if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == w->state && e->order <= w->until)
				return e;
		}
		if (w->left <= 0 || w->set >= w->used)
			return NULL;
		struct set *s = &sets[w->set++];
		uint64_t v = __atomic_load_n(&s->in_use, __ATOMIC_ACQUIRE);
		w->left -= ones(set_slots(v));
		if ((w->mark == any_stream || set_mark(v) == w->mark || set_mark(v) == any_stream) && __atomic_load_n(&s->since, __ATOMIC_RELAXED) <= w->until)
			w->slots = set_slots(v);
	}
}

/* The entry at a place, with its memory; NULL where it is pending no more. */
static struct pending *at_place(uint64_t place, uint64_t *from, uint64_t *to)
{
	struct pending *e = &pending[place % PENDING];
	if (place == 0 || __atomic_load_n(&e->order, __ATOMIC_ACQUIRE) != place / PENDING)
		return NULL;
	*from = e->what.addr;
	*to = *from + extent(e);
	/* Unless the slot has got another meanwhile, this is what belongs to the order. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&e->order, __ATOMIC_RELAXED) == place / PENDING ? e : NULL;
}

static bool open_places(void)
{
	if (__atomic_load_n(&places, __ATOMIC_ACQUIRE) != NULL)
		return true;
	long m = map(sizeof *places * GROUPS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	if (failed(m))
		return false;
	uint64_t (*none)[GROUP] = NULL;
	if (!__atomic_compare_exchange_n(&places, &none, (uint64_t (*)[GROUP])m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sys2(__NR_munmap, m, sizeof *places * GROUPS);
	return true;
}

/* False where there is no memory for the table, or no place left for a block of the entry: then it is unchecked. */
static bool add_places(struct pending *e)
{
	uint32_t level = level_of(extent(e));
	uint64_t place = e->order * PENDING + (uint64_t)(e - pending), from, to;
	uint64_t block = e->what.addr >> block_shift(level), last = (e->what.addr + extent(e) - 1) >> block_shift(level);
	__atomic_add_fetch(&level_count[level], 1, __ATOMIC_SEQ_CST);
	if (!open_places())
		return false;
	for (; block <= last; block++) {
		uint64_t *g = group_of(level, block);
		uint32_t i = 0;
		for (; i < GROUP; i++) {
			uint64_t was = __atomic_load_n(&g[i], __ATOMIC_RELAXED);
			if (at_place(was, &from, &to) == NULL && __atomic_compare_exchange_n(&g[i], &was, place, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
				break;
		}
		if (i == GROUP)
			return false;
	}
	return true;
}

/* Of the entry with this order, which may be gone by now. */
static void mark_gone(struct pending *e, uint64_t of, enum why why)
{
	uint64_t was = __atomic_load_n(&e->gone, __ATOMIC_RELAXED);
	while (was < of * WHYS && !__atomic_compare_exchange_n(&e->gone, &was, of * WHYS + why, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Waits until the thread that takes a result has taken it: the entry had this order. */
static void await_entry(const struct pending *e, uint64_t of, uint64_t *limit)
{
	static const struct { int64_t sec, nsec; } pause = {0, 20000};
	enum { SHORTLY = 100 };
	const uint64_t LONGEST_NS = 10000000000;
	for (int n = 0; __atomic_load_n(&e->order, __ATOMIC_ACQUIRE) == of && __atomic_load_n(&e->state, __ATOMIC_SEQ_CST) == PENDING_BUSY; n++) {
		if (n < SHORTLY) {
			sys0(__NR_sched_yield);
			continue;
		}
		/* It may wait for the recorder itself. One that was cancelled amidst it never comes to an end. */
		uint64_t now = monotonic();
		if (*limit == 0)
			*limit = now + LONGEST_NS;
		if (now > *limit)
			return;
		sys2(__NR_nanosleep, &pause, NULL);
	}
}

/*
 * Notes that something else gets the memory of what is pending there: a result that is still pending then is never seen, and one that a thread is
 * just taking is waited for. by is
 * the entry of the copy that does, and mine its order; NULL and the highest number for one without. Two copies that are asked
 * for at once find each other: each is in the table before it looks, and the one that was asked for first is overwritten.
 */
static void overwrite_pending(struct pending *by, uint64_t mine, uint64_t addr, uint64_t len, enum why why)
{
	uint32_t count = __atomic_load_n(&pending_count, __ATOMIC_SEQ_CST);
	uint64_t end = addr + len, blocks = 0, limit = 0, from, to;
	if (count == 0)
		return;
	for (uint32_t level = 0; level < LEVELS; level++)
		if (__atomic_load_n(&level_count[level], __ATOMIC_SEQ_CST) != 0)
			blocks += ((end - 1) >> block_shift(level)) - (addr >> block_shift(level)) + 1;
	if (blocks > count || __atomic_load_n(&places, __ATOMIC_ACQUIRE) == NULL) {
		/* There is less to look at one after the other. */
		struct walk w = walk_pending(any_stream, NONE);
		for (struct pending *e; (e = next_pending(&w)) != NULL;) {
			uint64_t of = e->order;
			if (e != by && of < mine && at_place(of * PENDING + (uint64_t)(e - pending), &from, &to) && from < end && addr < to) {
				mark_gone(e, of, why);
				await_entry(e, of, &limit);
			}
		}
		return;
	}
	for (uint32_t level = 0; level < LEVELS; level++) {
		if (__atomic_load_n(&level_count[level], __ATOMIC_SEQ_CST) == 0)
			continue;
		for (uint64_t block = addr >> block_shift(level); block <= (end - 1) >> block_shift(level); block++) {
			uint64_t *g = group_of(level, block);
			for (uint32_t i = 0; i < GROUP; i++) {
				uint64_t place = __atomic_load_n(&g[i], __ATOMIC_SEQ_CST), of = place / PENDING;
				struct pending *e = at_place(place, &from, &to);
				if (e == NULL || e == by || from >= end || addr >= to)
					continue;
				if (of < mine) {
					mark_gone(e, of, why);
					await_entry(e, of, &limit);
				} else {
					mark_gone(by, mine, COPIED_OVER);
				}
			}
		}
	}
}

/* A free slot of a set that has the mark: the caller's from now on. NULL where there is none. */
static struct pending *take_entry(struct set *s, uint32_t mark)
{
	uint64_t v = __atomic_load_n(&s->in_use, __ATOMIC_RELAXED);
	while (set_mark(v) == mark && set_slots(v) != 0 && set_slots(v) != 0xffffffff) {
		uint32_t slot = (uint32_t)__builtin_ctz(~set_slots(v));
		if (__atomic_compare_exchange_n(&s->in_use, &v, v | 1ULL << slot, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return &pending[(uint32_t)(s - sets) * SET + slot];
	}
	return NULL;
}

/* A slot that is the caller's now, NULL where all are in use. */
static struct pending *take_pending(void *stream)
{
	uint32_t mark = mark_of(stream), low = __atomic_load_n(&sets_low, __ATOMIC_RELAXED);
	uint16_t *last = &set_of[mark % 256];
	struct pending *e = take_entry(&sets[__atomic_load_n(last, __ATOMIC_RELAXED)], mark);
	for (uint32_t k = 0; k < SETS && e == NULL; k++) {
		uint32_t i = (low + k) % SETS;
		struct set *s = &sets[i];
		uint64_t v = __atomic_load_n(&s->in_use, __ATOMIC_RELAXED), since = __atomic_load_n(&order, __ATOMIC_ACQUIRE);
		if (set_slots(v) != 0 || !__atomic_compare_exchange_n(&s->in_use, &v, (uint64_t)mark << 32 | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		/* Whoever has claimed the set before and is late with this stores an older one. */
		__atomic_store_n(&s->since, since, __ATOMIC_RELAXED);
		e = &pending[i * SET];
		__atomic_store_n(&sets_low, i + 1, __ATOMIC_RELAXED);
		__atomic_store_n(last, (uint16_t)i, __ATOMIC_RELAXED);
		uint32_t used = __atomic_load_n(&sets_used, __ATOMIC_RELAXED);
		while (used <= i && !__atomic_compare_exchange_n(&sets_used, &used, i + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
	}
	for (uint32_t i = 0; i < SETS && e == NULL; i++) {
		uint64_t v = __atomic_load_n(&sets[i].in_use, __ATOMIC_RELAXED);
		while (set_slots(v) != 0xffffffff && set_slots(v) != 0 && set_mark(v) != any_stream &&
		       !__atomic_compare_exchange_n(&sets[i].in_use, &v, v | (uint64_t)any_stream << 32, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
		e = take_entry(&sets[i], any_stream);
	}
	return e;
}

static void give_entry(struct pending *e)
{
	uint32_t i = (uint32_t)(e - pending);
	__atomic_store_n(&e->state, PENDING_FREE, __ATOMIC_RELEASE);
	uint64_t left = __atomic_and_fetch(&sets[i / SET].in_use, ~(1ULL << i % SET), __ATOMIC_ACQ_REL);
	if (set_slots(left) == 0 && i / SET < __atomic_load_n(&sets_low, __ATOMIC_RELAXED))
		__atomic_store_n(&sets_low, i / SET, __ATOMIC_RELAXED);
}

static bool add_pending(const struct payload *p, void *stream, uint64_t pitch, uint64_t width)
{
	uint64_t len = pitch ? pitch * (p->len / width) : p->len;
	struct pending *e = NULL;
	if (__atomic_add_fetch(&pending_count, 1, __ATOMIC_SEQ_CST) <= PENDING)
		e = take_pending(stream);
	if (e == NULL) {
		__atomic_sub_fetch(&pending_count, 1, __ATOMIC_SEQ_CST);
		overwrite_pending(NULL, NONE, p->addr, len, COPIED_OVER);
		return false;
	}
	__atomic_thread_fence(__ATOMIC_RELEASE); /* whoever sees what follows sees that the order before is over */
	e->device = shim_t.device;
	e->stream = stream;
	e->pitch = pitch;
	e->width = width;
	e->resumed = __atomic_load_n(&shim_control->resumed, __ATOMIC_ACQUIRE);
	e->what = *p;
	uint64_t mine = __atomic_add_fetch(&order, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&e->order, mine, __ATOMIC_RELEASE);
	if (!add_places(e))
		e->what.flags |= PIECE_EARLY;
	/* From here on another thread may release it. */
	__atomic_store_n(&e->state, PENDING_FULL, __ATOMIC_SEQ_CST);
	overwrite_pending(e, mine, p->addr, len, COPIED_OVER);
	return true;
}

static void payload_rows(struct payload *p, uint64_t pitch, uint64_t width);

/*
 * Copies to the host that were asked for while a stream was captured: a graph may make them, each time that it runs. The capture
 * that ends next gets them all; which of them are in its graph the trace tells.
 */
#define CAPTURED 4096
static struct captured {
	uint32_t state; /* as of a pending one */
	void *graph; /* NULL until the end of the capture */
	uint64_t addr, len, pitch, width;
} captured[CAPTURED];
static uint32_t captured_used, captured_count;

static void add_captured(void *graph, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width)
{
	if (__atomic_load_n(&captured_count, __ATOMIC_RELAXED) >= CAPTURED)
		return;
	for (uint32_t i = 0; i < CAPTURED; i++) {
		uint32_t was = PENDING_FREE;
		if (!__atomic_compare_exchange_n(&captured[i].state, &was, PENDING_BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		uint32_t used = __atomic_load_n(&captured_used, __ATOMIC_RELAXED);
		while (used <= i && !__atomic_compare_exchange_n(&captured_used, &used, i + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
		captured[i] = (struct captured){PENDING_BUSY, graph, addr, len, pitch, width};
		__atomic_add_fetch(&captured_count, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&captured[i].state, PENDING_FULL, __ATOMIC_RELEASE);
		return;
	}
}

/* The next one that is there, from *at on; NULL at the end. */
static struct captured *next_captured(uint32_t *at)
{
	uint32_t used = __atomic_load_n(&captured_used, __ATOMIC_ACQUIRE);
	while (*at < used) {
		struct captured *e = &captured[(*at)++];
		if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == PENDING_FULL)
			return e;
	}
	return NULL;
}

static void drop_captured(struct captured *e)
{
	__atomic_sub_fetch(&captured_count, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&e->state, PENDING_FREE, __ATOMIC_RELEASE);
}

void shim_captured(void *graph)
{
	uint32_t at = 0;
	bool others = __atomic_load_n(&shim_captures, __ATOMIC_RELAXED) != 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;) {
		if (e->graph != NULL)
			continue;
		if (graph != NULL)
			e->graph = graph;
		else if (!others)
			drop_captured(e);
	}
}

void shim_graph_ended(void *graph)
{
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		if (e->graph == graph)
			drop_captured(e);
}

void shim_graph_copied(void *to, void *from)
{
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		if (e->graph == from && from != to)
			add_captured(to, e->addr, e->len, e->pitch, e->width);
}

void shim_graph_results(struct shim_call *c, uint8_t param, void *graph)
{
	uint64_t n = 0;
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		n += e->graph == graph;
	if (n > 0 && grow(c, sizeof(struct piece) + 8))
		shim_out(c, param, &n, 8);
}

void shim_graph_overwrites(void *graph)
{
	uint32_t at = 0;
	if (__atomic_load_n(&pending_count, __ATOMIC_RELAXED) == 0)
		return;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		if (e->graph == graph)
			overwrite_pending(NULL, NONE, e->addr, e->pitch ? e->pitch * (e->len / e->width) : e->len, COPIED_OVER);
}

void shim_graph_run(struct shim_call *c, uint8_t param, void *graph, void *stream, bool async)
{
	uint32_t at = 0, item = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;) {
		if (e->graph != graph)
			continue;
		struct payload d = payload_of(c->seq, param, PIECE_OUT, ++item, (const void *)e->addr, e->len);
		if (async) {
			if (!add_pending(&d, stream, e->pitch, e->width))
				payload_missing(&d, MISSING_TABLE_FULL);
			continue;
		}
		overwrite_pending(NULL, NONE, e->addr, e->pitch ? e->pitch * (e->len / e->width) : e->len, COPIED_OVER);
		if (e->pitch)
			payload_rows(&d, e->pitch, e->width);
		else
			payload_bytes(&d, true);
	}
}

/* The devices that threads have selected, a bit each. While it is one, every thread uses it, whether it said so or not. */
static uint64_t devices;

void shim_set_device(int32_t device)
{
	shim_t.device = 1 + device;
	__atomic_fetch_or(&devices, 1ULL << (device & 63), __ATOMIC_RELAXED);
}

static bool same_device(int32_t device)
{
	uint64_t d = __atomic_load_n(&devices, __ATOMIC_RELAXED);
	return (d & (d - 1)) == 0 || device == shim_t.device;
}

struct place shim_place(void *stream)
{
	return (struct place){.stream = stream, .order = __atomic_add_fetch(&order, 1, __ATOMIC_ACQ_REL), .device = shim_t.device};
}

bool shim_reached(const struct place *p, enum reach which, const void *stream, uint64_t until)
{
	if (p->order > until)
		return false;
	/* Streams have names of their own but for the default ones, one a device. */
	if (which == OF_STREAM && (p->stream != stream || stream != NULL))
		return p->stream == stream;
	return same_device(p->device);
}

static bool released(const struct pending *e, enum reach which, const void *stream, uint64_t until)
{
	return shim_reached(&(struct place){.stream = e->stream, .order = e->order, .device = e->device}, which, stream, until);
}

/*
 * What another thread is just taking, which has waited for the same: the program may change or give back that memory as soon as this thread's
 * call returns.
 */
static void await_taken(enum reach which, void *stream, uint64_t until)
{
	uint64_t limit = 0;
	struct walk w = walk_pending(which == OF_STREAM ? mark_of(stream) : any_stream, until);
	w.state = PENDING_BUSY;
	for (struct pending *e; (e = next_pending(&w)) != NULL;) {
		uint64_t o = __atomic_load_n(&e->order, __ATOMIC_ACQUIRE);
		if (o != 0 && released(e, which, stream, until))
			await_entry(e, o, &limit);
	}
}

static void take_released(enum reach which, void *stream, uint64_t until)
{
	struct walk w = walk_pending(which == OF_STREAM ? mark_of(stream) : any_stream, until);
	for (struct pending *e; (e = next_pending(&w)) != NULL;) {
		uint32_t was = PENDING_FULL;
		if (!released(e, which, stream, until) ||
		    !__atomic_compare_exchange_n(&e->state, &was, PENDING_BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		if (!released(e, which, stream, until)) {
			/* Another thread has released it meanwhile, and a third has put a result of its own there. */
			__atomic_store_n(&e->state, PENDING_FULL, __ATOMIC_RELEASE);
			continue;
		}
		uint64_t gone = __atomic_load_n(&e->gone, __ATOMIC_RELAXED);
		if (e->resumed != __atomic_load_n(&shim_control->resumed, __ATOMIC_ACQUIRE))
			payload_missing(&e->what, MISSING_DETACHED); /* the program may have waited for it, and used the memory again */
		else if (gone / WHYS == e->order)
			payload_missing(&e->what, why_missing[gone % WHYS]);
		else if (e->pitch)
			payload_rows(&e->what, e->pitch, e->width);
		else
			payload_bytes(&e->what, true);
		__atomic_sub_fetch(&level_count[level_of(extent(e))], 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&e->order, 0, __ATOMIC_RELEASE);
		give_entry(e);
		__atomic_sub_fetch(&pending_count, 1, __ATOMIC_SEQ_CST);
	}
}

static void release(enum reach which, void *stream, uint64_t until)
{
	shim_times_reached(which, stream, until);
	if (__atomic_load_n(&pending_count, __ATOMIC_RELAXED) == 0)
		return;
	__atomic_add_fetch(&taking, 1, __ATOMIC_SEQ_CST);
	take_released(which, stream, until);
	if (__atomic_sub_fetch(&taking, 1, __ATOMIC_SEQ_CST) != 0)
		await_taken(which, stream, until);
}

void shim_host_end(uint64_t addr)
{
	struct range r = end_range(&host, addr);
	if (r.end == 0)
		return;
	overwrite_pending(NULL, NONE, addr, r.end - addr, r.registered ? UNREGISTERED : FREED);
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		if (e->addr >= addr && e->addr < r.end)
			drop_captured(e);
}

void shim_overwritten(uint64_t addr, uint64_t len)
{
	if (len != 0)
		overwrite_pending(NULL, NONE, addr, len, COPIED_OVER);
}

uint64_t shim_order(void) { return __atomic_load_n(&order, __ATOMIC_ACQUIRE); }
void shim_synced_stream(void *stream, uint64_t until) { release(OF_STREAM, stream, until); }
void shim_synced_device(uint64_t until) { release(OF_DEVICE, NULL, until); }

/*
 * The last record of each event, and how many have begun and ended in its place. Other threads may record an event while one waits for it: a
 * wait is for the last record where that had ended when the wait began and none has begun until its end. Of two records at once nobody knows which
 * is the last. Of two events that share a place the one that is recorded later has it, and what waits for the other one waits for the next
 * stream or device: places go by address, so that events within 256 KiB of the runtime's heap have one each. It is address space that a program has the less.
 */
#define EVENTS 16384
static struct {
	uint64_t begun, ended;
	uint64_t last; /* the one that the rest is of */
	void *event, *stream;
	uint64_t order;
} events[EVENTS];

static uint32_t event_slot(void *event) { return (uint32_t)((uint64_t)event >> 4) % EVENTS; }

uint64_t shim_event_begins(void *event)
{
	if (shim_t.depth > 1)
		return 0; /* a part of the call around it */
	return __atomic_add_fetch(&events[event_slot(event)].begun, 1, __ATOMIC_SEQ_CST);
}

void shim_event_recorded(void *event, uint64_t number, bool ok, void *stream, uint64_t until)
{
	uint32_t i = event_slot(event);
	if (number == 0)
		return;
	if (ok && __atomic_load_n(&events[i].begun, __ATOMIC_SEQ_CST) == number && __atomic_load_n(&events[i].ended, __ATOMIC_SEQ_CST) == number - 1) {
		__atomic_thread_fence(__ATOMIC_RELEASE);
		events[i].event = event;
		events[i].stream = stream;
		events[i].order = until;
		events[i].last = number;
	}
	__atomic_add_fetch(&events[i].ended, 1, __ATOMIC_SEQ_CST);
}

void shim_event_ends(void *event)
{
	shim_event_recorded(event, shim_event_begins(event), false, NULL, 0);
}

struct shim_recorded shim_event_last(void *event)
{
	uint32_t i = event_slot(event);
	uint64_t number = __atomic_load_n(&events[i].ended, __ATOMIC_SEQ_CST);
	bool known = events[i].last == number && events[i].event == event;
	struct shim_recorded r = {number, events[i].stream, events[i].order};
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!known || __atomic_load_n(&events[i].begun, __ATOMIC_SEQ_CST) != number)
		r.number = 0;
	return r;
}

void shim_synced_event(void *event, const struct shim_recorded *r)
{
	if (r->number != 0 && __atomic_load_n(&events[event_slot(event)].begun, __ATOMIC_SEQ_CST) == r->number)
		release(OF_STREAM, r->stream, r->order);
}

/* From memory that is not pinned the runtime copies before it returns. */
static uint8_t early(const void *p, bool async) { return async && (host.forgot || pinned((uint64_t)p)) ? PIECE_EARLY : 0; }

/* Whether memory that a call has just read or written may be the device's all the same. */
static bool unsure(void) { return far[ALLOCATED].forgot || far[RESERVED].forgot; }

void shim_reads(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t len, bool async)
{
	if (p == NULL || len == 0 || on_device((uint64_t)p))
		return;
	struct payload d = payload_of(c->seq, param, early(p, async), item, p, len);
	/* A copy that may still run on has not touched all of it yet. */
	payload_bytes(&d, async || unsure());
}

void shim_writes(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t len, bool async, void *stream)
{
	if (p == NULL || len == 0 || on_device((uint64_t)p))
		return;
	struct payload d = payload_of(c->seq, param, PIECE_OUT, item, p, len);
	/* To memory that is not pinned the runtime copies before it returns. */
	if (!async || !pinned((uint64_t)p)) {
		overwrite_pending(NULL, NONE, d.addr, len, COPIED_OVER);
		if (async && host.forgot)
			payload_missing(&d, MISSING_TABLE_FULL);
		else
			payload_bytes(&d, async || unsure());
		return;
	}
	if (__atomic_load_n(&shim_captures, __ATOMIC_RELAXED) != 0)
		add_captured(NULL, d.addr, len, 0, 0);
	if (!add_pending(&d, stream, 0, 0))
		payload_missing(&d, MISSING_TABLE_FULL);
}

/* Copies rows of memory that may not be there, many by one system call. */
static bool careful_rows(uint8_t *to, const uint8_t *from, uint64_t pitch, uint64_t width, uint64_t rows)
{
	enum { AT_ONCE = 32 };
	struct { const void *base; uint64_t len; } remote[AT_ONCE];
	while (rows > 0) {
		uint64_t n = rows < AT_ONCE ? rows : AT_ONCE;
		struct { void *base; uint64_t len; } local = {to, n * width};
		for (uint64_t i = 0; i < n; i++) {
			remote[i].base = from + i * pitch;
			remote[i].len = width;
		}
		if (sys6(__NR_process_vm_readv, sys0(__NR_getpid), SYS_ARG(&local), 1, SYS_ARG(remote), (long)n, 0) != (long)(n * width))
			return false;
		to += n * width;
		from += n * pitch;
		rows -= n;
	}
	return true;
}

/* Rows become one piece without the gaps between them. */
static void payload_rows(struct payload *p, uint64_t pitch, uint64_t width)
{
	if (pitch == width) {
		payload_bytes(p, true);
		return;
	}
	if (p->len > shim_control->payload_limit) {
		payload_missing(p, shim_control->payload_limit ? MISSING_OVER_LIMIT : MISSING_NOT_ASKED);
		return;
	}
	if (width > shim_t.size / 8) {
		payload_missing(p, MISSING_OVER_LIMIT);
		return;
	}
	uint64_t part = shim_t.size / 8 < PART ? shim_t.size / 8 : PART;
	uint64_t rows = width ? p->len / width : 0, at_once = part / width ? part / width : 1;
	for (uint64_t row = 0; row < rows;) {
		uint64_t k = rows - row < at_once ? rows - row : at_once;
		struct payload_record *r = begin_part(p, row * width, k * width);
		if (r == NULL)
			return;
		if (!careful_rows((uint8_t *)(r + 1), (const uint8_t *)p->addr + row * pitch, pitch, width, k)) {
			payload_missing(p, MISSING_UNREADABLE);
			return;
		}
		end_part(r);
		row += k;
	}
}

void shim_reads_rows(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t pitch, uint64_t width, uint64_t rows, bool async)
{
	if (p == NULL || width * rows == 0 || on_device((uint64_t)p))
		return;
	struct payload d = payload_of(c->seq, param, early(p, async), item, p, width * rows);
	payload_rows(&d, pitch, width);
}

void shim_writes_rows(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t pitch, uint64_t width, uint64_t rows, bool async, void *stream)
{
	if (p == NULL || width * rows == 0 || on_device((uint64_t)p))
		return;
	struct payload d = payload_of(c->seq, param, PIECE_OUT, item, p, width * rows);
	if (!async || !pinned((uint64_t)p)) {
		overwrite_pending(NULL, NONE, d.addr, pitch * rows, COPIED_OVER);
		if (async && host.forgot)
			payload_missing(&d, MISSING_TABLE_FULL);
		else
			payload_rows(&d, pitch, width);
		return;
	}
	if (__atomic_load_n(&shim_captures, __ATOMIC_RELAXED) != 0)
		add_captured(NULL, d.addr, d.len, pitch, width);
	if (!add_pending(&d, stream, pitch, width))
		payload_missing(&d, MISSING_TABLE_FULL);
}

/* Memory of a kind that its address does not tell: of the host where the runtime has given it out, else where it can be read. */
bool shim_on_host(const void *p, uint64_t len)
{
	uint8_t b;
	if (p == NULL || len == 0 || on_device((uint64_t)p))
		return false;
	return pinned((uint64_t)p) || (shim_careful_copy(&b, p, 1) && shim_careful_copy(&b, (const uint8_t *)p + len - 1, 1));
}

static uint64_t field(const void *s, uint32_t at)
{
	uint64_t v = 0;
	if (at != SHIM_NO_FIELD)
		memcpy(&v, (const uint8_t *)s + at, 8);
	return v;
}

/* What one side of a block is on the host: from p on, so many rows. False where it is none of the host's. */
static bool host_side(const void *s, const struct shim_block *b, const struct shim_side *side, const uint8_t **p, uint64_t *pitch, uint64_t *rows)
{
	enum { HOST = 1, UNIFIED = 4 };
	uint32_t kind;
	memcpy(&kind, (const uint8_t *)s + side->kind, sizeof kind);
	if (kind != HOST && kind != UNIFIED)
		return false;
	uint64_t width = field(s, b->width), height = field(s, b->height), depth = b->depth == SHIM_NO_FIELD ? 1 : field(s, b->depth);
	uint64_t plane = side->rows == SHIM_NO_FIELD ? 0 : field(s, side->rows);
	*pitch = field(s, side->pitch);
	if (*pitch == 0)
		*pitch = width;
	if (width == 0 || height == 0 || depth == 0 || *pitch < width)
		return false;
	*p = (const uint8_t *)field(s, kind == HOST ? side->host : side->device);
	*p += field(s, side->x) + *pitch * (field(s, side->y) + plane * field(s, side->z));
	/* Planes with a gap between them are taken with it: the rows in it are the program's too. */
	*rows = depth == 1 || plane == 0 ? height * depth : plane * (depth - 1) + height;
	return kind == HOST || shim_on_host(*p, *pitch * (*rows - 1) + width);
}

void shim_block(struct shim_call *c, uint8_t param, uint32_t item, const void *s, const struct shim_block *b, const struct shim_side *side, bool async, void *stream)
{
	const uint8_t *p;
	uint64_t pitch, rows;
	if (!host_side(s, b, side, &p, &pitch, &rows))
		return;
	if (side == &b->from)
		shim_reads_rows(c, param, item, p, pitch, field(s, b->width), rows, async);
	else
		shim_writes_rows(c, param, item, p, pitch, field(s, b->width), rows, async, stream);
}

void shim_block_overwrites(const void *s, const struct shim_block *b)
{
	const uint8_t *p;
	uint64_t pitch, rows;
	if (__atomic_load_n(&pending_count, __ATOMIC_RELAXED) != 0 && s != NULL && host_side(s, b, &b->to, &p, &pitch, &rows) && rows != 0)
		shim_overwritten((uint64_t)p, pitch * (rows - 1) + field(s, b->width));
}

void shim_block_captured(void *graph, const void *s, const struct shim_block *b)
{
	const uint8_t *p;
	uint64_t pitch, rows;
	if (!host_side(s, b, &b->to, &p, &pitch, &rows))
		return;
	uint64_t width = field(s, b->width);
	/* Rows without gaps are one piece. */
	add_captured(graph, (uint64_t)p, width * rows, pitch == width ? 0 : pitch, width);
}

/*
 * Buffers behind placeholders of argument lists: the program fills them, on whatever thread, so they are taken at the launch. A list has no end,
 * and its place goes to another when that is needed.
 */
enum { LISTS = 1024, WAYS = 4, BUFFERS = 64 };
static struct list {
	void *args;
	uint64_t begun; /* 0 for none ever */
	uint32_t used; /* may be more than there is room for */
	struct { uint64_t addr, len; } buffer[BUFFERS];
} (*lists)[WAYS]; /* mapped with the first ring */
static uint64_t lists_begun;

static void open_lists(void)
{
	if (__atomic_load_n(&lists, __ATOMIC_ACQUIRE) != NULL)
		return;
	long m = map(sizeof *lists * LISTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	if (failed(m))
		return;
	struct list (*none)[WAYS] = NULL;
	if (!__atomic_compare_exchange_n(&lists, &none, (struct list (*)[WAYS])m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sys2(__NR_munmap, m, sizeof *lists * LISTS);
}

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
		/* Others may begin in the same place. */
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

/* A piece with an address of its own; without its bytes where there are more than max, or where they may not be there and are not. */
static void any_far(struct shim_call *c, uint8_t param, uint8_t flags, uint32_t item, uint64_t addr, uint64_t len, uint64_t max, bool ok)
{
	uint64_t bytes = len <= max ? len : 0;
	uint64_t need = sizeof(struct piece) + sizeof(struct far) + round8(bytes);
	if (!grow(c, need))
		return;
	struct piece *h = (struct piece *)c->end;
	*h = (struct piece){.param = param, .flags = (uint8_t)(flags | PIECE_FAR | (bytes ? PIECE_BYTES : 0)), .missing = bytes ? 0 : MISSING_OVER_LIMIT, .len = (uint32_t)bytes};
	struct far *f = (struct far *)(h + 1);
	*f = (struct far){.addr = addr, .len = len, .item = item};
	if (bytes) {
		*(uint64_t *)((uint8_t *)(f + 1) + round8(bytes) - 8) = 0;
		if (ok)
			memcpy(f + 1, (const void *)addr, bytes);
		else if (!shim_careful_copy(f + 1, (const void *)addr, bytes)) {
			h->flags &= (uint8_t)~PIECE_BYTES;
			h->missing = MISSING_UNREADABLE;
			h->len = 0;
			need -= round8(bytes);
		}
	}
	c->end += need;
}

static void far_piece(struct shim_call *c, uint8_t param, uint32_t item, uint64_t addr, uint64_t len, bool ok)
{
	any_far(c, param, 0, item, addr, len, RING_INLINE, ok);
}

void shim_far(struct shim_call *c, uint8_t param, uint8_t flags, uint32_t item, const void *p, uint64_t len)
{
	if (p != NULL && len != 0)
		any_far(c, param, flags, item, (uint64_t)p, len, shim_t.size / 4, true);
}

void shim_far_string(struct shim_call *c, uint8_t param, uint32_t item, const char *s)
{
	uint64_t n = 0;
	if (s == NULL)
		return;
	while (n < RING_INLINE && s[n])
		n++;
	shim_far(c, param, 0, item, s, n);
}

void shim_buffers_captured(struct shim_call *c, uint8_t param, void *args)
{
	const struct list *l = list_of(args);
	for (uint32_t i = 0; l != NULL && i < l->used && i < BUFFERS; i++)
		far_piece(c, param, 1 + i, l->buffer[i].addr, l->buffer[i].len, true);
}

void shim_array_item(struct shim_call *c, uint8_t param, uint32_t i, const void *p, uint64_t len)
{
	if (p != NULL && len <= RING_INLINE)
		far_piece(c, param, 1 + i, (uint64_t)p, len, true);
}

/* What was answered about a handle, until that ends. Another with the same place makes the shim ask again. */
enum { ANSWERS = 64 };
static struct answer { const void *handle; const char *function; uint32_t value; } answers[ANSWERS];

static struct answer *answer_of(const void *handle) { return &answers[((uint64_t)handle * 0x9e3779b97f4a7c15ULL >> 32) % ANSWERS]; }

void shim_forget(const void *handle)
{
	struct answer *a = answer_of(handle);
	if (__atomic_load_n(&a->handle, __ATOMIC_ACQUIRE) == handle)
		__atomic_store_n(&a->handle, NULL, __ATOMIC_RELEASE);
}

uint64_t shim_query(const char *function, const void *handle)
{
	uint32_t v = 0;
	struct answer *a = answer_of(handle), known;
	static uint32_t busy;
	if (__atomic_load_n(&a->handle, __ATOMIC_ACQUIRE) == handle) {
		known = *a;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (known.function == function && __atomic_load_n(&a->handle, __ATOMIC_RELAXED) == handle)
			return known.value;
	}
	int (*f)(const void *, uint32_t *) = shim_optional(&shim_own[4], function);
	shim_t.depth++; /* what it calls in turn is no call of the program's */
	bool told = f != NULL && f(handle, &v) == 0;
	shim_t.depth--;
	if (told && handle != NULL && !__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&a->handle, NULL, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		a->function = function;
		a->value = v;
		__atomic_store_n(&a->handle, handle, __ATOMIC_RELEASE);
		__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
	}
	return told ? v : 0;
}

/*
 * Logs and dumps of the runtime name a task by its stream's number and its own. Both are asked for by queries that read
 * what the thread has just done and leave everything as it is. The number of a stream is asked for once, until any
 * stream ends: its handle may then stand for another.
 */
#define STREAMS 8
#define NO_TASK 0xffffffffU /* of a thread that has not made one yet */
static uint32_t streams_ended;
static __thread struct {
	struct { void *stream; uint32_t id, ended; } known[STREAMS];
	uint64_t last; /* task that was asked for last */
} tasks __attribute__((tls_model("initial-exec")));

void shim_stream_ended(void) { __atomic_fetch_add(&streams_ended, 1, __ATOMIC_ACQ_REL); }

bool shim_after_task;

/* The ids of the task that the thread has just put on a stream; false where it has made none, or the runtime does not tell. */
static SHIM_INLINE bool task_ids(void *stream, uint64_t *both)
{
	int (*task_id)(uint32_t *) = shim_task_of[0] ? shim_optional(&shim_own[2], shim_task_of[0]) : NULL;
	int (*stream_id)(void *, int32_t *) = shim_task_of[1] ? shim_optional(&shim_own[3], shim_task_of[1]) : NULL;
	uint32_t task, ended = __atomic_load_n(&streams_ended, __ATOMIC_ACQUIRE);
	int32_t id;
	if (task_id == NULL || stream_id == NULL) {
		shim_after_task = shim_control->time_every != 0;
		return false;
	}
	if (task_id(&task) != 0 || task == NO_TASK)
		return false;
	uint32_t k = (uint32_t)((uint64_t)stream >> 4) % STREAMS;
	if (stream == NULL || tasks.known[k].stream != stream || tasks.known[k].ended != ended) {
		if (stream_id(stream, &id) != 0)
			return false;
		tasks.known[k].stream = stream;
		tasks.known[k].ended = ended;
		tasks.known[k].id = (uint32_t)id;
	}
	*both = (uint64_t)tasks.known[k].id << 32 | task;
	if (*both == tasks.last)
		return false; /* a copy of nothing, or one that the runtime did itself */
	tasks.last = *both;
	return true;
}

void shim_plain_task(struct call_record *r, void *stream)
{
	uint64_t both;
	if (shim_control->task_ids && task_ids(stream, &both)) {
		struct piece *p = (struct piece *)((uint8_t *)r + r->h.size);
		*p = (struct piece){.param = TASK_PARAM, .flags = PIECE_OUT | PIECE_BYTES, .len = 8};
		*(uint64_t *)(p + 1) = both;
		r->h.size += (uint32_t)sizeof *p + 8;
		__atomic_store_n(&r->h.state, STATE_DONE, __ATOMIC_RELEASE);
		__atomic_store_n(&shim_t.ring->head, shim_t.head + r->h.size, __ATOMIC_RELEASE);
	}
	shim_plain_exit(r);
}

void shim_any_task(struct shim_call *c, void *stream)
{
	uint64_t both;
	if (shim_control->task_ids && task_ids(stream, &both) && grow(c, sizeof(struct piece) + 8))
		shim_out(c, TASK_PARAM, &both, 8);
	if (shim_control->time_every)
		shim_time_end(c, stream);
}

/*
 * The stack that a call was made from, by the chain of frame pointers, inside the stack of the thread alone: code that was
 * compiled without them ends it early. The addresses are written once for each stack that the ring has not seen lately;
 * calls name it by a hash.
 */
enum { STACK_FRAMES = 64, STACKS = 128, STACK_WAYS = 8 };
/* In the page before the thread's ring: where an auditing library is loaded too, there is hardly any static TLS. */
_Static_assert(1024 + STACKS * sizeof(uint64_t) <= RING_HEADER, "stacks");
#define stacks_seen ((uint64_t *)((uint8_t *)shim_t.ring + 1024))
static __thread uint64_t stack_end __attribute__((tls_model("initial-exec")));

/* The end of the mapping that holds an address, 0 where it can't be found. */
static uint64_t mapping_end(uint64_t addr)
{
	long fd = sys3(__NR_openat, -100, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	uint64_t from = 0, number = 0, found = 0;
	enum { FROM, TO, REST } at = FROM;
	char text[512];
	for (long n; found == 0 && (n = sys3(__NR_read, fd, text, sizeof text)) > 0;)
		for (long i = 0; i < n && found == 0; i++) {
			char c = text[i];
			if (c == '\n')
				at = FROM, number = 0;
			else if (at == REST)
				continue;
			else if (c == '-')
				from = number, number = 0, at = TO;
			else if (c == ' ') {
				at = REST;
				if (addr >= from && addr < number)
					found = number;
			} else
				number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
		}
	sys1(__NR_close, fd);
	return found;
}

/*
 * Where code lies, which the recorder can't learn of a process that is gone before it looks: with the first stack of the
 * process. What is loaded later it reads itself.
 */
static void tell_maps(struct shim_call *c)
{
	if (__atomic_exchange_n(&shim_p->told_maps, 1, __ATOMIC_RELAXED))
		return;
	long fd = sys3(__NR_openat, -100, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	enum { AT_ONCE = 4096 };
	uint8_t *start = c->end;
	uint64_t len = 0;
	c->end += sizeof(struct piece);
	while (len < shim_t.size / 4 && grow(c, 2 * AT_ONCE)) {
		long n = sys3(__NR_read, fd, c->end, AT_ONCE);
		if (n <= 0)
			break;
		c->end += n;
		len += (uint64_t)n;
	}
	sys1(__NR_close, fd);
	*(struct piece *)start = (struct piece){.param = MAPS_PARAM, .flags = PIECE_BYTES, .len = (uint32_t)len};
	c->end = start + sizeof(struct piece) + round8(len);
}

void shim_stack(struct shim_call *c)
{
	struct shim_thread *t = &shim_t;
	uint64_t pcs[STACK_FRAMES];
	uint64_t *fp = t->frame, n = 0, hash = 0x9e3779b97f4a7c15ULL;
	uint64_t most = shim_control->stack_frames < STACK_FRAMES ? shim_control->stack_frames : STACK_FRAMES;
	/* A thread that runs on another stack for once (a signal's, a coroutine's) is not followed beyond its own. */
	if (stack_end == 0)
		stack_end = mapping_end((uint64_t)fp);
	while (n < most) {
		if ((uint64_t)fp % 8 != 0 || (uint64_t)(fp + 2) > stack_end || stack_end - (uint64_t)fp > 1ULL << 30)
			break;
		uint64_t *next = (uint64_t *)fp[0];
		pcs[n] = fp[1];
		if (pcs[n] < 4096)
			break;
		hash = (hash ^ pcs[n++]) * 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
		if (next <= fp)
			break;
		fp = next;
	}
	if (n == 0)
		return;
	if (!shim_p->told_maps && grow(c, sizeof(struct piece)))
		tell_maps(c);
	if (!grow(c, 2 * sizeof(struct piece) + 8 + 8 * n))
		return;
	/* Of the stacks whose hashes fall together, the oldest makes room: two that alternate are both written once. */
	uint64_t *seen = &stacks_seen[hash % (STACKS / STACK_WAYS) * STACK_WAYS];
	size_t way = 0;
	while (way < STACK_WAYS && seen[way] != hash)
		way++;
	if (way == STACK_WAYS) {
		for (way = STACK_WAYS - 1; way > 0; way--)
			seen[way] = seen[way - 1];
		*seen = hash;
		shim_piece(c, STACK_PARAM, 0, pcs, 8 * n, true);
	}
	shim_out(c, STACK_PARAM, &hash, 8);
}
