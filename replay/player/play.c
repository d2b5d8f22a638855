/* The threads of one process: instructions, host functions, forks. */
#include "player.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call_gen.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* everywhere */
#endif

__thread uint32_t my_number;

/* Instructions to play inside a host function that the current call will run. */
static __thread struct {
	uint64_t from, to;
	bool played;
} enclosed;

static bool play_some(uint64_t thread, uint64_t i, uint64_t end, uint64_t progress);

/* Prepares the instructions that a call encloses. Returns their number. */
static uint64_t enclose(const struct plan_instruction *in, uint64_t i)
{
	uint64_t n = template(in)->width ? 0 : template(in)->len;
	enclosed.from = i + 1;
	enclosed.to = i + 1 + n;
	enclosed.played = false;
	return n;
}

static void play_enclosed(void)
{
	uint64_t from = enclosed.from, to = enclosed.to;
	struct result_thread *me = my_number ? &P.progress[my_number - 1] : NULL;
	if (me == NULL || from >= to)
		return;
	enclosed.from = to;
	/* A thread that waits for the last of them waits for the call too. */
	bool ended = play_some(my_number - 1, from, to, to - 1);
	__atomic_store_n(&me->inside, from, __ATOMIC_RELAXED);
	enclosed.to = enclosed.from = to;
	enclosed.played = ended;
}

/* Stands for a host function: makes its calls, and takes as long as recorded. */
static void host_function(void *arg)
{
	uint64_t start = nanoseconds();
	struct plan_runs *runs = arg;
	play_enclosed();
	if (runs == NULL)
		return;
	uint64_t run = __atomic_fetch_add(&runs->next, 1, __ATOMIC_RELAXED), end = start + (run < runs->count ? runs->ns[run] : 0);
	for (uint64_t now; (now = nanoseconds()) < end;) {
		if (end - now > 200000)
			pause_ns(end - now - 100000);
		else
			relax();
	}
}

static void stream_function(void *stream, int status, void *arg)
{
	(void)stream, (void)status;
	host_function(arg);
}

