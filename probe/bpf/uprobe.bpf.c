//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The calls of a program, seen by uprobes. One pair of programs serves all functions: the cookie of a probe says which
 * function it is, and the map `functions` how to read its arguments. A call is put together in the memory of its
 * thread, from the entry to the return, and goes into the ring in one piece when it has returned: a launch with those that
 * follow it at once, for it costs as much to put one into the ring as several. What a thread died in is still there when it
 * exits, and what it has not passed on.
 *
 * Only the outermost call is recorded, and one that encloses calls of the runtime beside them, in a place of its own. Which call is
 * outermost is told by the stack pointer and not by counting, so that a call left by longjmp or by an exception, whose return is
 * never seen, spoils nothing: when the thread calls again and the old call is seen to be over, it is passed on as one that never
 * returned.
 *
 * Older kernels have no cookies: there each function has a small program of its own, which leaves the cookie in the map `cookie`
 * and goes on to one of these. What such kernels do not know is in programs that are not loaded there.
 */
#include "kernel.h"

#define MAX_WORDS 16
#define MAX_READERS 16
#define MAX_PLACES 32 /* registers, words on the stack, and words of a structure that a register points to */
#define REFERRED 16   /* place of the first of these */
#define MAX_BUFFERS 8 /* behind one list of arguments */
#define MAX_ITEMS (1 << 16)
#define INLINE 4096 /* bytes of one piece in the record of its call */
#define BUDGET 8192 /* no content begins beyond */
#define DATA (BUDGET + INLINE + (1 + MAX_READERS) * sizeof(struct piece))
#define HELD 2048	     /* bytes of calls that wait for others */
#define HOLD_NS 10000000     /* and how long, where others come */
#define PART_AT (8 * MAX_WORDS) /* in the data: the words are needed still */
#define NONE 255 /* no word; as a parameter: the returned value */
#define ABSENT 255 /* there is nothing to read */
#define MAX_PARTS (1 << 14)
#define MAX_PARAMS 512 /* of a kernel */
#define MAX_PARAM 4096
#define UNKNOWN 0xffff /* in place of the number of parameters: nobody knows it */
#define PARAMS_AT 4096 /* no parameters begin beyond, in the record of their call */
#define GUESSED 32	/* parameters of a kernel whose layout is not known yet, each of so many bytes at most */
#define GUESSED_LARGE 4 /* the first of them may be structures */
#define GUESS 64
#define GUESS_LARGE 1024
#define PARTS_NOW 256 /* where a program can't wait for memory, nor ask the kernel to go on in a loop */
#define OUTER ((u64)1 << 63) /* of a thread's key: the place of a call that encloses others */

enum { EVENT_CALL = 1, EVENT_PAYLOAD = 2, EVENT_THREAD = 3 };
enum { KIND_BYTES = 1, KIND_STRING = 2, KIND_LIST = 3, KIND_PAYLOAD = 4, KIND_ITEMS = 5, KIND_BUFFERS = 6, KIND_IMAGE = 7, KIND_PACKED = 8, KIND_BLOCK = 9, KIND_PARAMS = 10 };
enum {
	READ_ENTRY = 1, /* at the entry, else at the return */
	READ_OUT = 2,	/* written by the call: only where it succeeded */
	READ_LATER = 4, /* written by the task that the call makes, so not there yet */
	READ_FIELD = 8, /* behind a pointer in a structure */
	READ_STORED = 16, /* mul0 is where the call has stored the factor */
	READ_STORED32 = 32, /* and that has 4 bytes */
	READ_VALUE = 64, /* behind a pointer in a structure that is in the words from `word` on */
	READ_ALWAYS = 128, /* also where it has failed */
};
enum { PIECE_OUT = 1, PIECE_FOLLOWS = 2, PIECE_SHORT = 4, PIECE_PARAMS = 8 };
/* As in probe.Missing. */
enum { PRESENT = 0, OVER_LIMIT = 3, UNREADABLE = 4, NOT_SYNCHRONIZED = 5 };
enum {
	FUNC_RET_ERROR = 1,
	FUNC_RET_VOID = 2,
	FUNC_RET_32 = 4,
	FUNC_WAKE = 8,	 /* the reader is to see the call at once */
	FUNC_OUTER = 16, /* encloses calls of the runtime */
	FUNC_CALLED = 32, /* is the program's own: word 0 is its address, the others its arguments */
	FUNC_ITEMS = 64,  /* has arrays of buffers */
	FUNC_HOLD = 128,  /* others follow as a rule, so the reader need not see it before them */
};
enum { ARGS_RESET = 1, ARGS_STORED = 2, ARGS_BUFFER = 4, ARGS_BUFFER_STORED = 8, ARGS_KERNEL = 16 };
enum { COUNT_RING_FULL = 0, COUNT_NO_THREAD = 1, COUNT_NO_PROCESS = 2, COUNT_SAMPLED = 3, COUNTERS = 4 };
enum { ALL = 0, PIDS = 1, CGROUP = 2 };
enum { LIVES = 1, LEADER_GONE = 2 };

/*
 * What lies behind one parameter: unit * word[mul0] * word[mul1] bytes at word[word], rows of mul0 at a pitch. With READ_FIELD, what
 * lies behind the pointer at `at` in the structure there, times a member, unless another one says that it is no memory of the
 * program's. Of KIND_ITEMS, mul0 is the number of items and mul1 the array with their sizes. KIND_IMAGE is a binary for the device, which tells its own
 * size, and KIND_PACKED what a list of pairs leads to. KIND_BLOCK is the side of a copy that is the host's, which members of a structure tell: the
 * places of its words. KIND_PARAMS is an array of pointers to the parameters of the kernel whose handle is in word[mul0] or, with READ_FIELD, at
 * `count_at` in the structure, or at `unless_at` where that is 0. With READ_FIELD, KIND_PACKED is at `at` in the structure too.
 */
/*
 * A reader of KIND_PAYLOAD without READ_FIELD has bits in `at`: by those values of the word before `count_width` the call declares the memory to be the
 * host's, wherever it is.
 */
struct reader {
	u8 param, kind, flags, word, mul0, mul1, pitch, item;
	union {
		struct {
			u64 unit;
			u16 at, count_at, unless_at;
			u8 count_width, unless_width;
		};
		struct {
			u8 side, host, device, x, y, z, row, rows, width, height, depth;
		};
	};
};

struct function {
	u8 words, readers, flags, stack; /* stack: words to read from the stack */
	u8 args, args_how, buffer, buffer_len; /* words of a list of arguments, and of memory that belongs to it */
	u8 refer, referred; /* the register with the address of a structure, NONE for none, and its words */
	u8 before; /* the first of the readers are for the entry, the others for the return */
	u8 block; /* the first of them is for a block of arguments: 1, else 0 */
	u8 plain; /* the words are the registers and those on the stack, in their order */
	u8 behind[2]; /* words with memory behind them that the others are to read at the entry, NONE: more than these */
	u8 pad2;
	u8 place[MAX_WORDS]; /* register, or ARG_REGS + number of the word on the stack, or REFERRED + number in the structure */
	u64 mask[MAX_WORDS]; /* the bits of the word that mean something */
	struct reader reader[MAX_READERS];
};

/* A short one ends before addr: these are the parameter's word, and as many bytes as follow. */
struct piece {
	u8 param, flags, missing, item;
	u32 bytes; /* that follow, padded to 8 */
	u64 addr, len;
};
#define SHORT_PIECE 8

/* What stands before the calls of a thread in the ring. */
struct head {
	u8 type, pad[7];
	u32 pid, tid;
	u64 lost, lost_from, lost_to; /* calls of this thread before these */
};

