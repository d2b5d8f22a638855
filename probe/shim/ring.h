/*
 * The shared memory between the shim and the recorder. probe/ring.go declares the same layout; both sides assert it.
 *
 * A session is a folder on a tmpfs. The recorder makes `control` in it; every thread that calls the runtime takes a slot
 * of it and makes `ring.N`, allocated in full, or takes a ring that was made ahead for it (filter.c). A ring is a header page and a power of two of bytes, which both sides map
 * twice in a row, so that no record is ever split. The thread alone moves head, the recorder alone moves tail; both only
 * grow. A record begins at a multiple of 8.
 *
 * Parts of large payloads lie in the arena, a file of chunks that all processes of the session share: whoever clears a
 * chunk's bit in the map of free ones owns it, fills it and names it in a record; the recorder sets the bit again when it
 * has read it. So a payload is copied once, at the speed of memory, and rings may be small.
 *
 * A call is written in two phases. Its entry is complete, and head has moved past it, before the runtime is called:
 * whoever looks at the ring of a dead process finds the call that it died in. Its result follows in the same record,
 * which may grow by what the call has put out; the state that ends it is stored last. The recorder does not pass a
 * record before that.
 *
 * A call that encloses others is two call records, which are both complete at once: BEGIN, whose end and result mean
 * nothing, and END, with what the call has put out, and without words. A thread is in one such call at a time; one
 * without an END never returned.
 */
#ifndef ACLTRACE_SHIM_RING_H
#define ACLTRACE_SHIM_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC 0x31474e4952544c41ULL /* "ALTRING1" */
#define RING_VERSION 5
#define RING_HEADER 4096 /* bytes before the records */
#define RING_MAX_SLOTS 4096
#define CONTROL_QUIET 132 /* where in the control it lies */
#define PASSED_NAMES 1024 /* in the file `passed` */
#define PROCESS_BYTES 16384 /* of a file `process.N` */
#define ARENA_CHUNK (1024 * 1024) /* bytes */
#define ARENA_WORDS 64 /* of the map of free chunks: at most 4096 */
#define RECORDING_TICKS 16 /* of the clock: 20 s of a counter of 3 GHz fit into 32 bits */
#define RING_INLINE 4096 /* pieces up to this size lie in the record of their call */

enum { POLICY_DROP = 0, POLICY_BLOCK = 1 };
/* CLOCK_RUNTIME is that of a simulator in virtual time (aclsim_now), nanoseconds from 0. */
enum { CLOCK_COUNTER = 0, CLOCK_SYSCALL = 1, CLOCK_RUNTIME = 2 };
/* GIVEN: back, by the recorder, when the process was gone. DEAD: there is no ring. READY: there is one, for the next thread of its process. */
enum { SLOT_FREE = 0, SLOT_TAKEN = 1, SLOT_LIVE = 2, SLOT_GIVEN = 3, SLOT_DEAD = 4, SLOT_READY = 5 };
enum { REC_CALL = 1, REC_PAYLOAD = 2, REC_LOST = 3, REC_PAD = 4, REC_BEGIN = 5, REC_END = 6, REC_TIME = 7 };
/* ABANDONED: the program left the call by a longjmp or an exception; it never returned. */
enum { STATE_ENTERED = 1, STATE_DONE = 2, STATE_ABANDONED = 3 };
enum { PASSED_FREE = 0, PASSED_BUSY = 1, PASSED_NAMED = 2 };
/* EARLY: of a payload, that the copy may read the memory later and find it changed; of a result, that a later copy to the same
 * memory may have replaced it. */
enum { PIECE_OUT = 1, PIECE_BYTES = 2, PIECE_FAR = 4, PIECE_EARLY = 8 };

/* Why a task was not measured, as in probe.Untimed: all pairs of events are in use, a stream is captured, there is no room in the
 * ring, the runtime has refused. */
enum untimed { UNTIMED_POOL = 0, UNTIMED_CAPTURE = 1, UNTIMED_LOST = 2, UNTIMED_FAILED = 3 };

/* Numbers of pieces that belong to no parameter of the call. */
enum {
	MEMORY_PARAM = 248, /* memory that the program and the device access without a call */
	TIME_PARAM = 250,   /* the device's time of the task, which follows later */
	MAPS_PARAM = 252,   /* the mappings of the process */
	STACK_PARAM = 253,  /* the stack that the call was made from */
	TASK_PARAM = 254,   /* ids of the task that the call has made */
	RET_PARAM = 255     /* the returned value */
};

