/*
 * The events around a task are queried after a wait of the program. First come the tasks that the wait covers, also by events between streams. Then
 * come the oldest tasks of other streams, because a wait may cover them in ways that the shim does not follow. If almost all pairs are in use, the oldest
 * tasks are queried after each task: the program waits in another way. The shim never waits: a task that is not complete at any of these moments has no time.
 *
 * The program must not notice. The events do not count against the program's limit. The thread's last task stays the program's. If an added call
 * fails, its error is cleared, and the process measures no more tasks. While a stream of the process is captured, no event is added.
 */
#include "task/devtime.h"

#include "base/hooks.h"
#include "base/loader.h"
#include "record/piece.h"
#include "runtime.h"
#include "task/pairs.h"

uint32_t shim_captures;
static bool ended; /* the process measures no more tasks */

/* The thread's state, in the page before its ring. */
struct timing {
	uint32_t left;  /* tasks until the next measured one */
	uint32_t random;
	uint64_t next;  /* clock: no task is measured before */
	struct pair *open; /* its first event is on the stream */
	int32_t error;  /* the thread's last error before the current call */
	int32_t kept;   /* the program's error that an added call has replaced, 0: none */
	uint32_t ours, theirs; /* the thread's last task, and the last one that the program has made */
};
_Static_assert(512 + sizeof(struct timing) <= 1024, "timing");
#define mine ((struct timing *)((uint8_t *)shim_t.ring + 512))

#define names shim_timing
static void *functions[TIMING_LAYERS][TIMING_FUNCTIONS];
static uint32_t layer; /* in use */
#define runtime(f) functions[layer][f]

enum { THREAD_LEVEL = 0 };

static int32_t current_context(void **c) { return ((int32_t (*)(void **))runtime(CONTEXT))(c); }
static bool has(int f) { return names[layer][f] != NULL && shim_optional(&runtime(f), names[layer][f]) != NULL; }
static int32_t peek(void) { return has(PEEK) ? ((int32_t (*)(int32_t))runtime(PEEK))(THREAD_LEVEL) : 0; }
static int32_t create(void **event) { return ((int32_t (*)(void **, uint32_t))runtime(CREATE))(event, shim_timing_flags); }
static int32_t destroy(void *event) { return ((int32_t (*)(void *))runtime(DESTROY))(event); }
static int32_t record(void *event, void *stream) { return ((int32_t (*)(void *, void *))runtime(RECORD))(event, stream); }
static int32_t status(void *event, bool *done) { return shim_event_status(runtime(STATUS), event, done); }
static int32_t elapsed(float *ms, void *a, void *b) { return ((int32_t (*)(float *, void *, void *))runtime(ELAPSED))(ms, a, b); }

/* The two layers take the parameters in different orders. */
static int32_t stamp(void *event, uint64_t *us)
{
	return layer == UPPER ? ((int32_t (*)(void *, void *))runtime(STAMP))(event, us) : ((int32_t (*)(void *, void *))runtime(STAMP))(us, event);
}

static int32_t last_task(uint32_t *id) { return has(TASK) ? ((int32_t (*)(uint32_t *))runtime(TASK))(id) : 1; }

static void unmeasured(enum untimed why) { __atomic_store_n(&shim_t.ring->untimed[why], shim_t.ring->untimed[why] + 1, __ATOMIC_RELEASE); }

static bool can_time(void)
{
	for (int f = 0; f < TIMING_REQUIRED; f++)
		if (!has(f))
			return false;
	if (names[layer][STAMP] != NULL && !has(STAMP))
		return false;
	return layer == LOWER || (has(PEEK) && has(FORGET) && has(MESSAGE) && has(TASK));
}

/*
 * A runtime without STAMP reports only times between events. Then one event in each context is the reference for all times. It is replaced from
 * time to time, since a long time between events has less precision.
 */
static struct reference {
	void *context, *event, *next; /* next replaces event when it is complete */
	double us;                    /* time of event */
	bool old;
} references[16];
static uint32_t references_busy;

static bool lock_references(void) { return __atomic_exchange_n(&references_busy, 1, __ATOMIC_ACQUIRE) == 0; }
static void unlock_references(void) { __atomic_store_n(&references_busy, 0, __ATOMIC_RELEASE); }

static struct reference *reference_of(void *context)
{
	for (unsigned i = 0; i < sizeof references / sizeof *references; i++)
		if (references[i].context == context)
			return &references[i];
	return NULL;
}