struct event {
	u16 func, bytes; /* of data */
	u32 seq; /* its low half: the reader has counted the rest */
	u64 start, end, ret;
};

struct record {
	struct event event;
	union {
		u64 words[MAX_WORDS]; /* of the arguments, with pieces behind the last */
		u8 data[DATA];
	};
};

struct part {
	u8 type, param, flags, missing;
	u32 bytes;
	u32 pid, tid;
	u64 seq, addr, len, offset, time;
	u32 item, pad;
	u8 data[INLINE];
};

struct thread {
	u64 cookie, sp, mark; /* of the call that the thread is in */
	u64 seq;	     /* of the next call */
	u32 active, used;    /* active: 0 in no call, else CALLING, WAKING or LAUNCHING */
	u32 skip;	     /* the call is one that sampling leaves out */
	u32 follows;	     /* content of its comes after it */
	u32 held, calls;     /* bytes of calls that are over and not in the ring yet, and how many they are */
	u64 held_since, held_from; /* when the first of them ended and began */
	u64 in[MAX_PLACES];  /* by place */
	struct head head;
	u8 records[HELD + sizeof(struct record)]; /* those held, then that of the call that the thread is in */
};

struct thread_event {
	struct head head;
	u64 start;
	char comm[16];
};

struct args_key {
	u64 pid, handle;
};

/* The call by which a process has got the handle of a kernel, and the handle that it got it from. */
struct given {
	u64 by, from;
};

/*
 * What the reader has found out of a kernel: how many bytes each parameter has. The key is the call by which the program has got its handle,
 * so that nothing is said of another that has the handle later.
 */
struct layout {
	u16 count, size[MAX_PARAMS];
};

/*
 * In a piece of KIND_PARAMS, whose address is the key of the layout, 0 for none: 8 bytes for the address of each parameter, then 2 with how many
 * bytes of it there are, 8 bytes together at least, and these bytes, each filled up to 8. Its length is for how many of them this is so, and in
 * the upper half how many there are.
 */

/* Memory that belongs to a list of arguments, which the program fills before the launch. */
struct args {
	u64 n;
	struct {
		u64 addr, len;
	} buffer[MAX_BUFFERS];
};

_Static_assert(sizeof(struct reader) == 24, "reader");
_Static_assert(sizeof(struct function) == 160 + 24 * MAX_READERS, "function");
_Static_assert(sizeof(struct piece) == 24, "piece");
_Static_assert(sizeof(struct head) == 40, "head");
_Static_assert(sizeof(struct event) == 32, "event");
_Static_assert(DATA < 1 << 16, "the length of the data has 16 bits");
_Static_assert(sizeof(struct thread_event) == 64, "a thread");
_Static_assert(sizeof(struct part) == 64 + INLINE, "part");
_Static_assert(PARAMS_AT + sizeof(struct piece) + 10 * MAX_PARAMS <= DATA, "what tells of parameters fits the data");
_Static_assert(GUESSED * 10 + GUESSED_LARGE * GUESS_LARGE + (GUESSED - GUESSED_LARGE) * GUESS <= BUDGET, "guessed parameters have room");
_Static_assert(PART_AT + sizeof(struct part) <= DATA, "a part is put together in the data of its thread");

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

/* Tasks that the processes in pids have made and that have called nothing yet, by their address in the kernel. */
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, MAP_NO_PREALLOC);
	TYPE(key, u64);
	TYPE(value, u8);
} newborn SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 4096);
	UINT(map_flags, MAP_NO_PREALLOC);
	TYPE(key, struct args_key);
	TYPE(value, struct args);
} arguments SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, MAP_NO_PREALLOC);
	TYPE(key, struct args_key);
	TYPE(value, struct given);
} kernels SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, MAP_NO_PREALLOC);
	TYPE(key, u64);
	TYPE(value, struct layout);
} layouts SEC(".maps");

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} cookie SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 20);
} events SEC(".maps");

CONFIG u8 cookies;	/* the kernel knows the cookie of a probe */
CONFIG u8 filter;	/* which processes: ALL, those in PIDS, those in a CGROUP or below */
CONFIG u8 by_name;	/* a process belongs to pids while it has the name `name` */
CONFIG u8 sample;	/* leave out calls while the ring is more than half full */
CONFIG u32 cgroup_level;
CONFIG u64 cgroup;
CONFIG u64 name[2];
CONFIG u64 ring_size;
CONFIG u64 wake_at;	/* bytes in the ring at which the reader is woken */
CONFIG u64 limit;	/* bytes of a payload */
CONFIG u64 device_from, device_to;

/* Calls neither begin nor end for now, as if there were no probes: the kernel takes them one by one, even where they are given to it at once. */
volatile u8 shut;

/* Keeps the compiler from undoing what the verifier has to see. */
#define opaque(x) __asm__ volatile("" : "+r"(x))

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

static inline u64 cookie_of(struct pt_regs *ctx)
{
	u32 zero = 0;
	if (cookies)
		return attach_cookie(ctx);
	u64 *c = map_lookup(&cookie, &zero);
	return c ? *c : 0;
}

static inline u32 func_of(u64 cookie) { return (u16)cookie; }
static inline u64 layer_offset(u64 cookie) { return (u8)(cookie >> 24); } /* of the probe behind the entry */

static inline void add_process(u32 pid)
{
	u8 lives = LIVES;
	if (map_update(&pids, &pid, &lives, 0))
		count(COUNT_NO_PROCESS);
}

/* Whether a process is one of those in pids, or a new child of one. */
static inline u8 among(u64 id)
{
	u32 pid = id >> 32;
	u8 *state = map_lookup(&pids, &pid);
	if (state) {
		if (*state == LIVES || (u32)id != pid)
			return 1;
		/* A first thread, where that of the process in question is gone: another process by now. */
		map_delete(&pids, &pid);
	}
	u64 task = current_task();
	if (!map_lookup(&newborn, &task))
		return 0;
	map_delete(&newborn, &task);
	add_process(pid);
	return 1;
}

static inline u8 wanted(u64 id)
{
	if (filter == CGROUP)
		return current_ancestor_cgroup_id((int)cgroup_level) == cgroup;
	return filter == ALL || among(id);
}

/* The reader is woken seldom, for waking it costs the program more than the record does, and it looks by itself now and then. */
static inline u64 wake(u64 seq)
{
	if (seq % 16 != 0)
		return RINGBUF_NO_WAKEUP;
	return ringbuf_query(&events, RINGBUF_AVAILABLE) >= wake_at ? RINGBUF_FORCE_WAKEUP : RINGBUF_NO_WAKEUP;
}

/* Whether sampling leaves a call out: the more of them the fuller the ring is. */
static inline u8 left_out(u64 seq)
{
	u64 used = ringbuf_query(&events, RINGBUF_AVAILABLE);
	if (used < ring_size / 2)
		return 0;
	return seq % (used < ring_size / 4 * 3 ? 4 : used < ring_size / 8 * 7 ? 16 : 64) != 0;
}

/*
 * The memory is nearly always there. The helper that may wait for it costs more, so it comes second. sleeps, here and below: the
 * program may wait. A constant, and no variable of the program's, for newer kernels look at functions without the variables.
 */
static inline long read_user(void *to, u32 size, u64 from, u8 sleeps)
{
	long failed = probe_read_user(to, size, (void *)from);
	return failed && sleeps ? copy_from_user(to, size, (void *)from) : failed;
}

struct small {
	u64 word[8];
};

/* By way of the stack: the kernel looks longer at a place that it is to copy to where it is in a map. What is beyond may be missing. */
static inline u8 read_small(struct small *to, u64 from)
{
	struct small s;
	if (probe_read_user(&s, sizeof s, (void *)from))
		return 0;
	*to = s;
	return 1;
}

