//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The calls of a program, seen by uprobes. One pair of programs serves all functions: the cookie of a probe says which
 * function it is, and the map `functions` how to read its arguments. A call is put together in the memory of its
 * thread, from the entry to the return, and goes into the ring in one piece when it has returned. What a thread died in
 * is still there when it exits.
 *
 * Only the outermost call is recorded. Which call is outermost is told by the stack pointer and not by counting, so that a
 * call left by longjmp or by an exception, whose return is never seen, spoils nothing: when the thread calls again and the
 * old call is seen to be over, it is passed on as one that never returned.
 */
#include "kernel.h"

#define MAX_WORDS 16
#define MAX_READERS 16
#define INLINE 4096 /* bytes of one piece in the record of its call */
#define BUDGET 8192 /* no content begins beyond */
#define DATA (BUDGET + INLINE + (1 + MAX_READERS) * sizeof(struct piece))
#define NONE 255 /* no word; as a parameter: the returned value */
#define MAX_PARTS (1 << 14)

enum { EVENT_CALL = 1, EVENT_PAYLOAD = 2, EVENT_THREAD = 3, EVENT_LOST = 4 };
enum { KIND_BYTES = 1, KIND_STRING = 2, KIND_LIST = 3, KIND_PAYLOAD = 4 };
enum {
	READ_ENTRY = 1, /* at the entry, else at the return */
	READ_OUT = 2,	/* written by the call: only where it succeeded */
	READ_LATER = 4, /* written by the task that the call makes, so not there yet */
};
enum { PIECE_OUT = 1, PIECE_FOLLOWS = 2 };
/* As in probe.Missing. */
enum { PRESENT = 0, OVER_LIMIT = 3, UNREADABLE = 4, NOT_SYNCHRONIZED = 5 };
enum { FUNC_RET_ERROR = 1, FUNC_RET_VOID = 2, FUNC_RET_32 = 4, FUNC_WAKE = 8 };
enum { COUNT_RING_FULL = 0, COUNT_NO_THREAD = 1, COUNT_NO_PROCESS = 2, COUNTERS = 3 };

/* What lies behind one parameter: unit * word[mul0] * word[mul1] bytes at word[word], rows of mul0 at a pitch. */
struct reader {
	u8 param, kind, flags, word, mul0, mul1, pitch, pad;
	u64 unit;
};

struct function {
	u8 words, readers, flags, stack; /* stack: words to read from the stack */
	u32 pad;
	u8 place[MAX_WORDS]; /* register, or ARG_REGS + number of the word on the stack */
	u8 width[MAX_WORDS]; /* bytes of the word that mean something */
	struct reader reader[MAX_READERS];
};

struct piece {
	u8 param, flags, missing, pad;
	u32 bytes; /* that follow, padded to 8 */
	u64 addr, len;
};

struct event {
	u8 type, words;
	u16 func;
	u32 bytes; /* of data */
	u32 pid, tid;
	u64 seq, start, end, ret;
	u64 lost, lost_from, lost_to; /* calls of this thread before this one */
};

struct part {
	u8 type, param, flags, missing;
	u32 bytes;
	u32 pid, tid;
	u64 seq, addr, len, offset, time;
	u8 data[INLINE];
};

struct thread {
	u64 cookie, sp, mark; /* of the call that the thread is in */
	u64 seq;	     /* of the next call */
	u32 active, used;    /* active: 0 in no call, 1 in one, 2 in one that the reader is to see at once */
	u64 words[MAX_WORDS];
	struct event event;
	u8 data[DATA]; /* argument words, then pieces */
};

struct thread_event {
	struct event e;
	char comm[16];
};

_Static_assert(sizeof(struct reader) == 16, "reader");
_Static_assert(sizeof(struct function) == 40 + 16 * MAX_READERS, "function");
_Static_assert(sizeof(struct piece) == 24, "piece");
_Static_assert(sizeof(struct event) == 72, "event");
_Static_assert(sizeof(struct part) == 56 + INLINE, "part");
_Static_assert(sizeof(struct part) <= DATA, "a part is put together in the data of its thread");

/* Sizes that depend on the model or on what the user asks for are set before loading. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct function);
} functions SEC(".maps");

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} counts SEC(".maps");

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, COUNTERS);
	TYPE(key, u32);
	TYPE(value, u64);
} counters SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 32768);
	UINT(map_flags, MAP_NO_PREALLOC);
	TYPE(key, u64);
	TYPE(value, struct thread);
} threads SEC(".maps");

/* An element to make new ones from: it is too large for the stack. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct thread);
} blank SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, MAP_NO_PREALLOC);
	TYPE(key, u32);
	TYPE(value, u8);
} pids SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 20);
} events SEC(".maps");

const volatile u8 sleepable;	/* the programs may wait for a page */
const volatile u8 filter;	/* only the processes in pids */
const volatile u64 wake_at;	/* bytes in the ring at which the reader is woken */
const volatile u64 limit;	/* bytes of a payload */
const volatile u64 device_from, device_to;