/* Records a reference event on a stream if the context has none, or an old one. */
static void refer(void *context, void *on)
{
	if (has(STAMP) || !lock_references())
		return;
	struct reference *r = reference_of(context);
	if (r == NULL)
		r = reference_of(NULL);
	void **to = r == NULL ? NULL : r->event == NULL ? &r->event : r->old && r->next == NULL ? &r->next : NULL;
	if (to != NULL && create(to) == 0) {
		if (record(*to, on) != 0) {
			destroy(*to);
			*to = NULL;
		} else if (to == &r->event) {
			r->context = context;
			r->us = 1e12;
		}
	}
	unlock_references();
}

/* Stores both events' times. Returns TIMING_LATER if they are not known yet. */
static int32_t stamps(const struct pair *p, uint64_t *from, uint64_t *to, int32_t *device)
{
	enum { OLD_MS = 1000 };
	if (has(STAMP)) {
		*device = p->place.device;
		int32_t e = stamp(p->before, from);
		return e != 0 ? e : stamp(p->after, to);
	}
	if (!lock_references())
		return TIMING_LATER;
	struct reference *r = reference_of(p->context);
	float ms = 0;
	int32_t e = TIMING_LATER;
	if (r != NULL && r->next != NULL && elapsed(&ms, r->event, r->next) == 0) {
		destroy(r->event);
		r->us += (double)ms * 1000;
		r->event = r->next;
		r->next = NULL;
		r->old = false;
	}
	if (r != NULL && (e = elapsed(&ms, r->event, p->before)) == 0) {
		*from = (uint64_t)(r->us + (double)ms * 1000);
		r->old = r->old || ms > OLD_MS;
		if ((e = elapsed(&ms, r->event, p->after)) == 0)
			*to = (uint64_t)(r->us + (double)ms * 1000);
		*device = 1 + (int32_t)(r - references); /* each has its own clock */
	}
	unlock_references();
	return e;
}

/* Drops the reference events in a context that ends, in all contexts if it is NULL. */
static void forget_references(void *context)
{
	while (!lock_references())
		;
	for (unsigned i = 0; i < sizeof references / sizeof *references; i++) {
		struct reference *r = &references[i];
		if (r->event == NULL || (context != NULL && r->context != context))
			continue;
		destroy(r->event);
		if (r->next != NULL)
			destroy(r->next);
		*r = (struct reference){0};
	}
	unlock_references();
}

/* Clears the error of an added call. error is the thread's earlier one. */
static void restore(int32_t error)
{
	if (has(FORGET))
		((int32_t (*)(int32_t))runtime(FORGET))(THREAD_LEVEL);
	if (error == 0 && has(MESSAGE))
		((const char *(*)(void))runtime(MESSAGE))(); /* clear the text too, unless it may belong to the program's error */
	mine->kept = error;
}

static void failed(int32_t error)
{
	restore(error);
	ended = true;
	unmeasured(UNTIMED_FAILED);
}

int32_t shim_last_error(int32_t ret, bool forget)
{
	if (shim_control->time_every == 0 || shim_t.base == NULL || mine->kept == 0)
		return ret;
	int32_t e = ret != 0 ? ret : mine->kept;
	if (forget || ret != 0)
		mine->kept = 0;
	return e;
}

void shim_last_task(uint32_t *id)
{
	if (shim_control->time_every != 0 && shim_t.base != NULL && id != NULL && *id == mine->ours)
		*id = mine->theirs;
}

void shim_capture(bool begins)
{
	if (begins)
		__atomic_add_fetch(&shim_captures, 1, __ATOMIC_ACQ_REL);
	else if (__atomic_load_n(&shim_captures, __ATOMIC_RELAXED) != 0)
		__atomic_sub_fetch(&shim_captures, 1, __ATOMIC_ACQ_REL);
}

/* The latest join of one stream with another: stream has waited for an event, which was recorded on `from` after the work up to `until`. */
static struct join {
	const void *stream, *from;
	uint64_t order, until;
} joins[64];
static uint32_t joins_used; /* atomic */

/* Threads may write one entry together. It is then wrong, and the queries of events cost time, or come later. */
void shim_times_joined(const void *stream, const void *from, uint64_t until)
{
	static uint32_t oldest;
	const uint32_t most = sizeof joins / sizeof *joins;
	uint32_t used = __atomic_load_n(&joins_used, __ATOMIC_ACQUIRE), i = 0;
	while (i < used && (joins[i].stream != stream || joins[i].from != from))
		i++;
	if (i == most)
		i = __atomic_fetch_add(&oldest, 1, __ATOMIC_RELAXED) % most;
	joins[i] = (struct join){stream, from, shim_order(), until};
	raise_to(&joins_used, i + 1);
}

static void begin_thread(void) { *mine = (struct timing){.random = shim_t.slot * 2 + 1, .ours = ~(uint32_t)0, .theirs = ~(uint32_t)0}; }

