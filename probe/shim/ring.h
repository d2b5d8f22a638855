/*
 * The shared memory between the shim and the recorder. Package probe/ring declares the same layout. Both sides assert the sizes.
 *
 * A session is a folder on a tmpfs. The recorder makes the file `control`. Each thread that calls the runtime takes a slot in it, and makes a file
 * `ring.N`, allocated in full, or takes a ring that was made in advance (session/pool.h). A ring is a header page and a power of two of bytes. Both
 * sides map the bytes twice in a row, so that no record is split. Only the thread moves head, only the recorder moves tail, and both only grow. A
 * record begins at a multiple of 8.
 *
 * Large payloads go to the arena, a file of chunks that all processes of the session share. A thread takes a chunk by clearing its bit in
 * arena_free, fills it, and names it in a record. The recorder reads it and sets the bit again. So a payload is copied once, at the speed of
 * memory, and rings may be small.
 *
 * The first record of a thread in a ring is OWNER. When the thread has ended, a later one of the process may take over the ring, also with records that
 * the recorder has not read. It claims the ring by a change of slot.holder, and publishes its OWNER. All calls from there on are its own. So a
 * process that dies in between leaves a ring of the earlier thread.
 *
 * If memory is short, new rings are smaller (session/slot.c). A thread without a ring is not recorded: it counts its calls in `process.N`, or in
 * `control` if the process could not make that file.
 *
 * A call is written in two phases. Before the runtime is called, its entry is complete and head has moved past it. So a dead process's ring
 * shows the call in which it died. The result follows in the same record, which may grow by outputs. The final state is stored last. The recorder
 * does not pass a record before that, unless head is past it: then its thread has ended in the call.
 *
 * A call that encloses others has two records, each complete at once. BEGIN has the words, and no valid end or result. END has the outputs, and no
 * words. A thread is in one such call at a time. A call without END never returned.
 */
#ifndef ACLTRACE_SHIM_RING_H
#define ACLTRACE_SHIM_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC 0x31474e4952544c41ULL /* "ALTRING1" */
#define RING_VERSION 13
#define RING_HEADER 4096 /* bytes before the records */
#define RING_LEAST (64 * 1024) /* bytes of the smallest ring */
#define RING_MAX_SLOTS 4096
#define CONTROL_QUIET 132 /* offset of control.quiet */
#define PASSED_NAMES 1024 /* entries in the file `passed` */
#define PROCESS_BYTES 16384 /* size of a file `process.N` */
#define ARENA_CHUNK (1024 * 1024) /* bytes */
#define ARENA_WORDS 64 /* in the map of free chunks: at most 4096 chunks */
#define RECORDING_TICKS 16 /* ticks of the clock in a unit: 20 s at 3 GHz fit into 32 bits */
#define BLOCKED_UNIT 64 /* nanoseconds */
#define GAP_NS 50000 /* control.gap in nanoseconds */
#define RING_INLINE 4096 /* larger pieces are not in their call's record */

enum { POLICY_DROP = 0, POLICY_BLOCK = 1 };
/* CLOCK_RUNTIME is a simulator's virtual time (aclsim_now), in nanoseconds from 0. */
enum { CLOCK_COUNTER = 0, CLOCK_SYSCALL = 1, CLOCK_RUNTIME = 2 };
/* GIVEN: given back, by the recorder after the process ended, or without a ring. READY: has a ring for the process's next thread. */
enum { SLOT_FREE = 0, SLOT_TAKEN = 1, SLOT_LIVE = 2, SLOT_GIVEN = 3, SLOT_READY = 4 };
/* Why a thread has no ring: memory of the session, memory of the process's cgroup, limits of the process, slots, its files can't be made. */
enum refusal { REFUSED_MEMORY = 0, REFUSED_CGROUP = 1, REFUSED_LIMIT = 2, REFUSED_SLOTS = 3, REFUSED_FILES = 4, REFUSALS = 5 };
enum { REC_CALL = 1, REC_PAYLOAD = 2, REC_LOST = 3, REC_PAD = 4, REC_BEGIN = 5, REC_END = 6, REC_TIME = 7, REC_OWNER = 8 };
/* ABANDONED: the program left the call by a longjmp or an exception; it never returned. */
enum { STATE_ENTERED = 1, STATE_DONE = 2, STATE_ABANDONED = 3 };
enum { PASSED_FREE = 0, PASSED_BUSY = 1, PASSED_NAMED = 2 };
/* SHAPES: also descriptions that the runtime does not want. */
enum operators { OPERATORS_NAMES = 0, OPERATORS_NONE = 1, OPERATORS_SHAPES = 2, OPERATORS_ALL = 3 };
/* EARLY: for a payload, the copy may read the memory later, after a change; for a result, a later copy to the same memory may have replaced it. */
enum { PIECE_OUT = 1, PIECE_BYTES = 2, PIECE_FAR = 4, PIECE_EARLY = 8 };

