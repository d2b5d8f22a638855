//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Uprobe programs that record calls. One pair of programs serves all functions: a probe's cookie is the function number, and the
 * map `functions` describes how to read the arguments. A call is assembled in its thread's memory, from entry to return, and then
 * sent to the ring at once. Launches are held and sent together with the calls that follow, because one large record costs as
 * much as a small one. When a thread exits, its held calls and its call in progress are sent.
 *
 * Only the outermost call is recorded. A composite call, which contains recorded calls, has a separate place. The stack pointer
 * decides which call may be inside another one, without a counter. So a call that ends by longjmp or an exception, without a
 * return probe, does no harm: the thread's next call finds it over and sends it as one that never returned. The return address
 * decides whose call it is: the runtime's own calls are part of the outer one, and calls by a callback are recorded, in the
 * place for composite calls.
 *
 * The kernel's return probes replace the return address on the stack. An exception could not pass it. So functions that run
 * callbacks of the program have a probe at each return instruction instead (AT_RETURN), or no probe for their end (NO_END).
 * Functions that wait have probes at return instructions, if these are known: a cancelled thread unwinds its stack, too.
 * Marks, the boundaries of operators, have only a probe at the entry, and their records are complete there.
 *
 * Kernels without cookies need a small program for each function. It stores the cookie in the map `cookie` and jumps to one of
 * these programs. Programs with features that such kernels lack are not loaded there.
 */
#include "kernel.h"

#define MAX_WORDS 16
#define MAX_READERS 16
#define MAX_PLACES 32 /* registers, stack words, and words of a structure that a register points to */
#define REFERRED 16   /* first place of such a structure */
#define MAX_BUFFERS 8 /* of an argument list */
#define MAX_ITEMS (1 << 16)
#define INLINE 4096 /* largest piece in a call's record */
#define BUDGET 8192 /* content starts at or below this offset */
#define DATA (BUDGET + INLINE + (1 + MAX_READERS) * sizeof(struct piece))
#define HELD 2048	     /* room for held calls */
#define HOLD_NS 10000000     /* longest time to hold, while other calls follow */
#define PART_AT (8 * MAX_WORDS) /* offset in data, after the words, which are still needed */
#define NONE 255 /* no word; as a parameter: the return value */
#define ABSENT 255 /* nothing to read */
#define MAX_PARTS (1 << 14)
#define MAX_PARAMS 512 /* kernel parameters */
#define MAX_PARAM 4096
#define UNKNOWN 0xffff /* parameter count without a known layout */
#define PARAMS_AT 4096 /* parameters start at or below this offset in the record */
#define GUESSED 32	/* parameters to guess for a kernel without a layout */
#define GUESSED_LARGE 4 /* the first ones may be structures */
#define GUESS 64
#define GUESS_LARGE 1024
#define MARK_OPEN 16 /* phases and inner operators of a thread that are known */
#define PARTS_NOW 256 /* most parts for programs that can't wait for memory or use bpf_loop */
#define OUTER ((u64)1 << 63) /* bit in a thread's key: place of a composite call, or of a callback's call inside another one */