static void forget_parent(void)
{
	pairs_forget();
	shim_captures = references_busy = joins_used = 0;
	for (unsigned i = 0; i < sizeof references / sizeof *references; i++)
		references[i] = (struct reference){0};
	ended = false;
}

SHIM_HOOKS(.process = forget_parent, .thread = begin_thread);

/* Whether to measure this task. At random intervals, since programs repeat themselves. */
static bool time_this(struct timing *m)
{
	uint32_t every = shim_control->time_every;
	if (every > 1) {
		if (m->left > 1) {
			m->left--;
			return false;
		}
		m->random ^= m->random << 13;
		m->random ^= m->random >> 17;
		m->random ^= m->random << 5;
		m->left = 1 + m->random % (2 * every - 1);
	}
	if (shim_control->time_gap != 0) {
		uint64_t now = shim_now();
		if (now < m->next)
			return false;
		m->next = now + shim_control->time_gap;
	}
	return true;
}

/* Finds the runtime layer that the program uses, and the thread's context. */
static bool ready(struct timing *m, void **context)
{
	for (;;) {
		if (can_time()) {
			m->error = peek();
			if (current_context(context) == 0)
				return true;
			restore(m->error);
			if (layer == LOWER || pairs_used())
				return false; /* the program's call will fail as well */
		}
		if (layer == LOWER) {
			ended = true;
			unmeasured(UNTIMED_FAILED);
			return false;
		}
		layer = LOWER;
	}
}

/* Creates a pair's events in a context, unless it has them. */
static bool equip(struct pair *p, void *context, int32_t error)
{
	if (p->context == context)
		return true;
	if (p->context != NULL && (destroy(p->before) != 0 || destroy(p->after) != 0))
		restore(error);
	p->context = NULL;
	if (create(&p->before) != 0) {
		failed(error);
		return false;
	}
	if (create(&p->after) != 0) {
		failed(error);
		destroy(p->before);
		return false;
	}
	p->context = context;
	return true;
}

void shim_time_begin(struct shim_call *c, void *on)
{
	struct timing *m = mine;
	struct pair *p = m->open;
	if (p != NULL) {
		m->open = NULL; /* the call has failed */
		pair_free(p);
	}
	if (ended || !time_this(m))
		return;
	if (__atomic_load_n(&shim_captures, __ATOMIC_ACQUIRE) != 0) {
		unmeasured(UNTIMED_CAPTURE);
		return;
	}
	void *context = NULL;
	if (!ready(m, &context))
		return;
	if ((p = pair_take(context)) == NULL) {
		unmeasured(UNTIMED_POOL);
		return;
	}
	if (!equip(p, context, m->error)) {
		pair_free(p);
		return;
	}
	p->slot = shim_t.slot;
	p->seq = c->seq;
	p->on = on;
	refer(context, on);
	p->issued = shim_now();
	if (record(p->before, on) != 0) {
		pair_free(p);
		failed(m->error);
		return;
	}
	m->open = p;
}

void shim_time_end(struct shim_call *c, void *stream)
{
	struct timing *m = mine;
	struct pair *p = m->open;
	uint64_t one = 1;
	uint8_t *end = c->end;
	if (p == NULL || p->seq != c->seq)
		return;
	m->open = NULL;
	shim_any_piece(c, TIME_PARAM, PIECE_OUT, &one, 8, true);
	if (c->end == end) {
		unmeasured(UNTIMED_LOST);
		pair_free(p);
		return;
	}
	last_task(&m->theirs);
	p->closed = shim_now();
	if (record(p->after, p->on) != 0) {
		pair_free(p);
		failed(m->error);
		return;
	}
	last_task(&m->ours);
	p->place = shim_place(stream);
	pair_wait(p);
}

static bool write_time(const struct time_record *time)
{
	if (!shim_room(sizeof *time + sizeof(struct lost_record)))
		return false;
	struct time_record *r = shim_next_record();
	*r = *time;
	r->h = (struct record){.size = sizeof *r, .type = REC_TIME, .state = STATE_DONE};
	shim_publish(sizeof *r);
	return true;
}

/* Writes the time of a finished task. False if it is not finished, or on an error. The program saw its end at `seen`, or sees it now if that is 0. */
static bool write_pair(struct pair *p, uint64_t seen, int32_t error)
{
	bool done = false;
	float ms = 0;
	uint64_t from = 0, to = 0;
	int32_t device = 0;
	if (status(p->after, &done) != 0) {
		failed(error);
		return false;
	}
	if (!done)
		return false;
	if (seen == 0)
		seen = shim_now();
	int32_t e = stamps(p, &from, &to, &device);
	if (e == TIMING_LATER && !has(STAMP))
		return false;
	if (e != 0 || elapsed(&ms, p->before, p->after) != 0) {
		failed(error);
		return false;
	}
	if (!write_time(&(struct time_record){
		    .slot = p->slot, .device = device, .seq = p->seq, .stream = (uint64_t)p->place.stream, .issued = p->issued,
		    .closed = p->closed, .seen = seen, .from = from, .to = to, .elapsed = ms}))
		unmeasured(UNTIMED_LOST);
	return true;
}