/* Like the kernel's own, and with the pages brought in first where that is allowed. */
static inline long read_user_str(u8 *to, u32 size, u64 from, u8 sleeps)
{
	long n = probe_read_user_str(to, size, (void *)from);
	if (n >= 0 || !sleeps)
		return n;
	u64 second = (from & ~(u64)(PAGE - 1)) + PAGE;
	if (copy_from_user(to, 1, (void *)from))
		return -1;
	copy_from_user(to, 1, (void *)second);
	return probe_read_user_str(to, size, (void *)from);
}

/* The record of the call that a thread is in. */
static inline struct record *record_of(const struct thread *t)
{
	u64 at = t->held;
	opaque(at);
	if (at > HELD)
		at = HELD;
	return (struct record *)(t->records + at);
}

/* Puts the calls of a thread into the ring, up to so many bytes, with the number of those that were lost before them. */
static inline u8 send(struct thread *t, u64 bytes, u64 how)
{
	opaque(bytes);
	if (bytes > sizeof t->records)
		bytes = sizeof t->records;
	t->head.type = EVENT_CALL;
	if (ringbuf_output(&events, &t->head, sizeof t->head + bytes, how))
		return 0;
	t->head.lost = 0;
	return 1;
}

static inline void lose(struct thread *t, u64 calls, u32 why, u64 from, u64 to)
{
	u64 *n = map_lookup(&counters, &why);
	if (n)
		__sync_fetch_and_add(n, calls);
	if (t->head.lost == 0)
		t->head.lost_from = from;
	t->head.lost += calls;
	t->head.lost_to = to;
}

/* Passes on the calls that wait for others. */
static inline void flush(struct thread *t)
{
	if (!send(t, t->held, RINGBUF_NO_WAKEUP))
		lose(t, t->calls, COUNT_RING_FULL, t->held_from, t->held_since);
	t->held = t->calls = 0;
}

enum { CALLING = 1, WAKING = 2, LAUNCHING = 3 }; /* in a call, in one that the reader is to see at once, in one that others follow */
enum { GONE = 0, SENT = 1, WAITS = 2 };

/* The call is over. hold: it may wait for others. */
static inline u8 emit(struct thread *t, u8 hold)
{
	struct event *e = &record_of(t)->event;
	u64 began = e->start, over = e->end ? e->end : began;
	u64 bytes = t->held + sizeof *e + t->used;
	if (t->skip) {
		if (t->calls)
			flush(t);
		lose(t, 1, COUNT_SAMPLED, began, over);
		return GONE;
	}
	e->bytes = (u16)t->used;
	if (hold && bytes <= HELD && (t->calls == 0 || over - t->held_since < HOLD_NS)) {
		if (t->calls++ == 0) {
			t->held_from = began;
			t->held_since = over;
		}
		t->held = (u32)bytes;
		return WAITS;
	}
	if (send(t, bytes, t->active == WAKING ? RINGBUF_FORCE_WAKEUP : wake(t->calls ? 0 : e->seq)))
		return SENT;
	lose(t, t->calls + 1, COUNT_RING_FULL, t->calls ? t->held_from : began, over);
	return GONE;
}

/* The call is over without having returned. */
static inline void abandon(struct thread *t)
{
	t->active = 0;
	record_of(t)->event.end = 0;
	emit(t, 0);
	t->held = t->calls = 0;
}

static inline u64 word(const struct thread *t, u8 i) { return record_of(t)->words[i & (MAX_WORDS - 1)]; }

static inline u64 times(u64 a, u64 b)
{
	if (a >> 32 || b >> 32)
		return a == 0 || b == 0 ? 0 : ~(u64)0;
	return a * b;
}

static inline u64 size_of(const struct thread *t, const struct reader *r, u8 sleeps)
{
	u64 n = r->unit, k = 0;
	if (r->flags & READ_STORED) {
		if (word(t, r->mul0) == 0 || read_user(&k, r->flags & READ_STORED32 ? 4 : 8, word(t, r->mul0), sleeps))
			return 0;
		n = times(n, k);
	} else if (r->mul0 != NONE) {
		n = times(n, word(t, r->mul0));
	}
	if (r->mul1 != NONE)
		n = times(n, word(t, r->mul1));
	return n;
}

static inline u64 address(const struct thread *t, const struct reader *r)
{
	return r->word == NONE ? record_of(t)->event.ret : word(t, r->word);
}

/* Whether a payload of this length comes in parts after its call. */
static inline u8 follows(const struct reader *r, u64 len, u8 sleeps)
{
	if ((len <= INLINE && r->kind != KIND_BLOCK) || (r->flags & READ_LATER))
		return 0;
	if (r->kind == KIND_PAYLOAD)
		return len <= limit && (sleeps || len <= PARTS_NOW * INLINE);
	if (r->kind == KIND_BLOCK)
		return len <= limit && sleeps;
	return (r->kind == KIND_BYTES || r->kind == KIND_IMAGE) && len <= (u64)(sleeps ? MAX_PARTS : PARTS_NOW) * INLINE;
}

static inline long read_member(u64 *to, u64 base, u16 at, u8 width, u8 sleeps)
{
	u32 n = width;
	*to = 0;
	if (n > sizeof *to)
		n = sizeof *to;
	return read_user(to, n, base + at, sleeps);
}

/* How many bytes of a text there are from an address on, with its end, at most as many as a piece has. It comes to be behind what is known of the call. */
static inline long text_as(u64 addr, u8 sleeps)
{
	u64 id = current_pid_tgid();
	struct thread *t = map_lookup(&threads, &id);
	if (!t)
		return -1;
	u64 at = t->used;
	opaque(at);
	return at > BUDGET ? -1 : read_user_str(record_of(t)->data + at, INLINE, addr, sleeps);
}

__attribute__((noinline)) int text_now(u64 addr) { return (int)text_as(addr, 0); }
__attribute__((noinline)) int text_waiting(u64 addr) { return (int)text_as(addr, 1); }

struct text {
	u64 addr, len;
};

/* A full piece has an end that is none of the text's. */
static inline long more_text(struct text *x, int n)
{
	if (n <= 0)
		x->len = 0;
	else
		x->len += n < INLINE ? (u64)n : INLINE - 1;
	return n < INLINE;
}

static long one_text(u32 i __attribute__((unused)), struct text *x) { return more_text(x, text_waiting(x->addr + x->len)); }

static inline u64 text_length(u64 addr, u8 sleeps)
{
	struct text x = {addr, 0};
	if (sleeps) {
		loop(MAX_PARTS, one_text, &x, 0);
		return x.len;
	}
	for (u32 i = 0; i < PARTS_NOW; i++)
		if (more_text(&x, text_now(x.addr + x.len)))
			break;
	return x.len;
}

enum { FOUND_ADDR, FOUND_LEN, FOUND_WIDTH, FOUND_PITCH, FOUND_PLANE, FOUND_ROWS, FOUND_TMP }; /* in `in` of a thread, which is that of a call's entry alone */

static inline u64 member(struct thread *t, u64 base, u8 at, u64 otherwise, u8 sleeps)
{
	if (at == NONE)
		return otherwise;
	return read_user(&t->in[FOUND_TMP], 8, base + 8 * (u64)at, sleeps) ? 0 : t->in[FOUND_TMP];
}