enum { EVENT_CALL = 1, EVENT_PAYLOAD = 2, EVENT_THREAD = 3, EVENT_INNER = 4 };
/* Bits of a cookie: an implementation that a wrapper calls; a probe at a return instruction; no return probe; no end; a function for programs. */
enum { IMPLEMENTATION = 1 << 16, AT_RETURN = 1 << 17, UNHOOKED = 1 << 18, NO_END = 1 << 19, PUBLIC = 1 << 20 };
#define UNSEEN 1 /* as the result of a call without an end: the call may be over */
#define BY_POINTER ((u64)1 << 63) /* bit in the return address of a call through a pointer */
enum { KIND_BYTES = 1, KIND_STRING = 2, KIND_LIST = 3, KIND_PAYLOAD = 4, KIND_ITEMS = 5, KIND_BUFFERS = 6, KIND_IMAGE = 7, KIND_PACKED = 8, KIND_BLOCK = 9, KIND_PARAMS = 10 };
enum {
	READ_ENTRY = 1, /* at the entry, else at the return */
	READ_OUT = 2,	/* written by the call: read after success */
	READ_LATER = 4, /* written by the call's task, so not yet present */
	READ_FIELD = 8, /* a structure's member points to it */
	READ_STORED = 16, /* mul0 points to a factor that the call stores */
	READ_STORED32 = 32, /* that factor has 4 bytes */
	READ_VALUE = 64, /* like READ_FIELD, but the structure is passed by value, in the words from `word` on */
	READ_ALWAYS = 128, /* also after failure */
};
enum { PIECE_OUT = 1, PIECE_FOLLOWS = 2, PIECE_SHORT = 4, PIECE_PARAMS = 8, PIECE_CALLER = 16 };
/* As in probe.Missing. */
enum { PRESENT = 0, OVER_LIMIT = 3, UNREADABLE = 4, NOT_SYNCHRONIZED = 5 };
enum {
	FUNC_RET_ERROR = 1,
	FUNC_RET_VOID = 2,
	FUNC_RET_32 = 4,
	FUNC_WAKE = 8,	 /* wake the reader at once */
	FUNC_OUTER = 16, /* composite: contains recorded calls */
	FUNC_CALLED = 32, /* callback of the program: word 0 is its address, the others are its arguments */
	FUNC_ITEMS = 64,  /* has arrays of buffers */
	FUNC_HOLD = 128,  /* launch: other calls usually follow soon */
};
enum { NO_MARK, MARK_OTHER, MARK_PHASE_ONE, MARK_BEGIN, MARK_END };
enum { ARGS_RESET = 1, ARGS_STORED = 2, ARGS_BUFFER = 4, ARGS_BUFFER_STORED = 8, ARGS_KERNEL = 16 };
enum { COUNT_RING_FULL = 0, COUNT_NO_THREAD = 1, COUNT_NO_PROCESS = 2, COUNT_SAMPLED = 3, COUNTERS = 4 };
enum { ALL = 0, PIDS = 1, CGROUP = 2 };
enum { LIVES = 1, LEADER_GONE = 2 };

/*
 * A reader describes memory to record, usually unit * word[mul0] * word[mul1] bytes at word[word]. With a pitch it has rows of
 * mul0 bytes.
 *
 * READ_FIELD: the pointer is at offset `at` in a structure. count_at is the offset of a factor. If the member at unless_at is not
 * 0, the pointer is no host memory.
 * KIND_ITEMS: mul0 is the number of items, and mul1 the array of their sizes.
 * KIND_IMAGE: a device binary, whose size is in its header.
 * KIND_PACKED: an argument block, described by a list of pairs. With READ_FIELD the list is at offset `at`.
 * KIND_BLOCK: the host end of a copy. The bytes from `side` on are the word numbers of its members in a structure.
 * KIND_PARAMS: an array of pointers to kernel parameters. The kernel's handle is word[mul0]; with READ_FIELD it is the member at
 * count_at or, if that is 0, the one at unless_at.
 * KIND_PAYLOAD without READ_FIELD: `at` is a bit set of values of word[count_width - 1]. With such a value the call declares that
 * the memory is host memory, at any address.
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
	u8 words, readers, flags, stack; /* stack: words on the stack */
	u8 args, args_how, buffer, buffer_len; /* words with an argument list and with memory that belongs to it; of MARK_PHASE_ONE: args has the executor's address */
	u8 refer, referred; /* register with a structure's address, NONE for none, and the structure's words */
	u8 before; /* readers for the entry, which come first */
	u8 block; /* 1: the first reader is an argument block */
	u8 plain; /* 1: the words are the registers and stack words in order */
	u8 pointers[2]; /* pointer words of the other entry readers, NONE: more than two */
	u8 mark; /* what the function marks, NO_MARK for a call */
	u8 place[MAX_WORDS]; /* register, or ARG_REGS + stack word, or REFERRED + word in the structure */
	u64 mask[MAX_WORDS]; /* significant bits */
	struct reader reader[MAX_READERS];
};

/* A short piece ends before addr. Its address is the parameter's word, and its length is `bytes`. */
struct piece {
	u8 param, flags, missing, item;
	u32 bytes; /* that follow, padded to 8 */
	u64 addr, len;
};
#define SHORT_PIECE 8

/* Precedes a thread's calls in the ring. */
struct head {
	u8 type, pad[7];
	u32 pid, tid;
	u64 lost, lost_from, lost_to; /* calls lost before these */
};

struct event {
	u16 func, bytes; /* bytes: data size */
	u32 seq; /* low half */
	u64 start, end, ret;
};

