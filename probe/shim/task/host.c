/*
 * Functions of the program's that a stream calls: host functions and callbacks. The shim gives the runtime its own function
 * instead, with what leads to the program's as its argument, and so knows when each run begins and ends, on whatever thread. The
 * runtime makes the same calls, and the program's function gets the argument that the program meant for it.
 *
 * How often the runtime will call, nobody says: a graph that is run again calls again. So what leads to a function stays for
 * ever, once for each function with an argument; where there is no room for more the program's function goes as it is.
 */
#include "task/host.h"

#include "runtime.h"

enum { FUNCTIONS = 1 << 15, TRIES = 64, RUNS = 24 };

/* data counts once fn is there. A thread that finds neither takes another place: it may be there twice. */
static struct own {
	void *fn, *data;
} functions[FUNCTIONS];

/*
 * Runs inside a call that reports, which has a record for its beginning and one for its end, are told behind it: the recorder follows one
 * enclosing call of a thread. They lie in the page before the ring, like what stack.c keeps there.
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
	if (t->depth != 0 && (void *)__builtin_frame_address(0) < t->frame) {
		uint32_t depth = t->depth;
		void *frame = t->frame;
		uint64_t start = shim_now();
		/* Calls are the program's own again, where the ring is not in the middle of a record. */
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
	/* What the runtime calls in it is not recorded. */
	if (t->depth++ == 0)
		t->frame = frame;
	return on;
}

void shim_reported(void)
{
	struct shim_thread *t = &shim_t;
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