static inline void count(u32 what)
{
	u64 *n = map_lookup(&counters, &what);
	/* Another program may run on this processor while this one waits for a page. */
	if (n)
		__sync_fetch_and_add(n, 1);
}

static inline void count_call(u32 func)
{
	u64 *n = map_lookup(&counts, &func);
	if (n)
		__sync_fetch_and_add(n, 1);
}

static inline u8 wanted(u32 pid) { return !filter || map_lookup(&pids, &pid); }

/* The reader is woken seldom: waking it costs the program more than the record does. */
static inline u64 wake(void)
{
	return ringbuf_query(&events, RINGBUF_AVAILABLE) >= wake_at ? RINGBUF_FORCE_WAKEUP : RINGBUF_NO_WAKEUP;
}

static inline long read_user(void *to, u32 size, u64 from)
{
	if (sleepable)
		return copy_from_user(to, size, (void *)from);
	return probe_read_user(to, size, (void *)from);
}

/* Like the kernel's own, and with the pages brought in first where that is allowed. */
static inline long read_user_str(u8 *to, u32 size, u64 from)
{
	long n = probe_read_user_str(to, size, (void *)from);
	if (n >= 0 || !sleepable)
		return n;
	u64 second = (from & ~(u64)(PAGE - 1)) + PAGE;
	if (copy_from_user(to, 1, (void *)from))
		return -1;
	copy_from_user(to, 1, (void *)second);
	return probe_read_user_str(to, size, (void *)from);
}

/* Keeps the compiler from undoing what the verifier has to see. */
#define opaque(x) __asm__ volatile("" : "+r"(x))

/* Puts the call into the ring, with the number of those that were lost before it. */
static inline u8 send(struct thread *t)
{
	struct event *e = &t->event;
	u64 used = t->used;
	opaque(used);
	if (used > DATA)
		used = DATA;
	e->bytes = (u32)used;
	if (ringbuf_output(&events, e, sizeof *e + used, t->active == 2 ? RINGBUF_FORCE_WAKEUP : wake()))
		return 0;
	e->lost = 0;
	return 1;
}

static inline void emit(struct thread *t)
{
	struct event *e = &t->event;
	if (send(t))
		return;
	count(COUNT_RING_FULL);
	if (e->lost++ == 0)
		e->lost_from = e->start;
	e->lost_to = e->end ? e->end : e->start;
}

/* The call is over without having returned. */
static inline void abandon(struct thread *t)
{
	t->active = 0;
	t->event.end = 0;
	emit(t);
}

static inline u64 word(const struct thread *t, u8 i) { return t->words[i & (MAX_WORDS - 1)]; }

static inline u64 times(u64 a, u64 b)
{
	if (a >> 32 || b >> 32)
		return a == 0 || b == 0 ? 0 : ~(u64)0;
	return a * b;
}

static inline u64 size_of(const struct thread *t, const struct reader *r)
{
	u64 n = r->unit;
	if (r->mul0 != NONE)
		n = times(n, word(t, r->mul0));
	if (r->mul1 != NONE)
		n = times(n, word(t, r->mul1));
	return n;
}

static inline u64 address(const struct thread *t, const struct reader *r)
{
	return r->word == NONE ? t->event.ret : word(t, r->word);
}

/* Whether a payload of this length comes in parts after its call. */
static inline u8 follows(const struct reader *r, u64 len)
{
	if (len <= INLINE || (r->flags & READ_LATER) || !sleepable)
		return 0;
	return r->kind == KIND_PAYLOAD ? len <= limit : r->kind == KIND_BYTES && len <= (u64)MAX_PARTS * INLINE;
}