/* A binary: a fat one, with or without what leads to it in a program, an ELF file, or text. */
static inline u8 image(struct thread *t, u64 addr, u8 sleeps)
{
	enum { FAT = 0xba55ed50u, WRAPPER = 0x466243b1u, ELF = 0x464c457fu };
	u64 len, first = member(t, addr, 0, 0, sleeps);
	if ((u32)first == WRAPPER) {
		addr = member(t, addr, 1, 0, sleeps);
		first = member(t, addr, 0, 0, sleeps);
	}
	if ((u32)first == FAT) {
		len = (first >> 48) + member(t, addr, 1, 0, sleeps);
	} else if ((u32)first == ELF) {
		/* Its headers are behind all else. */
		u64 sections = member(t, addr, 7, 0, sleeps), programs = (member(t, addr, 6, 0, sleeps) >> 48) * (u16)sections;
		len = member(t, addr, 5, 0, sleeps) + (u16)(sections >> 16) * (u64)(u16)(sections >> 32);
		programs += member(t, addr, 4, 0, sleeps);
		if (len < programs)
			len = programs;
	} else {
		len = text_length(addr, sleeps);
	}
	t->in[FOUND_ADDR] = addr;
	t->in[FOUND_LEN] = len;
	return len ? PRESENT : UNREADABLE;
}

/* The block of arguments that a list of pairs leads to. */
static inline u8 packed(struct thread *t, u64 list, u8 sleeps)
{
	enum { END = 0, POINTER = 1, SIZE = 2, MOST = 8 };
	u64 at = 0, size = 0;
	for (u32 i = 0; i < MOST; i++, list += 16) {
		u64 what = member(t, list, 0, END, sleeps), value = member(t, list, 1, 0, sleeps);
		if (what == END)
			break;
		if (what == POINTER)
			at = value;
		else if (what == SIZE)
			size = value;
	}
	t->in[FOUND_ADDR] = at;
	t->in[FOUND_LEN] = size ? member(t, size, 0, 0, sleeps) : 0;
	return at && t->in[FOUND_LEN] ? PRESENT : ABSENT;
}

/* The side of a copy that a structure describes, where it is the host's. Planes with a gap between them are taken with it. */
static inline u8 block(struct thread *t, const struct reader *r, u64 base, u8 sleeps)
{
	enum { HOST = 1, UNIFIED = 4 };
	u32 kind = (u32)member(t, base, r->side, 0, sleeps);
	if (kind != HOST && kind != UNIFIED)
		return ABSENT;
	/* What is known lies in the memory of the thread, for there is little stack. */
	volatile u64 *b = t->in;
	b[FOUND_WIDTH] = member(t, base, r->width, 0, sleeps);
	b[FOUND_PITCH] = member(t, base, r->row, 0, sleeps);
	if (b[FOUND_PITCH] == 0)
		b[FOUND_PITCH] = b[FOUND_WIDTH];
	b[FOUND_ADDR] = member(t, base, kind == HOST ? r->host : r->device, 0, sleeps);
	u64 addr = b[FOUND_ADDR];
	if (addr == 0 || (addr >= device_from && addr < device_to) || b[FOUND_PITCH] < b[FOUND_WIDTH])
		return ABSENT;
	b[FOUND_PLANE] = member(t, base, r->rows, 0, sleeps);
	b[FOUND_ROWS] = b[FOUND_PLANE] * member(t, base, r->z, 0, sleeps);
	b[FOUND_ROWS] += member(t, base, r->y, 0, sleeps);
	b[FOUND_ADDR] += member(t, base, r->x, 0, sleeps);
	b[FOUND_ADDR] += b[FOUND_PITCH] * b[FOUND_ROWS];
	b[FOUND_ROWS] = member(t, base, r->height, 0, sleeps);
	u64 depth = member(t, base, r->depth, 1, sleeps);
	if (b[FOUND_ROWS] == 0 || depth == 0)
		return ABSENT;
	if (depth == 1 || b[FOUND_PLANE] == 0)
		b[FOUND_ROWS] = times(b[FOUND_ROWS], depth);
	else
		b[FOUND_ROWS] += times(b[FOUND_PLANE], depth - 1);
	b[FOUND_LEN] = times(b[FOUND_WIDTH], b[FOUND_ROWS]);
	if (b[FOUND_PITCH] == b[FOUND_WIDTH])
		b[FOUND_WIDTH] = b[FOUND_LEN];
	return b[FOUND_LEN] ? PRESENT : ABSENT;
}

/* What takes more to find than a word. */
static inline u8 find_as(u32 i, u8 sleeps)
{
	u64 id = current_pid_tgid();
	struct thread *t = map_lookup(&threads, &id);
	if (!t || i >= MAX_READERS)
		return ABSENT;
	u32 func = record_of(t)->event.func;
	const struct function *f = map_lookup(&functions, &func);
	if (!f)
		return ABSENT;
	const struct reader *r = &f->reader[i];
	u64 base = word(t, r->word);
	if (r->flags & READ_FIELD && r->kind == KIND_PACKED)
		base = member(t, base, r->at / 8, 0, sleeps);
	if (base == 0)
		return ABSENT;
	if (r->kind == KIND_IMAGE)
		return image(t, base, sleeps);
	return r->kind == KIND_PACKED ? packed(t, base, sleeps) : block(t, r, base, sleeps);
}

__attribute__((noinline)) int find_now(u32 i) { return find_as(i, 0); }
__attribute__((noinline)) int find_waiting(u32 i) { return find_as(i, 1); }

static inline u8 says_host(const struct thread *t, const struct reader *r)
{
	if (r->count_width == 0)
		return 0;
	u64 k = word(t, r->count_width - 1);
	return k < 16 && (r->at >> k & 1);
}

/* Finds what a reader is to read. */
static inline u8 locate(const struct thread *t, const struct reader *r, u32 i, u64 *addr, u64 *len, u8 sleeps)
{
	u64 base = address(t, r), k;
	*addr = base;
	*len = 0;
	if (r->flags & READ_VALUE) {
		*addr = word(t, r->word + r->at / 8);
		k = word(t, r->word + r->count_at / 8) >> (r->count_at % 8 * 8);
		*len = times(r->unit, r->count_width == 4 ? (u32)k : k);
		return *addr && *len ? PRESENT : ABSENT;
	}
	if (base == 0)
		return ABSENT;
	if (r->kind >= KIND_IMAGE) {
		u8 missing = (u8)(sleeps ? find_waiting(i) : find_now(i));
		*addr = t->in[FOUND_ADDR];
		*len = t->in[FOUND_LEN];
		return missing;
	}
	if (r->flags & READ_FIELD) {
		/* Where the structure can't be read, that is said of itself. */
		if (r->unless_width && (read_member(&k, base, r->unless_at, r->unless_width, sleeps) || k != 0))
			return ABSENT;
		if (read_member(addr, base, r->at, 8, sleeps) || *addr == 0)
			return ABSENT;
		*len = r->unit;
		if (r->count_width) {
			if (read_member(&k, base, r->count_at, r->count_width, sleeps))
				return ABSENT;
			*len = times(*len, k);
		}
		return *len ? PRESENT : ABSENT;
	}
	*len = size_of(t, r, sleeps);
	if (r->kind == KIND_PAYLOAD && (*len == 0 || (base >= device_from && base < device_to && !says_host(t, r))))
		return ABSENT;
	if (r->kind == KIND_LIST) {
		u64 list[2] = {0, 0};
		if (read_user(list, sizeof list, base, sleeps)) {
			*len = 0;
			return UNREADABLE;
		}
		if (list[0] == 0 || list[1] == 0)
			return ABSENT;
		*addr = list[0];
		*len = times(*len, list[1]);
	}
	return PRESENT;
}