/* As in probe.Missing. */
enum {
	MISSING_NO = 0,
	MISSING_DEVICE = 1,
	MISSING_DROPPED = 2,
	MISSING_OVER_LIMIT = 3,
	MISSING_UNREADABLE = 4,
	MISSING_NOT_SYNCHRONIZED = 5,
	MISSING_OVERWRITTEN = 6,
	MISSING_TABLE_FULL = 7,
	MISSING_UNKNOWN_SIZE = 8,
	MISSING_NOT_ASKED = 9,
	MISSING_HASHED = 10, /* the bytes are the two words of its XXH3-128 */
	MISSING_FREED = 11,
	MISSING_UNREGISTERED = 12,
	MISSING_DETACHED = 13, /* nothing was recorded for a time between the call and the program's wait for it */
	MISSING_FILTERED = 14 /* it takes a system call to read it, and the program has a filter for these */
};

/* Which processes of the session record nothing for now: no process, all, those whose slots say so. */
enum { QUIET_NO = 0, QUIET_ALL = 1, QUIET_SOME = 2 };
enum { OFF_NO = 0, OFF_ENDED = 1, OFF_WAITING = 2 };

struct slot {
	uint32_t state; /* atomic */
	uint32_t pid, tid, ppid;
	uint64_t ring_bytes;
	uint64_t start; /* clock of the records */
	uint32_t generation; /* atomic; the threads that have had the ring before this one */
	uint32_t off; /* atomic, the recorder's; the thread records nothing for now */
	uint32_t process; /* 1 + N of its file `process.N` */
	char name[16]; /* of the thread, when it took the slot */
	uint32_t range; /* 1 + that of its ring in the file `pool.N` of its process, 0 for a file of its own */
};

/* The file `process.N`, in which a process says who it is: see process.c. */
struct process {
	uint32_t pid, ppid; /* as the process itself knows them */
	uint64_t pid_namespace; /* in which these are */
	uint64_t start; /* clock of the records */
	uint64_t program; /* a hash of its file and its script */
	uint32_t ready; /* atomic; 1: all but ended and code is there */
	uint32_t ended; /* atomic; 1: it has ended of its own will */
	uint32_t untraced; /* 1: the guard has kept it from being recorded */
	uint32_t exe, args, variables, libraries; /* bytes of text, one after the other; each has parts that end with a 0 */
	uint32_t code; /* atomic; 1 + that of exit, 0 where it is not known */
	uint32_t forked_from; /* 1 + N of the process that it was forked from after a recorded call of that; 0 for none */
	uint32_t filtered; /* atomic; 1: the program has a filter of system calls, and the shim makes none */
	uint32_t filters; /* 1 + the number of filters of system calls that it had from the first, as in a container; 0 where that is not known */
	uint32_t pad;
	char text[PROCESS_BYTES - 80];
};

struct control {
	uint64_t magic;
	uint32_t version;
	uint32_t policy;
	uint64_t heartbeat; /* atomic; CLOCK_MONOTONIC, nanoseconds, of the recorder's last sign of life */
	uint64_t ring_bytes; /* a power of two, at least 64 KiB */
	uint64_t payload_limit; /* bytes; larger payloads are not captured */
	uint64_t memory_limit; /* bytes of rings in the session */
	uint64_t memory_used; /* atomic */
	uint64_t device_from, device_to; /* addresses of device memory */
	uint32_t clock;
	uint32_t off; /* atomic; OFF_*: for threads that have no ring yet */
	uint32_t next_slot; /* atomic; may run past max_slots */
	uint32_t refused; /* atomic; threads that got no ring */
	uint32_t max_slots;
	uint32_t next_process; /* atomic */
	uint32_t task_ids; /* 1: ask the runtime for the ids of each task */
	uint32_t arena_chunks; /* in the file `arena`, 0 for none */
	uint64_t payload_least; /* bytes; smaller payloads are not captured */
	uint32_t stack_frames; /* to keep of each call's stack, 0 for none */
	uint32_t cost; /* of recording one launch, in ticks of the clock; 0 until a process has measured it */
	uint32_t time_every; /* tasks, of which one is measured by the device's clock; 0 for none */
	uint32_t time_gap; /* ticks of the clock between two measured tasks of a thread, at least */
	uint32_t only; /* atomic; process that records while the others wait, 0 for none */
	uint32_t quiet; /* atomic; QUIET_* */
	uint64_t handed; /* the recorder's: calls that have been taken out of the rings */
	uint64_t functions; /* checksum of the model: what the numbers of functions mean */
	uint32_t stranger; /* atomic; a process whose shim is of another build, and so records nothing; in this place in all versions */
	uint32_t reaped; /* the recorder's: the processes up to this number have ended, and left nothing that is not in the trace */
	uint32_t resumed; /* atomic; how often recording has begun again */
	uint32_t shut_out; /* atomic; threads and children that got no ring, since their program has a filter of system calls */
	uint64_t visible_limit; /* bytes of memory that programs and devices access without a call, up to which its content is kept; 0: none */
	uint32_t offered; /* atomic, the recorder's; how many rings it has made READY */
	uint32_t filtered; /* atomic; processes that have set a filter of system calls */
	uint32_t reserved[2];
	uint64_t arena_free[ARENA_WORDS]; /* atomic; a bit for each free chunk */
	struct slot slots[RING_MAX_SLOTS];
};