static inline void capture(struct thread *t, const struct reader *r)
{
	u64 addr = address(t, r);
	u64 len = size_of(t, r);
	u64 off = t->used;
	u8 missing = PRESENT;
	if (addr == 0)
		return;
	if (r->kind == KIND_PAYLOAD && (len == 0 || (addr >= device_from && addr < device_to)))
		return;
	if (r->kind == KIND_LIST) {
		u64 list[2] = {0, 0};
		if (read_user(list, sizeof list, addr) == 0) {
			if (list[0] == 0 || list[1] == 0)
				return;
			addr = list[0];
			len = times(len, list[1]);
		} else {
			missing = UNREADABLE;
			len = 0;
		}
	}
	opaque(off);
	if (off > DATA - sizeof(struct piece))
		return;
	struct piece *p = (struct piece *)(t->data + off);
	p->param = r->param;
	p->flags = r->flags & READ_OUT ? PIECE_OUT : 0;
	p->bytes = 0;
	p->addr = addr;
	off += sizeof *p;

	u64 n = len;
	if (r->kind == KIND_STRING && n > INLINE)
		n = INLINE;
	opaque(off);
	opaque(n);
	if (missing != PRESENT) {
	} else if (follows(r, len)) {
		p->flags |= PIECE_FOLLOWS;
	} else if (r->kind == KIND_PAYLOAD && len > limit) {
		missing = OVER_LIMIT;
	} else if (r->flags & READ_LATER) {
		missing = NOT_SYNCHRONIZED;
	} else if (n > INLINE || off > BUDGET) {
		missing = OVER_LIMIT;
	} else {
		u8 *to = t->data + off;
		if (r->kind == KIND_STRING) {
			long got = read_user_str(to, (u32)n, addr);
			if (got < 0) {
				missing = UNREADABLE;
				len = 0;
			} else {
				/* With its end, unless it had no room for one: without it in either case. */
				len = got > 0 ? (u64)got - 1 : 0;
			}
			n = len;
		} else if (read_user(to, (u32)n, addr)) {
			missing = UNREADABLE;
		}
		if (missing == PRESENT) {
			p->bytes = (u32)n;
			off += (n + 7) & ~(u64)7;
		}
	}
	p->missing = missing;
	p->len = len;
	t->used = (u32)off;
}

static inline void capture_all(struct thread *t, const struct function *f, u8 entry, u8 ok)
{
	for (u32 i = 0; i < MAX_READERS; i++) {
		if (i >= f->readers)
			break;
		const struct reader *r = &f->reader[i];
		if ((r->flags & READ_ENTRY) != entry || ((r->flags & READ_OUT || r->kind == KIND_PAYLOAD) && !ok))
			continue;
		capture(t, r);
	}
}

struct parts {
	struct thread *t;
	u64 addr, len, width, pitch, offset;
};

static long one_part(u32 i __attribute__((unused)), struct parts *ps)
{
	struct part *p = (struct part *)ps->t->data;
	u64 row = ps->offset / ps->width, column = ps->offset % ps->width;
	u64 n = ps->width - column, rest = ps->len - ps->offset;
	if (n > rest)
		n = rest;
	opaque(n);
	if (n > INLINE)
		n = INLINE;
	p->bytes = (u32)n;
	p->offset = ps->offset;
	if (copy_from_user(p->data, (u32)n, (void *)(ps->addr + row * ps->pitch + column))) {
		p->missing = UNREADABLE;
		p->bytes = 0;
		n = 0;
	}
	p->time = ktime_ns();
	if (ringbuf_output(&events, p, sizeof *p - INLINE + n, wake()) || n == 0)
		return 1;
	ps->offset += n;
	return ps->offset >= ps->len;
}

/* Payloads that are too large for the record of their call. */
static inline void payloads(struct thread *t, const struct function *f)
{
	for (u32 i = 0; i < MAX_READERS; i++) {
		if (i >= f->readers)
			break;
		const struct reader *r = &f->reader[i];
		u64 len = size_of(t, r);
		if (!follows(r, len))
			continue;
		struct parts ps = {.t = t, .addr = address(t, r), .len = len, .width = len};
		if (ps.addr == 0 || (r->kind == KIND_PAYLOAD && ps.addr >= device_from && ps.addr < device_to))
			continue;
		if (r->pitch != NONE) {
			ps.width = word(t, r->mul0);
			ps.pitch = word(t, r->pitch);
		}
		struct part *p = (struct part *)t->data;
		p->type = EVENT_PAYLOAD;
		p->param = r->param;
		p->flags = r->flags & READ_OUT ? PIECE_OUT : 0;
		p->missing = PRESENT;
		p->pid = t->event.pid;
		p->tid = t->event.tid;
		p->seq = t->event.seq;
		p->addr = ps.addr;
		p->len = len;
		/* Rows end parts early, so there may be more of them than the length tells. */
		loop(MAX_PARTS * 64, one_part, &ps, 0);
	}
}

static inline struct thread *new_thread(u64 id)
{
	u32 zero = 0;
	struct thread *t = map_lookup(&blank, &zero);
	if (!t || map_update(&threads, &id, t, 1))
		return 0;
	t = map_lookup(&threads, &id);
	if (!t)
		return 0;
	t->event.pid = id >> 32;
	t->event.tid = (u32)id;
	/* The reader learns of a thread at once, while there is still a process to look at. */
	struct thread_event n = {.e = {.type = EVENT_THREAD, .pid = id >> 32, .tid = (u32)id, .start = ktime_ns(), .bytes = sizeof n.comm}};
	current_comm(n.comm, sizeof n.comm);
	ringbuf_output(&events, &n, sizeof n, RINGBUF_FORCE_WAKEUP);
	return t;
}