/* Adds a piece to the record of the call, with its content where that has room. */
static inline int put_as(struct thread *t, const struct reader *r, u64 addr, u64 len, u32 how, u8 sleeps)
{
	u8 missing = (u8)how, brief = r->kind == KIND_BYTES && !(r->flags & READ_FIELD);
	u8 *data = record_of(t)->data;
	u64 off = t->used;
	opaque(off);
	if (off > DATA - sizeof(struct piece))
		return 0;
	struct piece *p = (struct piece *)(data + off);
	p->param = r->param;
	p->flags = r->flags & READ_OUT ? PIECE_OUT : 0;
	p->item = (u8)(how >> 8);
	p->bytes = 0;

	u64 n = len, begin = off + (brief ? SHORT_PIECE : sizeof *p);
	if (r->kind == KIND_STRING && n > INLINE)
		n = INLINE;
	opaque(begin);
	opaque(n);
	if (missing != PRESENT) {
	} else if (follows(r, len, sleeps)) {
		p->flags |= PIECE_FOLLOWS;
		t->follows = 1;
	} else if ((r->kind == KIND_PAYLOAD || r->kind == KIND_BLOCK) && len > limit) {
		missing = OVER_LIMIT;
	} else if (r->flags & READ_LATER) {
		missing = NOT_SYNCHRONIZED;
	} else if (n > INLINE || begin > BUDGET || r->kind == KIND_BLOCK) {
		missing = OVER_LIMIT;
	} else {
		/* The verifier of older kernels forgets what a value that lay on the stack was compared with. */
		u64 at = begin;
		opaque(at);
		if (at > BUDGET)
			return 0;
		u8 *to = data + at;
		if (r->kind == KIND_STRING) {
			long got = read_user_str(to, (u32)n, addr, sleeps);
			if (got < 0) {
				missing = UNREADABLE;
				len = 0;
			} else {
				/* With its end, unless it had no room for one: without it in either case. */
				len = got > 0 ? (u64)got - 1 : 0;
			}
			n = len;
		} else if (n > sizeof(struct small) || !read_small((struct small *)to, addr)) {
			if (read_user(to, (u32)n, addr, sleeps))
				missing = UNREADABLE;
		}
		if (missing == PRESENT) {
			opaque(n);
			if (n > INLINE)
				n = INLINE;
			p->bytes = (u32)n;
			p->missing = PRESENT;
			t->used = (u32)(begin + ((n + 7) & ~(u64)7));
			if (brief) {
				p->flags |= PIECE_SHORT;
				return 0;
			}
		}
	}
	if (p->bytes == 0)
		t->used = (u32)(off + sizeof *p);
	p->missing = missing;
	p->addr = addr;
	p->len = len;
	return 0;
}

static __attribute__((noinline)) int put_now(struct thread *t, const struct reader *r, u64 addr, u64 len, u32 how)
{
	return put_as(t, r, addr, len, how, 0);
}

static __attribute__((noinline)) int put_waiting(struct thread *t, const struct reader *r, u64 addr, u64 len, u32 how)
{
	return put_as(t, r, addr, len, how, 1);
}

static inline void put(struct thread *t, const struct reader *r, u64 addr, u64 len, u32 how, u8 sleeps)
{
	if (sleeps)
		put_waiting(t, r, addr, len, how);
	else
		put_now(t, r, addr, len, how);
}

/* What the buffers of a list of arguments hold when it is launched. */
static inline void put_buffers(struct thread *t, const struct reader *r, u8 sleeps)
{
	struct args_key k = {t->head.pid, word(t, r->word)};
	struct args *a = map_lookup(&arguments, &k);
	if (!a)
		return;
	for (u32 i = 0; i < MAX_BUFFERS; i++) {
		if (i >= a->n)
			break;
		put(t, r, a->buffer[i].addr, a->buffer[i].len, (1 + i) << 8, sleeps);
	}
}

/* In `in` of a thread: the key of the layout, and where its parameters are in the record. */
enum { PARAMS_KEY = 7, PARAMS_BEGIN = 8, PARAMS_COUNT = 9, PARAMS_DONE = 10 };

/* The ith parameter of a kernel. */
static inline long param_as(struct thread *t, const struct layout *l, u32 i, u8 sleeps)
{
	u8 *data = record_of(t)->data;
	u64 at = t->in[PARAMS_BEGIN] + 8 * (u64)i, len_at = t->in[PARAMS_BEGIN] + 8 * t->in[PARAMS_COUNT] + 2 * (u64)i, to = t->used;
	u64 n = l ? l->size[i & (MAX_PARAMS - 1)] : i < GUESSED_LARGE ? GUESS_LARGE : GUESS, got = 0;
	opaque(at);
	opaque(len_at);
	opaque(to);
	opaque(n);
	if (i >= MAX_PARAMS || at > BUDGET || len_at > DATA - 2 || to > BUDGET)
		return 1;
	u64 from = *(u64 *)(data + at);
	if (n <= 8 && from) {
		u64 v = 0;
		if (probe_read_user(&v, 8, (void *)from) == 0)
			got = n;
		*(u64 *)(data + to) = v;
	}
	if (got == 0 && n <= MAX_PARAM && from && read_user(data + to, (u32)n, from, l ? sleeps : 0) == 0)
		got = n;
	if (got == 0 && !l && from) {
		/* The memory may end before as much as a parameter may have, or there is no such parameter. */
		u64 rest = PAGE - (from & (PAGE - 1));
		opaque(rest);
		if (rest < n && rest <= GUESS_LARGE && probe_read_user(data + to, (u32)rest, (void *)from) == 0)
			got = rest;
	}
	*(u16 *)(data + len_at) = (u16)got;
	t->used = (u32)(to + ((got + 7) & ~(u64)7));
	t->in[PARAMS_DONE] = i + 1;
	return 0;
}

struct params {
	struct thread *t;
	const struct layout *l;
};

static long one_param(u32 i, struct params *ps) { return param_as(ps->t, ps->l, i, 1); }

__attribute__((noinline)) int param_now(u64 place, u32 i)
{
	struct thread *t = map_lookup(&threads, &place);
	if (!t)
		return 1;
	u64 key = t->in[PARAMS_KEY];
	return (int)param_as(t, map_lookup(&layouts, &key), i, 0);
}

/*
 * The parameters of a kernel behind an array of pointers. As long as the reader has not found out how many there are and how large, which
 * takes it some milliseconds, it gets what there may be at most, and cuts it to what they are.
 */
static inline void put_params(u64 place, struct thread *t, const struct reader *r, u8 sleeps)
{
	u64 list = word(t, r->word), n = GUESSED;
	struct args_key k = {t->head.pid, word(t, r->mul0)};
	if (list == 0)
		return;
	if (r->flags & READ_FIELD) {
		u64 base = list;
		list = member(t, base, r->at / 8, 0, sleeps);
		k.handle = member(t, base, r->count_at / 8, 0, sleeps);
		if (k.handle == 0 && r->unless_width)
			k.handle = member(t, base, r->unless_at / 8, 0, sleeps);
		if (list == 0)
			return;
	}
	u64 off = t->used;
	opaque(off);
	if (off > PARAMS_AT)
		return;
	struct piece *p = (struct piece *)(record_of(t)->data + off);
	const struct given *given = map_lookup(&kernels, &k);
	p->param = r->param;
	p->flags = PIECE_PARAMS;
	p->item = r->item;
	p->missing = PRESENT;
	p->bytes = 0;
	p->addr = p->len = 0;
	t->used = (u32)(off + sizeof *p);
	if (!given)
		return;
	u64 id = given->by;
	const struct layout *l = map_lookup(&layouts, &id);
	if (l && l->count == UNKNOWN)
		return;
	p->addr = id;
	if (l)
		n = l->count;
	opaque(n);
	if (n > MAX_PARAMS)
		return;
	u64 begin = off + sizeof *p;
	opaque(begin);
	if (begin > PARAMS_AT + sizeof *p)
		return;
	u8 *to = record_of(t)->data + begin;
	if (read_user(to, (u32)n * 8, list, l ? sleeps : 0)) {
		/* What is behind an array that is shorter than it may be need not be memory. */
		u64 rest = (PAGE - (list & (PAGE - 1))) / 8;
		opaque(rest);
		if (l || rest > n || rest > GUESSED || probe_read_user(to, (u32)rest * 8, (void *)list)) {
			p->missing = UNREADABLE;
			return;
		}
		n = rest;
	}
	t->in[PARAMS_KEY] = id;
	t->in[PARAMS_BEGIN] = begin;
	t->in[PARAMS_COUNT] = n;
	t->in[PARAMS_DONE] = 0;
	t->used = (u32)(begin + ((10 * n + 7) & ~(u64)7));
	if (sleeps) {
		struct params ps = {t, l};
		loop((u32)n, one_param, &ps, 0);
	} else {
		for (u32 i = 0; i < MAX_PARAMS; i++)
			if (i >= n || param_now(place, i))
				break;
	}
	p->len = t->in[PARAMS_DONE] | n << 32;
	p->bytes = t->used - (u32)begin;
}