struct ring {
	uint64_t head; /* atomic; bytes ever written */
	uint64_t lost; /* atomic; calls not recorded because the ring was full */
	uint64_t lost_since, lost_until; /* clock of the records */
	uint64_t seq; /* of the next call, for the thread that has the ring after this one */
	uint64_t untimed[4]; /* atomic; tasks that were to be measured and were not, by enum untimed */
	uint64_t recording; /* ticks of the clock that payloads have taken the thread since the last record of one */
	uint64_t nested, nested_since; /* atomic; the program's calls inside other calls that no record tells of yet; clock of the first */
	uint64_t pad0[4];
	uint64_t tail; /* atomic; bytes ever read */
	/* The recorder's, for the one after it: how many calls lie before a place, and how many of them were lost. One of the two is of tail. */
	struct { uint64_t pos, seq, lost; } mark[2];
	uint64_t given_up; /* atomic, the recorder's: nothing of it is read any more */
	uint64_t pad1[8];
};

struct record {
	uint32_t size; /* with this header; multiple of 8 */
	uint16_t func;
	uint8_t type;
	uint8_t state; /* atomic */
};

struct call_record {
	struct record h;
	uint64_t start, end; /* clock */
	uint64_t ret;
	uint8_t words, pad[7];
	/* uint64_t word[words]; then pieces */
};

struct piece {
	uint8_t param;
	uint8_t flags;
	uint8_t missing;
	uint8_t pad;
	uint32_t len; /* bytes that follow, padded to 8, with PIECE_BYTES */
	/* with PIECE_FAR: struct far; without, the address is the parameter's word and len the size */
};

struct far {
	uint64_t addr, len;
	uint32_t item, pad;
};

struct payload_record {
	struct record h;
	uint32_t slot; /* of the thread that made the call */
	uint8_t param, flags, missing, pad;
	uint64_t seq; /* of the call in that thread, lost ones counted */
	uint64_t addr, len, offset;
	uint64_t time; /* clock */
	uint32_t item;
	uint32_t bytes; /* that follow, padded to 8, or that lie in the chunk */
	uint32_t chunk; /* 1 + its number, 0: the bytes follow */
	/* The thread's time that went into payloads since the payload record before: RECORDING_TICKS of the clock each. */
	uint32_t recording;
};

enum { LOST_NO_ROOM = 0, LOST_NESTED = 1 };
struct lost_record {
	struct record h; /* func: why */
	uint64_t calls, since, until;
};

/* What the device's clock says of the two events around a task. */
struct time_record {
	struct record h;
	uint32_t slot; /* of the thread that made the call */
	int32_t device; /* 1 + its number, 0 unknown */
	uint64_t seq; /* of the call in that thread, lost ones counted */
	uint64_t stream;
	uint64_t issued, closed; /* clock, before the first event was asked for, and before the second was */
	uint64_t seen; /* clock, when both were known to be complete */
	uint64_t from, to; /* microseconds of the device's clock, of the two events */
	float elapsed; /* milliseconds between them */
	uint32_t pad;
};

/* Calls, or requests by dlsym, of a function that the shim does not wrap: a hash table in the file `passed`. */
struct passed {
	uint64_t count; /* atomic */
	uint32_t state; /* atomic */
	char name[52]; /* cut where it is longer */
};

_Static_assert(sizeof(struct passed) == 64, "passed");
_Static_assert(sizeof(struct slot) == 64, "slot");
_Static_assert(sizeof(struct process) == PROCESS_BYTES, "process");
_Static_assert(sizeof(struct control) == 192 + 8 * ARENA_WORDS + 64 * RING_MAX_SLOTS, "control");
_Static_assert(offsetof(struct control, quiet) == CONTROL_QUIET, "quiet");
_Static_assert(offsetof(struct control, stranger) == 152, "stranger");
_Static_assert(sizeof(struct ring) == 256, "ring");
_Static_assert(sizeof(struct call_record) == 40, "call_record");
_Static_assert(sizeof(struct piece) == 8, "piece");
_Static_assert(sizeof(struct far) == 24, "far");
_Static_assert(sizeof(struct payload_record) == 72, "payload_record");
_Static_assert(sizeof(struct lost_record) == 32, "lost_record");
_Static_assert(sizeof(struct time_record) == 80, "time_record");

#endif
