/*
 * The shim gives its own function to the runtime, with a pointer to an entry that has the program's function and argument. So it sees when each run begins
 * and ends, on any thread.
 *
 * The runtime may call a function any number of times, for example in a graph. So entries are never removed. Each pair of function and argument has
 * one. If the table is full, the program's function is passed on unchanged.
 */
#include "task/host.h"

#include "runtime.h"

enum { FUNCTIONS = 1 << 15, TRIES = 64, RUNS = 23 };

/* data is valid once fn is set. A thread that finds an entry being filled takes another one, so a pair may have two. */
static struct own {
	void *fn, *data;
} functions[FUNCTIONS];

/*
 * Runs inside a call that reports (shim_report) are recorded after it: a thread can be in only one enclosing call. Until then they are kept in the
 * page before the ring, beside the hashes of record/stack.c.
 */
struct run {
	uint64_t fn, data, start, end;
};
_Static_assert(sizeof(struct ring) + RUNS * sizeof(struct run) <= 1024, "runs");
#define runs ((struct run *)((uint8_t *)shim_t.ring + sizeof(struct ring)))

static void call(void *own);

struct shim_function shim_host_function(void *fn, void *data)
{
	static void *const taken = (void *)1;
	struct shim_function as_it_is = {fn, data};
	uint64_t at = (((uint64_t)fn ^ (uint64_t)data >> 4) * 0x9e3779b97f4a7c15ULL) >> 32;
	if (fn == NULL || fn == taken)
		return as_it_is;
	for (uint32_t i = 0; i < TRIES; i++) {
		struct own *o = &functions[(at + i) % FUNCTIONS];
		void *was = __atomic_load_n(&o->fn, __ATOMIC_ACQUIRE);
		if (was == NULL && __atomic_compare_exchange_n(&o->fn, &was, taken, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			o->data = data;
			__atomic_store_n(&o->fn, fn, __ATOMIC_RELEASE);
			was = fn;
		}
		if (was == fn && o->data == data)
			return (struct shim_function){(void *)call, o};
	}
	return as_it_is;
}

static void call(void *own)
{
	const struct own *o = own;
	void (*fn)(void *) = (void (*)(void *))o->fn;
	struct shim_thread *t = &shim_t;
	struct shim_call c;
	uint64_t words[2] = {(uint64_t)fn, (uint64_t)o->data};
	if (shim_stranger()) {
		fn(o->data);
		return;
	}
	if (t->depth != 0 && (void *)__builtin_frame_address(0) < t->frame) {
		uint32_t depth = t->depth;
		void *frame = t->frame;
		uint64_t start = shim_now();
		/* Inside a reporting call no record is open, so the function's calls are recorded. */
		bool reports = t->outer != 0 && frame == t->outer_frame;
		if (reports)
			t->depth = 0;
		fn(o->data);
		t->depth = depth;
		t->frame = frame;
		if (reports && t->base != NULL && t->generation == shim_p->generation && t->ran < RUNS)
			runs[t->ran++] = (struct run){words[0], words[1], start, shim_now()};
		return;
	}
	bool on = shim_begin(&c, shim_hostFunction, words, 2, 0);
	if (on)
		shim_begun(&c);
	fn(o->data);
	if (on) {
		shim_ended(&c, shim_hostFunction, 0);
		shim_finish(&c);
	}
	shim_outside();
}

bool shim_report_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve)
{
	struct shim_thread *t = &shim_t;
	bool on = shim_begin_at(frame, c, func, words, n, reserve);
	/* The runtime's own calls inside it are not recorded. */
	if (!shim_stranger() && t->depth++ == 0)
		t->frame = frame;
	return on;
}

void shim_reported(void)
{
	struct shim_thread *t = &shim_t;
	if (shim_stranger())
		return;
	uint32_t depth = --t->depth;
	if (--t->outer != 0)
		return;
	for (uint32_t i = 0; i < t->ran; i++) {
		struct shim_call c;
		uint64_t words[2] = {runs[i].fn, runs[i].data};
		t->depth = 0;
		if (shim_enter(&c, shim_hostFunction, words, 2, 0)) {
			c.rec->start = runs[i].start;
			c.rec->end = runs[i].end;
			shim_exit(&c);
		}
	}
	t->depth = depth;
	t->ran = 0;
}