struct record {
	struct event event;
	union {
		u64 words[MAX_WORDS]; /* arguments, followed by pieces */
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

/* A phase or inner operator that has begun. executor: address of a phase one's executor, 0 for none */
struct open_mark {
	u64 sp, executor;
};

struct thread {
	u64 cookie, sp, mark; /* of the call in progress */
	u64 seq;	     /* of the next call */
	u32 active, used;    /* active: 0, CALLING, WAKING or LAUNCHING; used: data bytes */
	u32 skip;	     /* sampling skips the call */
	u32 follows;	     /* payloads come after the call */
	u32 held, calls;     /* bytes and number of held calls */
	u64 held_since, held_from; /* when the first of them ended and began */
	u64 within; /* the return address decides about calls below this stack pointer; 0: none */
	u64 marks;	     /* phases and inner operators that the thread is in */
	struct open_mark open[MARK_OPEN];
	u64 in[MAX_PLACES];  /* argument words by place; scratch after the entry */
	struct head head;
	u8 records[HELD + sizeof(struct record)]; /* held calls, then the call in progress */
};

struct thread_event {
	struct head head;
	u64 start;
	char comm[16];
};

/* A call inside another one that has no place for its record. */
struct inner_event {
	struct head head;
	u64 from, time; /* as from call_from; when it began */
};

struct args_key {
	u64 pid, handle;
};

/* The call that returned a kernel's handle to a process, and the handle that it was made from. */
struct given {
	u64 by, from;
};

/* A kernel's parameter sizes, from the reader. The key is the call that returned its handle, since handles are reused. */
struct layout {
	u16 count, size[MAX_PARAMS];
};

/*
 * A piece of KIND_PARAMS has the layout's key as its address, 0 for none. Its content is, for each parameter: 8 bytes with the
 * address; then 2 bytes with the number of bytes read, padded to 8 in total; then those bytes, each padded to 8. The upper half
 * of its length is the number of parameters, the lower half the number with content.
 */

/* Buffers of an argument list, which the program fills before the launch. */
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
_Static_assert(sizeof(struct inner_event) == 56, "an inner call");
_Static_assert(sizeof(struct part) == 64 + INLINE, "part");
_Static_assert(PARAMS_AT + sizeof(struct piece) + 10 * MAX_PARAMS <= DATA, "what tells of parameters fits the data");
_Static_assert(GUESSED * 10 + GUESSED_LARGE * GUESS_LARGE + (GUESSED - GUESSED_LARGE) * GUESS <= BUDGET, "guessed parameters have room");
_Static_assert(PART_AT + sizeof(struct part) <= DATA, "a part is put together in the data of its thread");

/* Sizes that depend on the model or on options are set before loading. */
ARRAY(functions, MAP_ARRAY, 1, struct function);
ARRAY(counts, MAP_PERCPU_ARRAY, 1, u64);
ARRAY(counters, MAP_PERCPU_ARRAY, COUNTERS, u64);
HASH(threads, 32768, u64, struct thread);
/* A thread's initial value: too large for the stack. */
ARRAY(blank, MAP_ARRAY, 1, struct thread);
HASH(pids, 65536, u32, u8);
/* New tasks of the processes in pids that have called nothing yet, by kernel address. */
HASH(newborn, 65536, u64, u8);
HASH(arguments, 4096, struct args_key, struct args);
HASH(kernels, 65536, struct args_key, struct given);
HASH(layouts, 65536, u64, struct layout);
/* RUNTIME or PROGRAM by process and page of code, from the reader. */
HASH(callers, 65536, struct args_key, u8);
ARRAY(cookie, MAP_PERCPU_ARRAY, 1, u64);

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 20);
} events SEC(".maps");

CONFIG u8 cookies;	/* the kernel has cookies */
CONFIG u8 filter;	/* processes to record: ALL, PIDS (the map pids), CGROUP (with descendants) */
CONFIG u8 by_name;	/* pids has the processes with the name `name` */
CONFIG u8 sample;	/* skip calls while the ring is more than half full */
CONFIG u32 cgroup_level;
CONFIG u64 cgroup;
CONFIG u64 name[2];
CONFIG u64 ring_size;
CONFIG u64 wake_at;	/* fill level that wakes the reader */
CONFIG u64 limit;	/* largest payload */
CONFIG u64 device_from, device_to;

/* Set while probes are attached or detached, one by one even with uprobe_multi: record nothing. */
volatile u8 shut;

/* Hides a value from the optimizer, so that the verifier sees its bounds check. */
#define opaque(x) __asm__ volatile("" : "+r"(x))