static inline void capture_one(u64 place, struct thread *t, const struct function *f, u32 i, u8 ok, u8 sleeps)
{
	if (i >= MAX_READERS)
		return;
	const struct reader *r = &f->reader[i];
	if ((((r->flags & (READ_OUT | READ_ALWAYS)) == READ_OUT || r->kind == KIND_PAYLOAD || r->kind == KIND_IMAGE || r->kind == KIND_BLOCK) && !ok) || r->kind == KIND_ITEMS)
		return;
	if (r->kind == KIND_BUFFERS) {
		put_buffers(t, r, sleeps);
		return;
	}
	if (r->kind == KIND_PARAMS) {
		put_params(place, t, r, sleeps);
		return;
	}
	u64 addr, len;
	u8 missing = locate(t, r, i, &addr, &len, sleeps);
	if (missing != ABSENT)
		put(t, r, addr, len, (u32)r->item << 8 | missing, sleeps);
}

/*
 * Functions that are given nothing but numbers are checked by themselves when the program is loaded, once, however often they are
 * called: what a program does with each of the readers of a function would take older kernels too long.
 */
__attribute__((noinline)) int capture_now(u64 place, u32 func, u32 i, u32 ok)
{
	struct thread *t = map_lookup(&threads, &place);
	const struct function *f = map_lookup(&functions, &func);
	if (t && f)
		capture_one(place, t, f, i, (u8)ok, 0);
	return 0;
}

__attribute__((noinline)) int capture_waiting(u64 place, u32 func, u32 i, u32 ok)
{
	struct thread *t = map_lookup(&threads, &place);
	const struct function *f = map_lookup(&functions, &func);
	if (t && f)
		capture_one(place, t, f, i, (u8)ok, 1);
	return 0;
}

/* A block of arguments, which nearly every launch has, with no detour: it comes first behind the words. */
static inline void capture_block(struct thread *t, struct record *rec, const struct function *f)
{
	const struct reader *r = &f->reader[0];
	u64 addr = rec->words[r->word & (MAX_WORDS - 1)], n = times(r->unit, rec->words[r->mul0 & (MAX_WORDS - 1)]);
	u64 at = 8 * (f->words & (MAX_WORDS - 1));
	if (addr == 0)
		return;
	opaque(n);
	if (n > sizeof(struct small) || f->words >= MAX_WORDS || !read_small((struct small *)(rec->data + at + SHORT_PIECE), addr)) {
		put_waiting(t, r, addr, n, 0);
		return;
	}
	/* As a struct piece that is a short one: parameter, flags and length. */
	rec->words[f->words & (MAX_WORDS - 1)] = r->param | PIECE_SHORT << 8 | n << 32;
	t->used = (u32)(at + SHORT_PIECE + ((n + 7) & ~(u64)7));
}

static inline void capture(u64 place, u32 func, u32 from, u32 to, u8 ok, u8 sleeps)
{
	for (u32 i = from; i < MAX_READERS; i++) {
		if (i >= to)
			break;
		if (sleeps)
			capture_waiting(place, func, i, ok);
		else
			capture_now(place, func, i, ok);
	}
}

/* A call that makes a list of arguments, or gives it memory, has succeeded. */
static inline void note_args(struct thread *t, const struct function *f, u8 sleeps)
{
	struct args_key k = {t->head.pid, word(t, f->args)};
	struct args none = {0};
	if (f->args_how & ARGS_KERNEL) {
		if (k.handle == 0 || read_user(&k.handle, 8, k.handle, sleeps))
			return;
		/* Who gets it from the same binary again has got the same: where that was unloaded meanwhile, the reader finds it out. */
		struct given g = {(u64)t->head.tid << 32 | record_of(t)->event.seq, word(t, f->buffer)};
		const struct given *old = map_lookup(&kernels, &k);
		if ((!old || old->from != g.from) && map_update(&kernels, &k, &g, 0) == 0)
			t->active = WAKING;
		return;
	}
	if (f->args_how & ARGS_STORED && (k.handle == 0 || read_user(&k.handle, 8, k.handle, sleeps)))
		return;
	if (f->args_how & ARGS_RESET && map_update(&arguments, &k, &none, 0))
		return;
	u64 addr = word(t, f->buffer);
	if (!(f->args_how & ARGS_BUFFER) || addr == 0 || (f->args_how & ARGS_BUFFER_STORED && read_user(&addr, 8, addr, sleeps)))
		return;
	struct args *a = map_lookup(&arguments, &k);
	if (!a && map_update(&arguments, &k, &none, 0) == 0)
		a = map_lookup(&arguments, &k);
	if (!a)
		return;
	u64 n = a->n;
	opaque(n);
	if (n >= MAX_BUFFERS)
		return;
	a->buffer[n].addr = addr;
	a->buffer[n].len = word(t, f->buffer_len);
	a->n = n + 1;
}

struct parts {
	struct thread *t;
	const struct reader *r;
	u64 addr, len, width, pitch, offset;
	u64 addrs, sizes; /* of items */
};

static inline long part_as(u32 i, struct parts *ps, u8 sleeps)
{
	struct part *p = (struct part *)(record_of(ps->t)->data + PART_AT);
	u64 row = ps->offset / ps->width, column = ps->offset % ps->width;
	u64 n = ps->width - column, rest = ps->len - ps->offset;
	if (n > rest)
		n = rest;
	opaque(n);
	if (n > INLINE)
		n = INLINE;
	p->bytes = (u32)n;
	p->offset = ps->offset;
	u64 from = ps->addr + row * ps->pitch + column;
	if (sleeps ? copy_from_user(p->data, (u32)n, (void *)from) : probe_read_user(p->data, (u32)n, (void *)from)) {
		p->missing = UNREADABLE;
		p->bytes = 0;
		n = 0;
	}
	p->time = ktime_ns();
	if (ringbuf_output(&events, p, sizeof *p - INLINE + n, wake(i)) || n == 0)
		return 1;
	ps->offset += n;
	return ps->offset >= ps->len;
}

static long one_part(u32 i, struct parts *ps) { return part_as(i, ps, 1); }

/* A payload is one row, or has some at a pitch. */
static inline void rows(struct parts *ps)
{
	ps->width = ps->len;
	if (ps->r->kind == KIND_BLOCK) {
		ps->width = ps->t->in[FOUND_WIDTH];
		ps->pitch = ps->t->in[FOUND_PITCH];
	}
	if (ps->r->pitch != NONE) {
		ps->width = word(ps->t, ps->r->mul0);
		ps->pitch = word(ps->t, ps->r->pitch);
	}
}