/* Why a task was not measured, as in probe.Untimed: all event pairs in use, a stream under capture, no room in the ring, a runtime error. */
enum untimed { UNTIMED_POOL = 0, UNTIMED_CAPTURE = 1, UNTIMED_LOST = 2, UNTIMED_FAILED = 3 };

/* Numbers for pieces that belong to no parameter. */
enum {
	MEMORY_PARAM = 248, /* memory that the program and the device access without a call */
	TIME_PARAM = 250,   /* the task's time by the device's clock, which follows later */
	MAPS_PARAM = 252,   /* the mappings of the process */
	STACK_PARAM = 253,  /* the stack that the call was made from */
	TASK_PARAM = 254,   /* ids for the task that the call has made */
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
	MISSING_HASHED = 10, /* the bytes are the two words of the XXH3-128 */
	MISSING_FREED = 11,
	MISSING_UNREGISTERED = 12,
	MISSING_DETACHED = 13, /* recording was off for a time between the call and the program's wait for it */
	MISSING_FILTERED = 14 /* reading it takes a system call, and the program filters those */
};

/* Processes that record nothing for now: none, all, or those whose slots are off. */
enum { QUIET_NO = 0, QUIET_ALL = 1, QUIET_SOME = 2 };
enum { OFF_NO = 0, OFF_ENDED = 1, OFF_WAITING = 2 };

/* How many threads have had a slot, and the id of the last one, or 0 if nobody can find out by it whether the thread has ended. */
#define HOLDER(generation, tid) ((uint64_t)(generation) << 32 | (tid))

struct slot {
	uint32_t state; /* atomic */
	uint32_t pid;
	uint64_t holder; /* atomic; HOLDER() of the thread that has the ring */
	uint64_t ring_bytes; /* a power of two, at least RING_LEAST */
	uint64_t start; /* clock of the records */
	uint32_t ppid;
	uint32_t off; /* atomic, set by the recorder; the thread records nothing for now */
	uint32_t process; /* 1 + N of its file `process.N` */
	uint32_t range; /* 1 + index of its ring in the process's file `pool.N`, 0: the ring has a file of its own */
	uint32_t reserved[4];
};

/* The file `process.N`: see session/process.c. */
struct process {
	uint32_t pid, ppid; /* in its own pid namespace */
	uint64_t pid_namespace; /* inode */
	uint64_t start; /* clock of the records */
	uint64_t program; /* hash of its file and its script */
	uint32_t ready; /* atomic; 1: all fields are set, except ended and code */
	uint32_t ended; /* atomic; 1: ended by itself */
	uint32_t untraced; /* 1: not recorded, by the crash guard */
	uint32_t exe, args, variables, libraries; /* bytes in text, one after the other; each has parts that end with a 0. libraries may grow */
	uint32_t code; /* atomic; 1 + exit code, 0: unknown */
	uint32_t forked_from; /* 1 + N of its parent, if a call was recorded there before the fork; 0: none */
	uint32_t filtered; /* atomic; 1: the program filters its system calls, so the shim makes none */
	uint32_t filters; /* 1 + number of seccomp filters that it had from the start, as in a container; 0: unknown */
	uint32_t unfiltered; /* atomic; 1: the recorder has looked for filters and found no new one */
	uint64_t unrecorded; /* atomic; calls of its threads without a ring that the recorder has not taken yet */
	int64_t began; /* set by the recorder: start in nanoseconds of CLOCK_MONOTONIC, 0: not yet */
	char text[PROCESS_BYTES - 96];
};