static inline void add_to(void *map, u32 key, u64 more)
{
	u64 *n = map_lookup(map, &key);
	/* Another program may run here while this one waits for a page. */
	if (n)
		__sync_fetch_and_add(n, more);
}

static inline void count(u32 what) { add_to(&counters, what, 1); }

static inline u64 cookie_of(struct pt_regs *ctx)
{
	u32 zero = 0;
	if (cookies)
		return attach_cookie(ctx);
	u64 *c = map_lookup(&cookie, &zero);
	return c ? *c : 0;
}

static inline u32 func_of(u64 cookie) { return (u16)cookie; }
static inline u64 layer_offset(u64 cookie) { return (u8)(cookie >> 24); } /* distance from the entry to the probe */

static inline void add_process(u32 pid)
{
	u8 lives = LIVES;
	if (map_update(&pids, &pid, &lives, 0))
		count(COUNT_NO_PROCESS);
}

/* Whether a process is in pids, or a new child of one that is. */
static inline u8 among(u64 id)
{
	u32 pid = id >> 32;
	u8 *state = map_lookup(&pids, &pid);
	if (state) {
		if (*state == LIVES || (u32)id != pid)
			return 1;
		/* A new first thread: another process has this number now. */
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

/* Waking the reader costs more than the record, so it is rare. The reader also polls. */
static inline u64 wake(u64 seq)
{
	if (seq % 16 != 0)
		return RINGBUF_NO_WAKEUP;
	return ringbuf_query(&events, RINGBUF_AVAILABLE) >= wake_at ? RINGBUF_FORCE_WAKEUP : RINGBUF_NO_WAKEUP;
}

/* Whether sampling skips a call: more often the fuller the ring is. */
static inline u8 left_out(u64 seq)
{
	u64 used = ringbuf_query(&events, RINGBUF_AVAILABLE);
	if (used < ring_size / 2)
		return 0;
	return seq % (used < ring_size / 4 * 3 ? 4 : used < ring_size / 8 * 7 ? 16 : 64) != 0;
}

/*
 * The memory is nearly always present, so the helper that waits for it, which costs more, comes second. In this file, `sleeps`
 * means that the program may wait. It is a constant and not a CONFIG, because newer kernels verify functions without the values
 * of variables.
 */
static inline long read_user(void *to, u32 size, u64 from, u8 sleeps)
{
	long failed = probe_read_user(to, size, (void *)from);
	return failed && sleeps ? copy_from_user(to, size, (void *)from) : failed;
}

struct small {
	u64 word[8];
};

/* Uses the stack, since the kernel checks copies to a map longer. Reads 64 bytes, so it fails if the rest is not mapped. */
static inline u8 read_small(struct small *to, u64 from)
{
	struct small s;
	if (probe_read_user(&s, sizeof s, (void *)from))
		return 0;
	*to = s;
	return 1;
}

/* Like bpf_probe_read_user_str, but faults pages in if that is allowed. */
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

/* The record for the thread's call in progress. */
static inline struct record *record_of(const struct thread *t)
{
	u64 at = t->held;
	opaque(at);
	if (at > HELD)
		at = HELD;
	return (struct record *)(t->records + at);
}

/* Sends the first bytes of a thread's records, with the gap before them. */
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
	add_to(&counters, why, calls);
	if (t->head.lost == 0)
		t->head.lost_from = from;
	t->head.lost += calls;
	t->head.lost_to = to;
}

/* Sends the held calls. */
static inline void flush(struct thread *t)
{
	if (!send(t, t->held, RINGBUF_NO_WAKEUP))
		lose(t, t->calls, COUNT_RING_FULL, t->held_from, t->held_since);
	t->held = t->calls = 0;
}

enum { CALLING = 1, WAKING = 2, LAUNCHING = 3 }; /* a plain call, one with FUNC_WAKE, one with FUNC_HOLD */
enum { GONE = 0, SENT = 1, WAITS = 2 };

/* Ends the call in progress. hold: it may be held. */
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

/* Ends a call that never returned. */
__attribute__((noinline)) int abandon(u64 place)
{
	struct thread *t = map_lookup(&threads, &place);
	if (!t)
		return 0;
	t->active = 0;
	record_of(t)->event.end = 0;
	record_of(t)->event.ret = UNSEEN;
	emit(t, 0);
	t->held = t->calls = 0;
	return 0;
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

/* Whether a payload with this length is sent in parts after its call. */
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

/* The length of a text including its end, at most INLINE. The text is copied to the free data of the record. */
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

/* A piece that is full ends with a 0 that is not in the text. */
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

enum { FOUND_ADDR, FOUND_LEN, FOUND_WIDTH, FOUND_PITCH, FOUND_PLANE, FOUND_ROWS, FOUND_TMP }; /* indexes in thread.in */

static inline u64 member(struct thread *t, u64 base, u8 at, u64 otherwise, u8 sleeps)
{
	if (at == NONE)
		return otherwise;
	return read_user(&t->in[FOUND_TMP], 8, base + 8 * (u64)at, sleeps) ? 0 : t->in[FOUND_TMP];
}

/* A device binary: a fat binary, with or without the wrapper structure that points to it, an ELF file, or text. */
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
		/* The headers are at the file's end. */
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

/* The argument block that a list of pairs describes. */
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

/* The host end of a copy. Gaps between planes are included. */
static inline u8 block(struct thread *t, const struct reader *r, u64 base, u8 sleeps)
{
	enum { HOST = 1, UNIFIED = 4 };
	u32 kind = (u32)member(t, base, r->side, 0, sleeps);
	if (kind != HOST && kind != UNIFIED)
		return ABSENT;
	/* Intermediate values are in the thread's memory, to save stack. */
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

/* Finds memory of the kinds that need more than argument words. */
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

/* Finds the address and length of a reader's memory. */
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
		/* If the structure is unreadable, its own piece says so. */
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

/* Adds a piece to the call's record, with its content if there is room. */
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
		/* The verifier of older kernels forgets the bounds of a value that was on the stack. */
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
				/* Counts the terminator, or a cut-off last byte: drop it in both cases. */
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

/* Adds the buffers of an argument list at its launch. */
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

/* Indexes in thread.in: the layout's key, and the position of its parameters in the record. */
enum { PARAMS_KEY = 7, PARAMS_BEGIN = 8, PARAMS_COUNT = 9, PARAMS_DONE = 10 };

/* Reads kernel parameter i. */
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
		/* The parameter may be smaller than guessed and at the end of mapped memory, or not exist. */
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
 * Reads kernel parameters through an array of pointers. The reader needs some milliseconds to find out a kernel's layout. Until
 * then it gets a maximum guess and cuts it.
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
		/* An array shorter than guessed may end at unmapped memory. */
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

static inline int capture_as(u64 place, u32 func, u32 i, u8 ok, u8 sleeps)
{
	struct thread *t = map_lookup(&threads, &place);
	const struct function *f = map_lookup(&functions, &func);
	if (!t || !f || i >= MAX_READERS)
		return 0;
	const struct reader *r = &f->reader[i];
	if ((((r->flags & (READ_OUT | READ_ALWAYS)) == READ_OUT || r->kind == KIND_PAYLOAD || r->kind == KIND_IMAGE || r->kind == KIND_BLOCK) && !ok) || r->kind == KIND_ITEMS)
		return 0;
	if (r->kind == KIND_BUFFERS) {
		put_buffers(t, r, sleeps);
		return 0;
	}
	if (r->kind == KIND_PARAMS) {
		put_params(place, t, r, sleeps);
		return 0;
	}
	u64 addr, len;
	u8 missing = locate(t, r, i, &addr, &len, sleeps);
	if (missing != ABSENT)
		put(t, r, addr, len, (u32)r->item << 8 | missing, sleeps);
	return 0;
}

/*
 * The verifier checks a function with only scalar arguments once, whatever the number of its calls. Inlined for each reader of
 * a function, older kernels would take too long.
 */
__attribute__((noinline)) int capture_now(u64 place, u32 func, u32 i, u32 ok) { return capture_as(place, func, i, (u8)ok, 0); }
__attribute__((noinline)) int capture_waiting(u64 place, u32 func, u32 i, u32 ok) { return capture_as(place, func, i, (u8)ok, 1); }

/* A fast path for the argument block, which nearly every launch has. It is the first piece after the words. */
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
	/* A short struct piece: parameter, flags and length. */
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

/* Updates the maps after a successful call that makes an argument list, adds memory to it, or returns a kernel. */
static inline void note_args(struct thread *t, const struct function *f, u8 sleeps)
{
	struct args_key k = {t->head.pid, word(t, f->args)};
	struct args none = {0};
	if (f->args_how & ARGS_KERNEL) {
		if (k.handle == 0 || read_user(&k.handle, 8, k.handle, sleeps))
			return;
		/* The same binary returns the same kernel again. If it was unloaded in between, the reader notices. */
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
	u64 addrs, sizes; /* arrays, for items */
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

/* A payload is one row, or several at a pitch. */
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

/* Prepares the parts of a payload. */
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
	/* A part ends with its row, so there may be more parts than the length suggests. */
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

/* Sends the next part from the thread's memory. */
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

/* Sends a payload after its call: one too large for the record, or the items of an array. */
static inline int payload_as(u64 place, u32 func, u32 i, u8 sleeps)
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
		if (sleeps && !(r->flags & READ_LATER) && limit != 0)
			loop(n < MAX_ITEMS ? (u32)n : MAX_ITEMS, one_item, &ps, 0);
		return 0;
	}
	if (r->kind != KIND_PAYLOAD && r->kind != KIND_BYTES && r->kind != KIND_IMAGE && !(sleeps && r->kind == KIND_BLOCK))
		return 0;
	if (locate(t, r, i, &ps.addr, &ps.len, sleeps) != PRESENT || !follows(r, ps.len, sleeps))
		return 0;
	if (sleeps) {
		rows(&ps);
		send_parts(&ps, r->item);
		return 0;
	}
	begin_parts(&ps, r->item);
	for (u32 n = 0; n < PARTS_NOW; n++)
		if (part_now(place, func, i, n))
			break;
	return 0;
}

__attribute__((noinline)) int payload_waiting(u64 place, u32 func, u32 i) { return payload_as(place, func, i, 1); }
__attribute__((noinline)) int payload_now(u64 place, u32 func, u32 i) { return payload_as(place, func, i, 0); }

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
	/* Wakes the reader, which reads about the process in /proc while it exists. */
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
		/* Words that the function does not have are overwritten later. */
		arg_regs(ctx, rec->words);
		for (u32 i = 0; i < ARG_REGS; i++)
			rec->words[i] &= f->mask[i];
		if (!f->stack)
			return;
		/* Most functions have at most two stack words. These use the stack, as in read_small. */
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

/* Whether readers other than the argument block may have memory to read at the entry. */
static inline u8 has_pointers(const struct function *f, const struct record *rec)
{
	if (f->before == f->block)
		return 0;
	return f->pointers[1] == NONE || rec->words[f->pointers[0] & (MAX_WORDS - 1)] || rec->words[f->pointers[1] & (MAX_WORDS - 1)];
}

enum { OVER = 0, INSIDE = 1, JUMPED = 2 };

/*
 * Where a call that begins now is, seen from the thread's call in progress: after its end, inside, or at its own place, to
 * which a wrapper has jumped.
 */
static inline u8 relation(struct pt_regs *ctx, const struct thread *t, u64 cookie)
{
	u64 sp = ctx->sp;
	if (!(t->cookie & UNHOOKED))
		return sp > t->sp || !call_lives(ctx, t->sp) ? OVER : sp == t->sp ? JUMPED : INSIDE;
	if (sp == t->sp)
		return func_of(cookie) == func_of(t->cookie) && (cookie ^ t->cookie) & IMPLEMENTATION ? JUMPED : OVER;
	return sp < t->sp && !(t->cookie & NO_END) && call_stands(t->sp, t->mark) ? INSIDE : OVER;
}

enum { RUNTIME = 1, PROGRAM = 2 };

/*
 * The return address of a call that begins. A callback may end in a jump to a function of the runtime, which then returns to the
 * runtime's code. That code has called the callback through a pointer. Functions for programs are not called so by the runtime.
 */
static inline u64 call_from(const struct pt_regs *ctx, u64 cookie)
{
	u64 from = return_address(ctx);
	return from % PAGE && cookie & PUBLIC && calls_pointer(from) ? from | BY_POINTER : from;
}

/* Who makes a call, 0 if the reader has not found out yet. An address at the start of a page is the kernel's, for return probes. */
static inline u8 caller(u64 id, u64 from)
{
	struct args_key k = {id >> 32, (from & ~BY_POINTER) / PAGE};
	if (from % PAGE == 0)
		return RUNTIME;
	const u8 *who = map_lookup(&callers, &k);
	return !who ? 0 : *who == RUNTIME && from & BY_POINTER ? PROGRAM : *who;
}

/* A wrapper has jumped to its implementation, where the end may be seen. */
static inline void go_on(struct thread *t, u64 cookie)
{
	if (t->cookie & UNHOOKED)
		t->cookie = cookie;
}

/* Reports a call inside another one, to be counted unless it is the runtime's. */
static inline void report_inner(u64 id, u64 from)
{
	struct inner_event n = {.head = {.type = EVENT_INNER, .pid = id >> 32, .tid = (u32)id}, .from = from, .time = ktime_ns()};
	if (ringbuf_output(&events, &n, sizeof n, RINGBUF_FORCE_WAKEUP))
		count(COUNT_RING_FULL);
}

/* Has the reader find out who makes a call. It drops the call if it is the runtime's. */
static inline void ask_caller(struct thread *t, u64 from)
{
	u64 off = t->used;
	opaque(off);
	if (off > DATA - sizeof(struct piece))
		return;
	*(struct piece *)(record_of(t)->data + off) = (struct piece){.param = NONE, .flags = PIECE_CALLER, .addr = from};
	t->used = (u32)(off + sizeof(struct piece));
}

enum { PART = 0, ALONE = 1, NESTED = 2 }; /* of another call, outermost, the program's inside another call */

/*
 * Looks at the thread's call in progress and ends it if it is over. Returns what the call that begins now is. from: its return
 * address, if it may be the runtime's.
 */
static inline u8 outermost(struct pt_regs *ctx, u64 id, struct thread *base, u64 c, u64 *from)
{
	u8 at = OVER;
	if (base->active) {
		at = relation(ctx, base, c);
		if (at == JUMPED) {
			go_on(base, c);
			return PART;
		}
		if (at == OVER) {
			if (base->cookie & NO_END)
				base->within = base->sp;
			abandon(id);
		}
	}
	if (ctx->sp >= base->within)
		base->within = 0;
	if (at == OVER && !base->within)
		return ALONE;
	*from = call_from(ctx, c);
	u8 who = caller(id, *from);
	if (who == PROGRAM)
		*from = 0;
	return who == RUNTIME ? PART : at == OVER ? ALONE : NESTED;
}

/*
 * Whether a mark is entered from its own library: such calls are no boundaries. The upper half of a mark's cookie has the number of
 * pages of the library's code before the probe's page, and after it.
 */
static inline u8 from_inside(const struct pt_regs *ctx, u64 cookie)
{
	u64 page = program_counter(ctx) / PAGE, from = return_address(ctx) / PAGE;
	return from + (u16)(cookie >> 32) >= page && from <= page + (cookie >> 48);
}

/* A phase whose caller's frame is below this one was left by a longjmp, and so was one with the same frame and executor. */
static inline void phase_begins(struct thread *t, u64 sp, u64 executor)
{
	u64 n = t->marks;
	for (u32 i = 0; i < MARK_OPEN; i++) {
		if (n == 0 || n > MARK_OPEN)
			break;
		const struct open_mark *last = &t->open[(n - 1) & (MARK_OPEN - 1)];
		if (last->sp > sp || (last->sp == sp && (executor == 0 || last->executor != executor)))
			break;
		n--;
	}
	if (n < MARK_OPEN)
		t->open[n & (MARK_OPEN - 1)] = (struct open_mark){sp, executor};
	t->marks = n + 1;
}

/* Ends a phase, and those inside it that were left by a longjmp, as in probe/shim/bind/mark.c. Returns the address of the executor, 0 for none. */
static inline u64 phase_ends(struct thread *t, u64 sp)
{
	u64 n = t->marks;
	if (n == 0)
		return 0;
	if (n > MARK_OPEN) {
		t->marks = n - 1;
		return 0;
	}
	for (u32 i = 0; i < MARK_OPEN; i++) {
		if (n == 0 || t->open[(n - 1) & (MARK_OPEN - 1)].sp >= sp)
			break;
		n--;
	}
	if (n == t->marks || (n > 0 && t->open[(n - 1) & (MARK_OPEN - 1)].sp == sp))
		n--;
	t->marks = n;
	return t->open[n & (MARK_OPEN - 1)].executor;
}

/* Follows the thread's phases. The end of a phase one records the executor that it has made. */
static inline void follow_phases(struct thread *base, struct record *rec, const struct function *f, u64 sp, u8 sleeps)
{
	if (f->mark == MARK_END) {
		u64 executor = 0, at = phase_ends(base, sp);
		if (at && read_user(&executor, sizeof executor, at, sleeps))
			executor = 0;
		rec->words[0] = executor;
	} else if (f->mark != MARK_OTHER) {
		phase_begins(base, sp, f->mark == MARK_PHASE_ONE ? rec->words[f->args & (MAX_WORDS - 1)] : 0);
	}
}

static inline int entered(struct pt_regs *ctx, u8 sleeps)
{
	if (shut)
		return 0;
	u64 id = current_pid_tgid();
	struct thread *base = map_lookup(&threads, &id);
	/* A thread with a place was selected before. */
	if (!base && !wanted(id))
		return 0;
	u64 c = cookie_of(ctx);
	u32 func = func_of(c);
	const struct function *f = map_lookup(&functions, &func);
	if (!f || (f->mark && from_inside(ctx, c)))
		return 0;
	if (!base && !(base = new_thread(id))) {
		count(COUNT_NO_THREAD);
		return 0;
	}
	struct thread *t = base;
	u64 place = id, from = 0;
	u8 as = f->flags & FUNC_CALLED ? ALONE : outermost(ctx, id, base, c, &from);
	if (as == PART)
		return 0;
	if (as == NESTED || f->flags & FUNC_OUTER) {
		place |= OUTER;
		t = map_lookup(&threads, &place);
		if (!t && !(t = new_place(place))) {
			count(COUNT_NO_THREAD);
			return 0;
		}
		if (t->active) {
			u8 at = relation(ctx, t, c);
			if (at == JUMPED)
				go_on(t, c);
			else if (at == INSIDE && as == NESTED)
				report_inner(id, call_from(ctx, c));
			if (at != OVER)
				return 0;
			abandon(place);
		}
	}
	t->cookie = c;
	t->sp = ctx->sp;
	t->mark = c & UNHOOKED ? return_address(ctx) : 0;
	if (t->calls && !(f->flags & FUNC_HOLD))
		flush(t);
	struct record *rec = record_of(t);
	rec->event.func = func;
	rec->event.seq = (u32)base->seq++;
	rec->event.end = 0;
	rec->event.ret = c & NO_END ? UNSEEN : 0;
	t->active = f->flags & FUNC_WAKE || from ? WAKING : f->flags & FUNC_HOLD && place == id ? LAUNCHING : CALLING;
	t->skip = sample && left_out(rec->event.seq);
	t->follows = 0;
	if (!t->skip || f->mark)
		read_args(ctx, t, rec, f, sleeps);
	if (f->mark)
		follow_phases(base, rec, f, ctx->sp, sleeps);
	if (!t->skip) {
		if (sleeps && f->block)
			capture_block(t, rec, f);
		if (!sleeps || has_pointers(f, rec))
			capture(place, func, sleeps ? f->block : 0, f->before, 1, sleeps);
		if (from)
			ask_caller(t, from);
	}
	rec->event.start = ktime_ns();
	if (f->mark) {
		rec->event.end = rec->event.start;
		if (emit(t, t->active == LAUNCHING) != WAITS)
			t->held = t->calls = 0;
		t->active = 0;
	}
	return 0;
}

/*
 * Whether the thread's call in progress returns. For a launch the stack pointer is enough and saves time: a launch never waits,
 * so no program leaves one by longjmp and enters another call at the same place.
 */
static inline u8 ends(struct pt_regs *ctx, const struct thread *t)
{
	if (!t->active)
		return 0;
	if (t->active == LAUNCHING)
		return ctx->sp == t->sp + RETURN_POPS;
	u64 c = cookie_of(ctx);
	return ctx->sp == t->sp + (c & AT_RETURN ? 0 : RETURN_POPS) && (c & ~(u64)AT_RETURN) == t->cookie;
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
	u8 how = emit(t, t->active == LAUNCHING && !later);
	t->active = 0;
	if (later && how == SENT)
		for (u32 i = 0; i < MAX_READERS && i < f->readers; i++) {
			if (sleeps)
				payload_waiting(id, func, i);
			else
				payload_now(id, func, i);
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

/* For kernels with bpf_loop and sleepable programs. These also send data that is too large for a call's record. */
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

/* Only counts each function's calls. */
SEC("uprobe")
int tally(struct pt_regs *ctx)
{
	if (wanted(current_pid_tgid()))
		add_to(&counts, func_of(cookie_of(ctx)), 1);
	return 0;
}

/* Ends a thread, at exit or exec. If the ring is full its records stay, and the reader collects them at the end. */
static inline void forget(u64 id)
{
	struct thread *t = map_lookup(&threads, &id);
	if (!t)
		return;
	if (t->active && t->skip) {
		emit(t, 0); /* after the held calls */
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