/* Makes ready for parts of a payload. */
static inline void begin_parts(struct parts *ps, u32 item)
{
	struct thread *t = ps->t;
	struct part *p = (struct part *)(record_of(t)->data + PART_AT);
	p->type = EVENT_PAYLOAD;
	p->param = ps->r->param;
	p->flags = ps->r->flags & READ_OUT ? PIECE_OUT : 0;
	p->missing = PRESENT;
	p->pid = t->head.pid;
	p->tid = t->head.tid;
	p->seq = record_of(t)->event.seq;
	p->addr = ps->addr;
	p->len = ps->len;
	p->item = item;
	p->offset = p->bytes = 0;
	ps->offset = 0;
}

static inline void send_parts(struct parts *ps, u32 item)
{
	begin_parts(ps, item);
	/* Rows end parts early, so there may be more of them than the length tells. */
	loop(MAX_PARTS * 64, one_part, ps, 0);
}

static long one_item(u32 i, struct parts *ps)
{
	if (copy_from_user(&ps->addr, 8, (void *)(ps->addrs + 8 * (u64)i)) || copy_from_user(&ps->len, 8, (void *)(ps->sizes + 8 * (u64)i)))
		return 1;
	if (ps->addr == 0 || ps->len == 0 || ps->len > limit || (ps->addr >= device_from && ps->addr < device_to))
		return 0;
	ps->width = ps->len;
	send_parts(ps, 1 + i);
	return 0;
}

/* A payload that comes after its call: one that is too large for its record, or the items of an array. */
__attribute__((noinline)) int send_payload(u64 place, u32 func, u32 i)
{
	struct thread *t = map_lookup(&threads, &place);
	const struct function *f = map_lookup(&functions, &func);
	if (!t || !f || i >= MAX_READERS)
		return 0;
	const struct reader *r = &f->reader[i];
	struct parts ps = {.t = t, .r = r};
	if (r->kind == KIND_ITEMS) {
		u64 n = word(t, r->mul0);
		ps.addrs = address(t, r);
		ps.sizes = word(t, r->mul1);
		if (!(r->flags & READ_LATER) && limit != 0)
			loop(n < MAX_ITEMS ? (u32)n : MAX_ITEMS, one_item, &ps, 0);
		return 0;
	}
	if (r->kind != KIND_PAYLOAD && r->kind != KIND_BYTES && r->kind != KIND_IMAGE && r->kind != KIND_BLOCK)
		return 0;
	if (locate(t, r, i, &ps.addr, &ps.len, 1) != PRESENT || !follows(r, ps.len, 1))
		return 0;
	rows(&ps);
	send_parts(&ps, r->item);
	return 0;
}

/* The next part of the payload that is in the memory of the thread. */
__attribute__((noinline)) int part_now(u64 place, u32 func, u32 i, u32 n)
{
	struct thread *t = map_lookup(&threads, &place);
	const struct function *f = map_lookup(&functions, &func);
	if (!t || !f || i >= MAX_READERS)
		return 1;
	const struct part *p = (struct part *)(record_of(t)->data + PART_AT);
	struct parts ps = {.t = t, .r = &f->reader[i], .addr = p->addr, .len = p->len, .offset = p->offset + p->bytes};
	rows(&ps);
	return (int)part_as(n, &ps, 0);
}

__attribute__((noinline)) int send_payload_now(u64 place, u32 func, u32 i)
{
	struct thread *t = map_lookup(&threads, &place);
	const struct function *f = map_lookup(&functions, &func);
	if (!t || !f || i >= MAX_READERS)
		return 0;
	const struct reader *r = &f->reader[i];
	struct parts ps = {.t = t, .r = r};
	if (r->kind != KIND_PAYLOAD && r->kind != KIND_BYTES && r->kind != KIND_IMAGE)
		return 0;
	if (locate(t, r, i, &ps.addr, &ps.len, 0) != PRESENT || !follows(r, ps.len, 0))
		return 0;
	begin_parts(&ps, r->item);
	for (u32 n = 0; n < PARTS_NOW; n++)
		if (part_now(place, func, i, n))
			break;
	return 0;
}

static inline struct thread *new_place(u64 id)
{
	u32 zero = 0;
	struct thread *t = map_lookup(&blank, &zero);
	if (!t || map_update(&threads, &id, t, 1))
		return 0;
	t = map_lookup(&threads, &id);
	if (!t)
		return 0;
	t->head.pid = (id & ~OUTER) >> 32;
	t->head.tid = (u32)id;
	return t;
}

static inline struct thread *new_thread(u64 id)
{
	struct thread *t = new_place(id);
	if (!t)
		return 0;
	/* The reader learns of a thread at once, while there is still a process to look at. */
	struct thread_event n = {.head = {.type = EVENT_THREAD, .pid = id >> 32, .tid = (u32)id}, .start = ktime_ns()};
	current_comm(n.comm, sizeof n.comm);
	ringbuf_output(&events, &n, sizeof n, RINGBUF_FORCE_WAKEUP);
	return t;
}

static inline void read_args(struct pt_regs *ctx, struct thread *t, struct record *rec, const struct function *f, u8 sleeps)
{
	u64 *in = t->in;
	u64 from = ctx->sp + STACK_ARGS;
	t->used = 8 * f->words;
	if (f->plain) {
		/* Words that the function does not have are written over later. */
		arg_regs(ctx, rec->words);
		for (u32 i = 0; i < ARG_REGS; i++)
			rec->words[i] &= f->mask[i];
		if (!f->stack)
			return;
		/* Two words, as most functions have at most, by way of the stack as in read_small. */
		u64 two[2];
		if (f->stack <= 2 && probe_read_user(two, sizeof two, (void *)from) == 0) {
			rec->words[ARG_REGS] = two[0] & f->mask[ARG_REGS];
			rec->words[ARG_REGS + 1] = two[1] & f->mask[ARG_REGS + 1];
			return;
		}
		u32 n = f->stack;
		if (n > MAX_WORDS - ARG_REGS)
			n = MAX_WORDS - ARG_REGS;
		read_user(rec->words + ARG_REGS, n * 8, from, sleeps);
		for (u32 i = ARG_REGS; i < MAX_WORDS; i++) {
			if (i >= f->words)
				break;
			rec->words[i] &= f->mask[i];
		}
		return;
	}
	arg_regs(ctx, in);
	if (f->stack) {
		u32 n = f->stack;
		if (n > MAX_WORDS - ARG_REGS)
			n = MAX_WORDS - ARG_REGS;
		read_user(in + ARG_REGS, n * 8, from, sleeps);
	}
	if (f->refer != NONE) {
		u32 n = f->referred;
		if (n > MAX_PLACES - REFERRED)
			n = MAX_PLACES - REFERRED;
		read_user(in + REFERRED, n * 8, in[f->refer & (MAX_PLACES - 1)], sleeps);
	}
	for (u32 i = 0; i < MAX_WORDS; i++) {
		if (i >= f->words)
			break;
		rec->words[i] = in[f->place[i] & (MAX_PLACES - 1)] & f->mask[i];
	}
	if (f->flags & FUNC_CALLED)
		rec->words[0] = program_counter(ctx) - layer_offset(t->cookie);
}

/* Whether there may be memory to read at the entry, beside a block of arguments. */
static inline u8 behind(const struct function *f, const struct record *rec)
{
	if (f->before == f->block)
		return 0;
	return f->behind[1] == NONE || rec->words[f->behind[0] & (MAX_WORDS - 1)] || rec->words[f->behind[1] & (MAX_WORDS - 1)];
}