struct control {
	uint64_t magic;
	uint32_t version;
	uint32_t policy;
	uint64_t heartbeat; /* atomic; the recorder's last sign of life, CLOCK_MONOTONIC in nanoseconds */
	struct { /* memory */
		uint64_t ring_bytes; /* of the largest ring; a power of two, at least RING_LEAST */
		uint64_t payload_limit; /* bytes; larger payloads are not captured */
		uint64_t memory_limit; /* bytes for all rings in the session */
		uint64_t memory_used; /* atomic */
		uint64_t device_from, device_to; /* addresses of device memory */
	};
	uint32_t clock;
	uint32_t off; /* atomic; OFF_*: for threads that have no ring yet */
	struct { /* members */
		uint32_t next_slot; /* atomic; may run past max_slots */
		uint32_t max_slots;
		uint32_t next_process; /* atomic; the files with smaller numbers were made */
		uint32_t unused;
	};
	struct { /* choices */
		uint32_t task_ids; /* 1: ask the runtime for each task's ids */
		uint32_t arena_chunks; /* in the file `arena`, 0 for none */
		uint64_t payload_least; /* bytes; smaller payloads are not captured */
		uint32_t stack_frames; /* frames to record in each call's stack, 0: none */
		uint32_t cost; /* ticks of the clock for recording one launch; 0 until a process has measured it */
		uint32_t time_every; /* one task in so many is measured by the device's clock; 0: none */
		uint32_t time_gap; /* least ticks of the clock between two measured tasks of a thread */
	};
	uint32_t only; /* atomic; pid of the process that records while the others wait, 0: none */
	uint32_t quiet; /* atomic; QUIET_* */
	uint64_t handed; /* set by the recorder: calls read from rings that were given back; the marks count the others */
	uint64_t functions; /* checksum of the model, which defines the functions' numbers */
	uint32_t stranger; /* atomic; pid of a process whose shim is from another build and records nothing; at this offset in all versions */
	uint32_t reaped; /* set by the recorder: the processes up to this number have ended, and all their calls are in the trace */
	uint32_t resumed; /* atomic; how often recording has begun again */
	uint32_t shut_out; /* atomic; threads and children without a ring, since their program filters its system calls */
	uint64_t visible_limit; /* bytes of managed and registered memory whose content is recorded; 0: none */
	uint32_t offered; /* atomic, set by the recorder; how many rings it has made READY */
	uint32_t filtered; /* atomic; processes that have set a filter */
	uint32_t gap; /* ticks of the clock; a longer time between two calls of a thread is divided into running and waiting */
	uint32_t operators; /* enum operators */
	/* Not in the line that every call reads. */
	uint64_t unrecorded; /* atomic; as in struct process, for processes without a file */
	uint32_t refused[REFUSALS]; /* atomic; threads that got no ring, by enum refusal */
	uint32_t unused2;
	struct { uint64_t counter; int64_t ns; double rate; } reading; /* set by the recorder: how it reads the clock, for one that takes over */
	uint64_t unused3;
	uint64_t arena_free[ARENA_WORDS]; /* atomic; a bit for each free chunk */
	struct slot slots[RING_MAX_SLOTS];
};

struct ring {
	uint64_t head; /* atomic; bytes ever written */
	uint64_t lost; /* atomic; calls that had no room */
	uint64_t lost_since, lost_until; /* clock of the records */
	uint64_t seq; /* number of the next call, also for the next thread that has the ring */
	uint64_t untimed[4]; /* atomic; tasks that could not be measured, by enum untimed */
	uint64_t recording; /* ticks of the clock that the thread has spent on payloads since the last payload record */
	uint64_t nested, nested_since; /* atomic; lost calls inside other calls that are not reported yet; clock of the first */
	uint64_t read, cpu, sleeps; /* of the thread: clock, processor time in nanoseconds, and how often it had slept, when these were read last; 0: never */
	uint64_t stack_end; /* of the thread, 0: unknown; see record/stack.c */
	uint64_t tail; /* atomic; bytes ever read */
	uint64_t given_up; /* atomic, set by the recorder: the ring is not read any more */
	/*
	 * For the recorder that takes over from this one: a position, how many calls are before it, how many lost ones were reported, and the ring's
	 * owner there. The recorder stores a mark before it passes a call on, so a call is in the trace only if a mark has it. mark[marked % 2] and
	 * owner[marked / 2] are whole; the others may be half written.
	 */
	struct { uint32_t tid, generation; char name[16]; } owner[2];
	struct { uint64_t pos, seq, lost; } mark[2];
	uint64_t marked;
	uint64_t ahead; /* lost calls that were reported before a record had them */
	uint32_t marks; /* operators and phases that the thread is in: see bind/mark.c */
	uint32_t keeps; /* 1 + control.resumed when the shim said that it wants descriptions of operators, 0: the runtime answers. See record/kept.h */
	uint64_t in_payload; /* atomic; 1: the thread records a payload: see diedInShim in probe/ring */
};