/* A wait, and the waits for other streams that it implies by events. */
struct waited {
	enum reach which;
	uint32_t n;
	struct { const void *stream; uint64_t until; } streams[16];
};

static void follow_joins(struct waited *w)
{
	uint32_t used = __atomic_load_n(&joins_used, __ATOMIC_ACQUIRE);
	for (uint32_t k = 0; k < w->n; k++)
		for (uint32_t i = 0; i < used && w->n < sizeof w->streams / sizeof *w->streams; i++) {
			const struct join *j = &joins[i];
			uint32_t had = 0;
			if (j->stream != w->streams[k].stream || j->order > w->streams[k].until)
				continue;
			while (had < w->n && (w->streams[had].stream != j->from || w->streams[had].until < j->until))
				had++;
			if (had == w->n) {
				w->streams[w->n].stream = j->from;
				w->streams[w->n++].until = j->until;
			}
		}
}

/* Whether the wait covers a task: 1 by itself, 2 by events. */
static uint32_t covered(const struct waited *w, const struct place *p)
{
	for (uint32_t i = 0; i < w->n; i++)
		if (shim_reached(p, w->which, w->streams[i].stream, w->streams[i].until))
			return i == 0 ? 1 : 2;
	return 0;
}

/* Queries the tasks that a wait covers, then others. */
static void query(const struct waited *w)
{
	enum { QUERIES = 64 }; /* of tasks that the wait does not cover */
	static uint32_t turn;
	if (shim_t.base == NULL)
		return;
	/* During a capture, the runtime may forbid queries of events in all threads. */
	bool captures = __atomic_load_n(&shim_captures, __ATOMIC_ACQUIRE) != 0;
	if (!has(STAMP) && captures)
		return;
	uint64_t seen = shim_now();
	int32_t error = peek();
	void *context = NULL;
	uint32_t queries = captures ? 0 : QUERIES, lines = pairs_lines();
	if (queries != 0 && current_context(&context) != 0) {
		restore(error);
		queries = 0;
	}
	/* If there are more streams than queries, each gets its turn. */
	uint32_t first = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < lines; i++)
		for (struct pair *p; !ended && (p = pair_oldest((first + i) % lines)) != NULL; pair_free(p)) {
			uint32_t how = covered(w, &p->place);
			bool query = how != 0 || (queries != 0 && p->context == context);
			if (how == 0 && query)
				queries--;
			if (!query || !write_pair(p, how == 1 ? seen : 0, error)) {
				pair_wait(p);
				break;
			}
		}
}

void shim_times_reached(enum reach which, void *stream, uint64_t until)
{
	if (ended || pairs_waiting() == 0)
		return;
	struct waited w = {.which = which, .n = 1, .streams = {{stream, until}}};
	if (which == OF_STREAM)
		follow_joins(&w);
	query(&w);
}

void shim_times_spare(void)
{
	enum { SPARE = 64 };
	if (!ended && pairs_waiting() > PAIRS - SPARE)
		query(&(struct waited){0});
}

/* Why a pair must go: its events end, or its task's stream or device does. */
struct leaving {
	enum leave which;
	const void *what;
	int32_t device;
};

static bool affected(const struct pair *p, const void *why)
{
	const struct leaving *l = why;
	if (p->context == NULL)
		return false;
	switch (l->which) {
	case STREAM_ENDS: return !p->free && p->place.stream == l->what && l->what != NULL;
	case CONTEXT_ENDS: return p->context == l->what;
	case DEVICE_ENDS: return p->place.device == 0 || p->place.device == 1 + l->device;
	default: return true;
	}
}

void shim_times_leave(enum leave which, const void *what, int32_t device)
{
	void *context = NULL;
	const struct leaving why = {which, what, device};
	if (shim_control->time_every == 0 || !pairs_used() || !can_time())
		return;
	int32_t error = peek();
	bool asks = current_context(&context) == 0;
	if (!asks)
		restore(error);
	for (struct pair *p; (p = pair_find(affected, &why)) != NULL; pair_free(p)) {
		if (!p->free && asks && !ended && write_pair(p, 0, error) && which == STREAM_ENDS)
			continue;
		if (asks && (destroy(p->before) != 0 || destroy(p->after) != 0))
			restore(error);
		p->context = NULL;
	}
	if (which != STREAM_ENDS && !has(STAMP) && asks)
		forget_references(which == CONTEXT_ENDS ? (void *)what : NULL);
}