/* Maps zeros. MAP_SHARED memory has the same address in all processes, since they are forked later. */
static uint64_t zeros(uint64_t n, int flags)
{
	void *p = mmap(NULL, n ? n : 1, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		refuse("map %llu bytes of scratch memory: %s", (unsigned long long)n, strerror(errno));
	return (uint64_t)(uintptr_t)p;
}

void make_slots(void)
{
	const struct plan_header *h = P.plan;
	P.slots[SLOT_DATA] = (uint64_t)(uintptr_t)P.data;
	P.slots[SLOT_SCRATCH] = zeros(h->scratch, MAP_PRIVATE);
	P.slots[SLOT_SLOTS] = (uint64_t)(uintptr_t)P.slots;
	P.slots[SLOT_SHARED] = zeros(h->shared, MAP_SHARED);
	P.slots[SLOT_HOST_FUNCTION] = (uint64_t)(uintptr_t)&host_function;
	P.slots[SLOT_STREAM_FUNCTION] = (uint64_t)(uintptr_t)&stream_function;
	P.slots[SLOT_CALLBACK] = (uint64_t)(uintptr_t)&nothing;
	P.slots[SLOT_POISON] = P.result->poison;
	P.slots[SLOT_ZEROS] = zeros(h->zeros, MAP_PRIVATE);
	for (uint64_t t = 0; t < h->threads.count; t++)
		P.slots[SLOT_THREADS + t] = P.slots[SLOT_SCRATCH] + P.threads[t].scratch;
}

void map_host_memory(uint64_t process)
{
	const struct plan_map *maps = table(&P.plan->maps);
	for (uint64_t i = 0; i < P.plan->maps.count; i++) {
		const struct plan_map *m = &maps[i];
		if (m->process != process)
			continue;
		void *at = (void *)(uintptr_t)m->at, *p = MAP_FAILED;
		if (at != NULL)
			p = mmap(at, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (p != MAP_FAILED && p != at) { /* a kernel before 4.17 */
			munmap(p, m->size);
			p = MAP_FAILED;
		}
		P.slots[m->slot] = p != MAP_FAILED ? m->at : zeros(m->size, MAP_PRIVATE);
	}
}

/* Waits until another thread has finished enough instructions. Spins first. */
static void wait_for(const struct plan_instruction *in)
{
	const uint64_t *progress = &P.progress[template(in)->fn].progress;
	for (uint64_t n = 0; __atomic_load_n(progress, __ATOMIC_ACQUIRE) < in->at && !stopped(); n++) {
		if (n < 2000)
			relax();
		else if (n < 2100)
			sched_yield();
		else
			pause_ns(20000);
	}
}

static void store(const struct plan_template *t)
{
	uint8_t *to = (uint8_t *)(uintptr_t)operand(t->operands);
	const uint8_t *from = (const uint8_t *)(uintptr_t)operand(t->operands + 1);
	uint64_t pitch = operand(t->operands + 2);
	for (uint64_t done = 0; done < t->len; done += t->width, to += pitch)
		memcpy(to, from + done, t->width);
}

static bool task_failed; /* atomic; a call with INST_LATE has reported a failed task */

/*
 * Repeats a call until its output is the recorded one, or until it returns another result than recorded. Without an output: until it returns the
 * recorded result. `own` is the thread's slot for its own data, which a call's host function may have changed.
 */
static __attribute__((noinline)) uint64_t until(const struct plan_template *t, struct result_instruction *r, const struct target *f, uint64_t *own, uint64_t ret)
{
	const uint64_t data = *own;
	const void *out = t->width ? (const void *)(uintptr_t)operand(t->operands + t->words) : NULL;
	uint64_t deadline = nanoseconds() + P.plan->until_ns;
	for (;;) {
		uint64_t v = 0;
		bool other = (uint32_t)ret != (uint32_t)t->want;
		if (t->width)
			memcpy(&v, out, t->width);
		if (t->width ? v == t->len || other : !other)
			return ret;
		if (t->flags & INST_LATE && __atomic_load_n(&task_failed, __ATOMIC_RELAXED)) {
			r->flags |= RESULT_REPORTED; /* the device may have refused what the recorded call found complete */
			return ret;
		}
		if (nanoseconds() > deadline) {
			r->flags |= RESULT_TIMEOUT | RESULT_DIFFERS;
			return ret;
		}
		sched_yield();
		*own = data;
		ret = player_call(f->how, f->fn, P.operands + t->operands, P.slots);
	}
}

/* Reports whether a call has failed because work still uses its object. The recorded call came after that work. */
static inline bool too_early(const struct plan_template *t, uint64_t ret)
{
	uint32_t busy = P.plan->busy;
	return busy && (uint32_t)ret == busy && t->bits && (uint32_t)t->want != busy;
}

/* Stores an instruction's relocations. Returns its spoils, NULL if it has none. */
static inline const struct plan_reloc *store_relocs(const struct plan_instruction *in)
{
	uint8_t *data = own_data(in);
	for (const struct plan_reloc *l = &P.relocs[in->relocs];; l++) {
		if (l->flags & RELOC_SPOIL)
			return l;
		uint64_t v = P.slots[l->slot] + l->addend;
		memcpy(data + l->at, &v, l->size);
		if (l->flags & RELOC_LAST)
			return NULL;
	}
}

/*
 * Overwrites the arguments of a call that has returned. This reveals a runtime that has not copied them and reads them later. The new content is
 * that of the thread's previous call, if it has the same size and differs: valid and wrong, as in a program that reuses one buffer for all
 * calls. Invalid arguments would reveal less, since not every program waits for its stream and sees a failure.
 */
static void spoil(const struct plan_instruction *in, const struct plan_reloc *l)
{
	typedef uint64_t word __attribute__((may_alias));
	static __thread struct {
		uint64_t size;
		word words[32];
	} previous;
	do {
		word *args = (word *)(void *)(own_data(in) + l->at), differ = 0;
		uint64_t size = l->addend, n = size / sizeof(word);
		if (size % sizeof(word) == 0 && n <= sizeof previous.words / sizeof(word)) {
			for (uint64_t i = 0; i < n; i++) {
				word was = previous.words[i];
				differ |= args[i] ^ was;
				previous.words[i] = args[i];
				args[i] = was;
			}
			if (size != previous.size)
				differ = 0;
			previous.size = size;
		}
		if (!differ)
			memset(args, SPOILED, size);
	} while (!(l++->flags & RELOC_LAST));
}

/* Takes a file descriptor from another process. The recorded programs passed it in a message. */
static void take(const struct plan_template *t)
{
	long pid = (long)operand(t->operands + 1), number = (long)operand(t->operands + 2);
	long of = syscall(SYS_pidfd_open, pid, 0), fd = of < 0 ? -1 : syscall(SYS_pidfd_getfd, of, number, 0);
	if (fd < 0)
		refuse("take file descriptor %ld from process %ld: %s", number, pid, strerror(errno));
	close((int)of);
	*(uint64_t *)(uintptr_t)operand(t->operands) = (uint64_t)fd;
}

/* Whether a call that returned another result than recorded may have reported a failed task earlier or later. */
static __attribute__((noinline)) bool reported(const struct plan_template *t, uint64_t ret)
{
	const int32_t *faults = table(&P.plan->faults);
	int left = 2;
	if (!(t->flags & INST_LATE))
		return false;
	for (uint64_t i = 0; i < P.plan->faults.count; i++)
		left -= (faults[i] == (int32_t)ret) + (faults[i] == (int32_t)t->want);
	if (left != ((int32_t)ret == 0) + ((int32_t)t->want == 0))
		return false;
	if ((int32_t)ret != 0)
		__atomic_store_n(&task_failed, true, __ATOMIC_RELAXED);
	return true;
}

static void fork_playing(uint32_t process);

/*
 * Executes an instruction other than a call. Returns whether the thread goes on. `last` has the flags of the thread's last call. If that has reported a
 * failed task earlier than recorded, there is nothing to compare.
 */
static __attribute__((noinline)) bool other(const struct plan_instruction *in, struct result_instruction *r, uint32_t last)
{
	const struct plan_template *t = template(in);
	switch (t->op) {
	case OP_STORE:
		store(t);
		break;
	case OP_CHECK:
		if (last & RESULT_REPORTED) {
			r->flags |= REASON_NOT_REACHED << RESULT_REASON_SHIFT;
			break;
		}
		if (in->relocs && t->want == CHECK_RESULT)
			accept_either(in, t);
		check(t, r);
		break;
	case OP_WAIT:
		wait_for(in);
		return !stopped();
	case OP_TAKE:
		take(t);
		break;
	case OP_MARK:
		if (P.lib.mark != NULL)
			P.lib.mark((const void *)(uintptr_t)operand(t->operands), t->len, t->bits);
		break;
	case OP_PLACE:
		if (P.lib.place)
			P.lib.place(operand(t->operands));
		break;
	case OP_FORK:
		fork_playing(t->fn);
		break;
	}
	return true;
}

/*
 * Plays the instructions i to end of a thread, and stores the progress, up to `progress`. Returns false if the run was stopped. Between two calls
 * this makes no system call and touches little memory (rule 4).
 */
static bool play_some(uint64_t thread, uint64_t i, uint64_t end, uint64_t progress)
{
	struct result_thread *me = &P.progress[thread];
	/* Local copies of constants: the compiler must assume that a call changes global variables. */
	const struct plan_template *templates = P.templates;
	const struct plan_operand *operands = P.operands;
	const struct target *targets = P.lib.targets;
	uint64_t *slots = P.slots, *own = &slots[own_slot(thread)];
	const uint32_t *stop = &P.result->stopped;
	void (*const number)(uint64_t) = P.lib.number;
	const double scale = P.plan->scale;
	uint64_t now = counter();
	uint32_t flags = 0; /* of the latest call */
	const struct plan_instruction *in = &P.instructions[P.threads[thread].first + i];
	struct result_instruction *r = &P.results[P.threads[thread].first + i];
	for (; i < end; i++, in++, r++) {
		if (__atomic_load_n(stop, __ATOMIC_RELAXED))
			return false;
		const struct plan_template *t = &templates[in->template];
		const struct plan_reloc *spoils = NULL;
		*own = (uint64_t)(uintptr_t)own_data(in);
		if (in->relocs) {
			if (t->op != OP_CHECK || t->want != CHECK_RESULT)
				spoils = store_relocs(in);
			if (P.windowed)
				pass_data(thread, in, spoils);
		}
		if (t->op > OP_UNTIL) {
			if (!other(in, r, flags))
				return false;
			r->flags |= RESULT_DONE;
			/* Release: its effects are visible to threads that wait for it. */
			__atomic_store_n(&me->progress, i + 1 < progress ? i + 1 : progress, __ATOMIC_RELEASE);
			continue;
		}
		const struct target *f = &targets[t->fn];
		if (number != NULL)
			number(in->call);
		if (scale > 0)
			now = keep_time((uint64_t)((double)in->at * scale));
		else if (t->flags & INST_START)
			now = counter();
		r->start = now;
		__atomic_store_n(&me->inside, i + 1, __ATOMIC_RELAXED);
		uint64_t inner = t->op == OP_UNTIL ? enclose(in, i) : 0;
		uint64_t ret = player_call(f->how, f->fn, operands + t->operands, slots);
		flags = RESULT_DONE;
		if (t->op == OP_UNTIL || too_early(t, ret)) {
			*own = (uint64_t)(uintptr_t)own_data(in);
			ret = until(t, r, f, own, ret);
			flags |= r->flags;
		}
		if (t->flags & INST_END)
			now = counter();
		if (spoils)
			spoil(in, spoils);
		r->end = now;
		r->ret = ret;
		if (t->ret_slot)
			slots[t->ret_slot] = ret;
		if (t->bits && (ret ^ t->want) << (64 - t->bits)) {
			flags |= reported(t, ret) ? RESULT_REPORTED : RESULT_DIFFERS;
			if (t->flags & INST_STOP)
				__atomic_store_n(&P.result->stopped, 1, __ATOMIC_RELAXED);
		}
		r->flags = flags;
		if (inner && enclosed.played) {
			i += inner;
			in += inner;
			r += inner;
		}
		if (inner)
			enclosed.from = enclosed.to = 0;
		__atomic_store_n(&me->progress, i + 1 < progress ? i + 1 : progress, __ATOMIC_RELEASE);
	}
	return true;
}

/* Processes that the thread has forked. It waits for them at its end. */
static __thread pid_t *forked;
static __thread uint32_t forked_count;

__attribute__((noreturn)) void end_as(int status)
{
	if (WIFSIGNALED(status)) {
		struct rlimit none = {0, 0}; /* the crashed process has left a core */
		setrlimit(RLIMIT_CORE, &none);
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

bool ended_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

pid_t fork_process(uint64_t process)
{
	pid_t self = getpid(), pid = fork();
	if (pid < 0)
		refuse("fork process %llu: %s", (unsigned long long)process, strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != self)
			_exit(1);
	}
	return pid;
}

static void await_forked(void)
{
	for (uint32_t i = 0; i < forked_count; i++) {
		int status = 0;
		while (waitpid(forked[i], &status, 0) < 0 && errno == EINTR)
			;
		if (!ended_well(status))
			end_as(status);
	}
	free(forked);
}

/* Waits until all threads are here. The last one to arrive sets the time 0. */
static void gather(void)
{
	struct result_header *r = P.result;
	if (__atomic_add_fetch(&r->ready, 1, __ATOMIC_ACQ_REL) == P.first_threads) {
		r->stolen_before = stolen();
		__atomic_store_n(&r->status, RUN_STARTED, __ATOMIC_RELEASE);
		__atomic_store_n(&r->origin, counter() + (paced() ? (uint64_t)(200000 * P.counts_per_ns) : 0), __ATOMIC_RELEASE);
	}
	for (uint64_t n = 0; __atomic_load_n(&r->origin, __ATOMIC_ACQUIRE) == 0 && !stopped(); n++) {
		if (n < 2000)
			relax();
		else
			pause_ns(20000);
	}
}

static void *play(void *arg)
{
	uint64_t n = (uint64_t)(uintptr_t)arg;
	my_number = (uint32_t)n + 1;
	if (!P.forked)
		gather();
	struct core_time before = my_core_time();
	play_some(n, 0, P.threads[n].count, P.threads[n].count);
	if (P.windowed)
		end_data(n);
	struct core_time after = my_core_time();
	P.progress[n].core = (struct core_time){after.ran - before.ran, after.waited - before.waited};
	await_forked();
	return NULL;
}

void play_threads(const struct plan_process *p)
{
	pthread_t *threads = calloc(p->count ? p->count : 1, sizeof *threads);
	if (threads == NULL)
		refuse("start %u threads: out of memory", p->count);
	open_window(p);
	P.slots[thread_slot(p->first)] = (uint64_t)pthread_self();
	if (P.lib.mark != NULL && P.plan->zeros_reason != 0)
		P.lib.mark((const void *)(uintptr_t)P.slots[SLOT_ZEROS], P.plan->zeros, (int)P.plan->zeros_reason);
	for (uint32_t t = 1; t < p->count; t++) {
		int e = pthread_create(&threads[t], NULL, play, (void *)(uintptr_t)(p->first + t));
		if (e != 0)
			refuse("start thread %u: %s", p->first + t, strerror(e));
		P.slots[thread_slot(p->first + t)] = (uint64_t)threads[t];
	}
	if (p->count > 0)
		play((void *)(uintptr_t)p->first);
	for (uint32_t t = 1; t < p->count; t++)
		pthread_join(threads[t], NULL);
}

/* Forks one of the plan's processes from this one, with the library as it is. */
static void fork_playing(uint32_t process)
{
	pid_t *more = realloc(forked, (forked_count + 1) * sizeof *forked);
	if (more == NULL)
		refuse("fork process %u: out of memory", process);
	forked = more;
	if ((forked[forked_count] = fork_process(process)) > 0) {
		forked_count++;
		return;
	}
	P.forked = true;
	forked_count = 0;
	P.slots[pid_slot(process)] = (uint64_t)getpid();
	map_host_memory(process);
	play_threads(&P.processes[process]);
	_exit(0);
}