struct record {
	uint32_t size; /* bytes with this header; a multiple of 8 */
	uint16_t func;
	uint8_t type;
	uint8_t state; /* atomic */
};

struct call_record {
	struct record h;
	uint64_t start, end; /* clock */
	uint64_t ret;
	uint8_t words;
	uint8_t kept; /* 1: the shim has answered the call, and the runtime did not get it: see record/kept.h */
	uint8_t pad[2];
	uint32_t blocked; /* units of BLOCKED_UNIT for which the thread did not run since its previous call, if that was long ago */
	/* uint64_t word[words]; then pieces */
};

struct piece {
	uint8_t param;
	uint8_t flags;
	uint8_t missing;
	uint8_t pad;
	uint32_t len; /* bytes that follow, padded to 8, with PIECE_BYTES */
	/* with PIECE_FAR: struct far; without, the address is the parameter's word, and len the size */
};

struct far {
	uint64_t addr, len;
	uint32_t item, pad;
};

struct payload_record {
	struct record h;
	uint32_t slot; /* of the thread that made the call */
	uint8_t param, flags, missing, pad;
	uint64_t seq; /* of the call in that thread, with lost calls */
	uint64_t addr, len, offset;
	uint64_t time; /* clock */
	uint32_t item;
	uint32_t bytes; /* in the chunk, or after this header, padded to 8 */
	uint32_t chunk; /* 1 + its number, 0: the bytes follow */
	uint32_t recording; /* the thread's time for payloads since the last payload record, in RECORDING_TICKS */
};

enum { LOST_NO_ROOM = 0, LOST_NESTED = 1 };
struct lost_record {
	struct record h; /* func: LOST_* */
	uint64_t calls, since, until;
};

/* The calls from here on are those of another thread. */
struct owner_record {
	struct record h;
	uint32_t tid, generation; /* generation as in slot.holder */
	uint64_t start; /* clock */
	uint64_t seq, lost; /* of the ring, here */
	char name[16];
};

/* Times of the two events around a task, by the device's clock. */
struct time_record {
	struct record h;
	uint32_t slot; /* of the thread that made the call */
	int32_t device; /* 1 + its number, 0 unknown */
	uint64_t seq; /* of the call in that thread, with lost calls */
	uint64_t stream;
	uint64_t issued, closed; /* clock, just before the first and the second event were recorded */
	uint64_t seen; /* clock, when both were known to be complete */
	uint64_t from, to; /* microseconds by the device's clock */
	float elapsed; /* milliseconds between them */
	uint32_t pad;
};

/* An entry of the hash table in the file `passed`: calls of a function that the shim does not wrap, and requests for it by dlsym. */
struct passed {
	uint64_t count; /* atomic */
	uint32_t state; /* atomic */
	char name[52]; /* cut if longer */
};

_Static_assert(sizeof(struct passed) == 64, "passed");
_Static_assert(sizeof(struct slot) == 64, "slot");
_Static_assert(sizeof(struct process) == PROCESS_BYTES, "process");
_Static_assert(sizeof(struct control) == 256 + 8 * ARENA_WORDS + 64 * RING_MAX_SLOTS, "control");
_Static_assert(offsetof(struct control, ring_bytes) == 24, "memory");
_Static_assert(offsetof(struct control, next_slot) == 80, "members");
_Static_assert(offsetof(struct control, task_ids) == 96, "choices");
_Static_assert(offsetof(struct control, quiet) == CONTROL_QUIET, "quiet");
_Static_assert(offsetof(struct control, stranger) == 152, "stranger");
_Static_assert(offsetof(struct control, unrecorded) == 192, "unrecorded");
_Static_assert(offsetof(struct control, reading) == 224, "reading");
_Static_assert(sizeof(struct ring) == 272, "ring");
_Static_assert(sizeof(struct call_record) == 40, "call_record");
_Static_assert(sizeof(struct piece) == 8, "piece");
_Static_assert(sizeof(struct far) == 24, "far");
_Static_assert(sizeof(struct payload_record) == 72, "payload_record");
_Static_assert(sizeof(struct lost_record) == 32, "lost_record");
_Static_assert(sizeof(struct owner_record) == 56 && sizeof(struct owner_record) <= 2 * sizeof(struct lost_record), "owner_record");
_Static_assert(sizeof(struct time_record) == 80, "time_record");

#endif