static inline void read_args(struct pt_regs *ctx, struct thread *t, const struct function *f)
{
	u64 in[MAX_WORDS] = {0};
	arg_regs(ctx, in);
	/* More than there may be: callers have frames of their own above. */
	if (f->stack)
		read_user(in + ARG_REGS, (MAX_WORDS - ARG_REGS) * 8, ctx->sp + STACK_ARGS);
	u64 *out = (u64 *)t->data;
	for (u32 i = 0; i < MAX_WORDS; i++) {
		if (i >= f->words)
			break;
		u64 w = in[f->place[i] & (MAX_WORDS - 1)];
		u8 width = f->width[i] & 15;
		if (width < 8)
			w &= ((u64)1 << 8 * width) - 1;
		t->words[i] = out[i] = w;
	}
	t->event.words = f->words;
	t->used = 8 * f->words;
}

static inline u32 func_of(u64 cookie) { return (u16)cookie; }

SEC("uprobe")
int enter(struct pt_regs *ctx)
{
	u64 id = current_pid_tgid();
	if (!wanted(id >> 32))
		return 0;
	u64 cookie = attach_cookie(ctx);
	u32 func = func_of(cookie);
	const struct function *f = map_lookup(&functions, &func);
	if (!f)
		return 0;
	struct thread *t = map_lookup(&threads, &id);
	if (!t && !(t = new_thread(id))) {
		count_call(func);
		count(COUNT_NO_THREAD);
		return 0;
	}
	if (t->active) {
		/* A wrapper that ends in a jump gets here with the stack as it was. */
		if (ctx->sp <= t->sp && call_lives(ctx, t->sp, t->mark))
			return 0;
		abandon(t);
	}
	count_call(func);
	t->cookie = cookie;
	t->sp = ctx->sp;
	t->mark = call_mark(ctx);
	t->event.type = EVENT_CALL;
	t->event.func = func;
	t->event.seq = t->seq++;
	t->event.end = 0;
	t->event.ret = 0;
	read_args(ctx, t, f);
	capture_all(t, f, READ_ENTRY, 1);
	t->event.start = ktime_ns();
	t->active = f->flags & FUNC_WAKE ? 2 : 1;
	return 0;
}

SEC("uretprobe")
int leave(struct pt_regs *ctx)
{
	u64 now = ktime_ns();
	u64 id = current_pid_tgid();
	struct thread *t = map_lookup(&threads, &id);
	if (!t || !t->active)
		return 0;
	u64 cookie = attach_cookie(ctx);
	if (cookie != t->cookie || ctx->sp != t->sp + RETURN_POPS)
		return 0;
	u32 func = func_of(cookie);
	const struct function *f = map_lookup(&functions, &func);
	if (!f)
		return 0;
	u64 ret = return_value(ctx);
	if (f->flags & FUNC_RET_VOID)
		ret = 0;
	else if (f->flags & FUNC_RET_32)
		ret = (u32)ret;
	u8 ok = !(f->flags & FUNC_RET_ERROR) || ret == 0;
	t->event.end = now;
	t->event.ret = ret;
	capture_all(t, f, 0, ok);
	emit(t);
	t->active = 0;
	if (sleepable && ok)
		payloads(t, f);
	return 0;
}

/* The witness alone: how often each function is entered. */
SEC("uprobe")
int tally(struct pt_regs *ctx)
{
	if (wanted(current_pid_tgid() >> 32))
		count_call(func_of(attach_cookie(ctx)));
	return 0;
}

SEC("tp_btf/sched_process_fork")
int forked(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = parent->tgid, to = child->tgid;
	u8 yes = 1;
	if (filter && from != to && map_lookup(&pids, &from) && map_update(&pids, &to, &yes, 0))
		count(COUNT_NO_PROCESS);
	return 0;
}

/* The thread is no more, or no more what it was. What does not fit the ring stays where it is: the reader looks there at the end. */
static inline void forget(u64 id)
{
	struct thread *t = map_lookup(&threads, &id);
	if (!t)
		return;
	if (t->active) {
		t->event.end = 0;
		if (!send(t))
			return;
	} else if (t->event.lost) {
		t->event.type = EVENT_LOST;
		if (ringbuf_output(&events, &t->event, sizeof t->event, wake()))
			return;
	}
	map_delete(&threads, &id);
}

SEC("tp_btf/sched_process_exec")
int execed(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 old = (u32)ctx[1];
	forget((u64)task->tgid << 32 | old);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int exited(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 pid = task->tgid;
	forget((u64)pid << 32 | (u32)task->pid);
	if (filter && task->signal->live.counter == 0)
		map_delete(&pids, &pid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
