#include "task/ids.h"

#include "base/loader.h"
#include "record/piece.h"
#include "runtime.h"
#include "task/devtime.h"

/* A cache of answers about handles, direct-mapped. */
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
	if (shim_stranger())
		return 0;
	shim_t.depth++; /* its inner calls are not the program's */
	bool answered = f != NULL && f(handle, &v) == 0;
	shim_t.depth--;
	if (answered && handle != NULL && !__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&a->handle, NULL, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		a->function = function;
		a->value = v;
		__atomic_store_n(&a->handle, handle, __ATOMIC_RELEASE);
		__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
	}
	return answered ? v : 0;
}

/*
 * The runtime's logs and dumps name a task by its stream's number and its own. Both are read by queries without side effects, right after the call. A
 * stream's number is cached until any stream ends, since another stream may then get the handle.
 */
#define STREAMS 8
#define NO_TASK 0xffffffffU /* the thread has not made a task yet */
static uint32_t streams_ended;
static __thread struct {
	struct { void *stream; uint32_t id, ended; } known[STREAMS];
	uint64_t last; /* the last task that was recorded */
} tasks __attribute__((tls_model("initial-exec")));

void shim_stream_ended(void) { __atomic_fetch_add(&streams_ended, 1, __ATOMIC_ACQ_REL); }

/* Stores the ids of the task that the thread has just put on a stream. False if there is none, or if the runtime has no such query. */
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
		return false; /* an empty copy, or one without a task */
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