static inline int entered(struct pt_regs *ctx, u8 sleeps)
{
	if (shut)
		return 0;
	u64 id = current_pid_tgid();
	struct thread *base = map_lookup(&threads, &id);
	/* A thread that has its place is one that was wanted. */
	if (!base && !wanted(id))
		return 0;
	u64 c = cookie_of(ctx);
	u32 func = func_of(c);
	const struct function *f = map_lookup(&functions, &func);
	if (!f)
		return 0;
	if (!base && !(base = new_thread(id))) {
		count(COUNT_NO_THREAD);
		return 0;
	}
	struct thread *t = base;
	u64 sp = ctx->sp, place = id;
	if (f->flags & FUNC_OUTER) {
		/* Inside a call it is the runtime's own, unless the runtime calls the program back. */
		if (!(f->flags & FUNC_CALLED) && base->active && sp <= base->sp && call_lives(ctx, base->sp, base->mark))
			return 0;
		place |= OUTER;
		t = map_lookup(&threads, &place);
		if (!t && !(t = new_place(place))) {
			count(COUNT_NO_THREAD);
			return 0;
		}
	}
	if (t->active) {
		/* A wrapper that ends in a jump gets here with the stack as it was. */
		if (sp <= t->sp && call_lives(ctx, t->sp, t->mark))
			return 0;
		abandon(t);
	}
	t->cookie = c;
	t->sp = sp;
	t->mark = call_mark(ctx);
	if (t->calls && !(f->flags & FUNC_HOLD))
		flush(t);
	struct record *rec = record_of(t);
	rec->event.func = func;
	rec->event.seq = (u32)base->seq++;
	rec->event.end = 0;
	rec->event.ret = 0;
	t->active = f->flags & FUNC_WAKE ? WAKING : f->flags & FUNC_HOLD ? LAUNCHING : CALLING;
	t->skip = sample && left_out(rec->event.seq);
	t->follows = 0;
	if (!t->skip) {
		read_args(ctx, t, rec, f, sleeps);
		if (sleeps && f->block)
			capture_block(t, rec, f);
		if (!sleeps || behind(f, rec))
			capture(place, func, sleeps ? f->block : 0, f->before, 1, sleeps);
	}
	rec->event.start = ktime_ns();
	return 0;
}

/*
 * Whether it is the call in this place that returns. A launch is told by the stack pointer alone, which takes less: it waits for
 * nothing, so that no program jumps out of one and comes back to the same place in another call.
 */
static inline u8 ends(struct pt_regs *ctx, const struct thread *t)
{
	if (!t->active || ctx->sp != t->sp + RETURN_POPS)
		return 0;
	return t->active == LAUNCHING || cookie_of(ctx) == t->cookie;
}

static inline int returned(struct pt_regs *ctx, u8 sleeps)
{
	if (shut)
		return 0;
	u64 now = ktime_ns();
	u64 id = current_pid_tgid();
	struct thread *t = map_lookup(&threads, &id);
	if (!t)
		return 0;
	if (!ends(ctx, t)) {
		id |= OUTER;
		t = map_lookup(&threads, &id);
		if (!t || !ends(ctx, t))
			return 0;
	}
	u32 func = func_of(t->cookie);
	const struct function *f = map_lookup(&functions, &func);
	if (!f)
		return 0;
	u64 ret = return_value(ctx);
	if (f->flags & FUNC_RET_VOID)
		ret = 0;
	else if (f->flags & FUNC_RET_32)
		ret = (u32)ret;
	u8 ok = !(f->flags & FUNC_RET_ERROR) || ret == 0;
	struct record *rec = record_of(t);
	rec->event.end = now;
	rec->event.ret = ret;
	if (t->skip) {
		emit(t, 0);
		t->active = 0;
		t->held = t->calls = 0;
		return 0;
	}
	capture(id, func, f->before, f->readers, ok, sleeps);
	if (ok && f->args_how)
		note_args(t, f, sleeps);
	u8 later = ok && (t->follows || (sleeps && f->flags & FUNC_ITEMS));
	u8 how = emit(t, f->flags & FUNC_HOLD && !later);
	t->active = 0;
	if (later && how == SENT)
		for (u32 i = 0; i < MAX_READERS && i < f->readers; i++) {
			if (sleeps)
				send_payload(id, func, i);
			else
				send_payload_now(id, func, i);
		}
	if (how != WAITS)
		t->held = t->calls = 0;
	return 0;
}

SEC("uprobe")
int enter(struct pt_regs *ctx)
{
	ON_THREAD_STACK();
	return entered(ctx, 0);
}

SEC("uretprobe")
int leave(struct pt_regs *ctx)
{
	ON_THREAD_STACK();
	return returned(ctx, 0);
}

/* For kernels with a helper for loops, and with what takes it: data that is too large for the record of a call. */
SEC("uprobe")
int enter_loops(struct pt_regs *ctx)
{
	ON_THREAD_STACK();
	return entered(ctx, 1);
}

SEC("uretprobe")
int leave_loops(struct pt_regs *ctx)
{
	ON_THREAD_STACK();
	return returned(ctx, 1);
}

/* The witness alone: how often each function is entered. */
SEC("uprobe")
int tally(struct pt_regs *ctx)
{
	if (wanted(current_pid_tgid()))
		count_call(func_of(cookie_of(ctx)));
	return 0;
}

/* The thread is no more, or no more what it was. What does not fit the ring stays where it is: the reader looks there at the end. */
static inline void forget(u64 id)
{
	struct thread *t = map_lookup(&threads, &id);
	if (!t)
		return;
	if (t->active && t->skip) {
		emit(t, 0); /* behind the calls that wait */
		t->active = 0;
	}
	u64 bytes = t->held;
	if (t->active) {
		struct event *e = &record_of(t)->event;
		e->end = 0;
		e->bytes = t->used;
		bytes += sizeof *e + t->used;
	}
	if ((bytes || t->head.lost) && !send(t, bytes, 0))
		return;
	map_delete(&threads, &id);
}

#ifndef ACLTRACE_USER
struct raw {
	u64 args[3];
};

SEC("raw_tp/task_newtask")
int born(struct raw *ctx)
{
	enum { THREAD = 0x10000 };
	u64 child = ctx->args[0];
	u8 yes = 1;
	if (among(current_pid_tgid()) && !(ctx->args[1] & THREAD) && map_update(&newborn, &child, &yes, 0))
		count(COUNT_NO_PROCESS);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int execed(struct raw *ctx)
{
	u64 id = current_pid_tgid(), old = id >> 32 << 32 | (u32)ctx->args[1];
	u32 pid = id >> 32;
	forget(old);
	forget(old | OUTER);
	if (filter != PIDS)
		return 0;
	if (by_name) {
		u64 now[2] = {0, 0}, task = current_task();
		map_delete(&newborn, &task);
		current_comm(now, sizeof now);
		if (now[0] == name[0] && now[1] == name[1])
			add_process(pid);
		else
			map_delete(&pids, &pid);
		return 0;
	}
	among(id);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int exited(struct raw *ctx __attribute__((unused)))
{
	u64 id = current_pid_tgid(), task = current_task();
	u32 pid = id >> 32;
	forget(id);
	forget(id | OUTER);
	if (filter == PIDS) {
		map_delete(&newborn, &task);
		u8 *state = map_lookup(&pids, &pid);
		if (state && pid == (u32)id)
			*state = LEADER_GONE;
	}
	return 0;
}
#endif

char LICENSE[] SEC("license") = "Dual MIT/GPL";
