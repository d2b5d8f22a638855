/*
 * The layout of a plan and of the results of its run. Package replay/plan writes plans, package replay reads results; plan/layout.go has the
 * same structures, and both sides assert the sizes. Everything is little-endian.
 *
 * A plan file has a header of one page, then the extents of five lists, in the order in which they were written, then the index. The index
 * has the short tables, and for each list a table of its extents. An extent is whole pages. The player maps the extents of a list one
 * behind the other, so that the list is an array.
 *
 * A plan is one program for each captured thread, made of fixed-size instructions. Values that only the run can know
 * (handles, addresses) live in slots. Every operand is a slot plus an addend, whatever it stands for:
 *
 *	slot 0    the number 0: the operand is an immediate
 *	slot 1    the address of the plan's data, in a private writable copy
 *	slot 2    the address of the scratch memory
 *	slot 3    the address of the slots: the operand is a pointer to a slot, for outputs
 *	slot 4    the address of memory that all processes share
 *	slot 5    a function that takes as long as its argument, a struct plan_runs, says
 *	slot 6    a function that takes as long as its third argument says, for streams that pass more
 *	slot 7    a function that does nothing and returns 0
 *	slot 8    the byte that new device memory is filled with: result_header.poison
 *	slot 9    the address of memory that holds zeros only, in place of payloads that the trace lacks
 *	then, for each thread, the address of scratch memory that the next call uses again; for each thread, its pthread_t;
 *	for each process, its number
 *	from there on  what calls have stored: handles and addresses
 *
 * Relocations are words inside the data that hold a slot plus an addend; they are stored just before the instruction
 * that they belong to. With INST_SPOIL, the relocations of an instruction are followed by spoils: pieces of the data that the runtime
 * has to have read when the call returns. The player overwrites them then, as the program does with its own arguments: see spoil().
 */
#ifndef ACLTRACE_PLAN_H
#define ACLTRACE_PLAN_H

#include <stdint.h>

#define PLAN_MAGIC "ACLTPLAN"
#define RESULT_MAGIC "ACLTRSLT"
#define PLAN_VERSION 16
#define PLAN_HEADER 4096 /* bytes of the header's page */

enum { SLOT_ZERO, SLOT_DATA, SLOT_SCRATCH, SLOT_SLOTS, SLOT_SHARED, SLOT_HOST_FUNCTION, SLOT_STREAM_FUNCTION, SLOT_CALLBACK, SLOT_POISON, SLOT_ZEROS, SLOT_THREADS };

enum plan_op {
	OP_NOTHING,  /* what the planner took back */
	OP_CALL,     /* call function fn with `words` operands; the first `bits` bits of the result must be those of want */
	OP_UNTIL,    /* the same, again and again until the `width` bytes at the operand behind the words are len; until the result is
	              * want where width is 0, and there is no such operand. It then may run a function of the program's, in which the
	              * next len instructions are played: they count as finished when the call has returned */
	OP_STORE,    /* copy len bytes from operand 1, without gaps, to operand 0, in rows of width bytes at the distance operand 2 */
	OP_CHECK,    /* compare len bytes at operand 0, in such rows, with those at operand 1; want is a check_of */
	OP_WAIT,     /* until thread fn has finished its first want instructions */
	OP_TAKE,     /* store at operand 0 the number that the file of the process operand 1 by the descriptor operand 2 gets here */
	OP_MARK,     /* tell the library, if it can take note, that len bytes at operand 0 are unknown, for the reason with number bits */
	OP_PLACE,    /* a simulator puts what the thread allocates next at the address operand 0 */
	OP_FORK,     /* fork process fn of the plan, with the library as it is, and play its threads */
};

/*
 * What an OP_CHECK is of; `words` is the parameter, ret_slot the item and `at` the offset of the bytes in the result. If `bits` is not
 * 0 the bytes prove nothing, equal or not: it is the number of the reason, see verify.Reasons.
 */
enum check_of {
	CHECK_OUTPUT, /* a value that the call itself has stored */
	CHECK_RESULT, /* what a copy has brought to the host */
	CHECK_MACHINE, /* as CHECK_OUTPUT, of what tells of the machine, on which another one may differ */
	CHECK_EXTENT, /* as CHECK_OUTPUT, of a number that may also be another one that is no less than `at` */
	CHECK_LENGTH  /* of a result whose recorded length is not the one that the copy has here: both are in the data and differ */
};

enum data_type { TYPE_F16 = 1, TYPE_BF16, TYPE_F32, TYPE_F64 };

enum {
	INST_STOP = 1,  /* an unexpected result ends the run: what follows would use what the call did not make */
	INST_START = 2, /* read the clock before the call; a paced plan always does */
	INST_END = 4,   /* and after it. What is not read is the time that was read last */
	/* 8 is for who reads the results: the call is one of the replay's own */
	INST_UNMARKED = 16, /* of an OP_CHECK: its reason counts only if the library does not take note of an OP_MARK */
	INST_SPOIL = 32, /* of an OP_CALL: spoils follow its relocations, see struct plan_reloc */
	/* Of an OP_CHECK of memory that the program accesses without a call. Bytes that are excused give the result REASON_MANAGED. */
	INST_EXCUSED = 64, /* a difference proves nothing: the program may have stored unseen */
	INST_SINCE = 128,   /* operand 3 is the content before the tasks: a byte that is as it was there is excused */
};

/* So many rows at an offset in the index. */
struct plan_table {
	uint64_t offset, count;
};

/* A part of a list in the file. */
struct plan_extent {
	uint64_t offset, size; /* multiples of 4096 */
	uint32_t checksum;     /* CRC32C */
	uint32_t pad;
};

struct plan_header {
	char magic[8];
	uint32_t version;
	uint32_t checksum; /* CRC32C of the index, then of this page with 0 here */
	uint64_t size;     /* of the file */
	uint64_t index;    /* offset of the index, which is the end of the file */
	uint64_t data;     /* bytes of data */
	uint64_t scratch;  /* bytes of scratch memory */
	uint64_t shared;   /* bytes of memory that all processes share */
	uint64_t slots;
	uint64_t zeros;    /* bytes of the memory of zeros */
	uint64_t instructions, relocs_count; /* those of a thread end with padding up to a whole page */
	struct plan_table data_extents, instructions_extents, rest_extents, operands_extents, relocs_extents;
	struct plan_table names; /* NUL-terminated; count is bytes */
	struct plan_table functions, processes, threads;
	struct plan_table reasons; /* why results can be unproved: uint32_t, offsets in names; the first one has number 1 */
	struct plan_table doubts;  /* what is unproved whatever the run shows */
	struct plan_table maps;    /* host memory to be mapped */
	uint64_t until_ns; /* how long an OP_UNTIL may take */
	uint32_t paced;    /* begin each call at its time */
	uint32_t tolerance; /* a data_type: numbers of results may differ by relative * recorded + absolute; 0: not at all */
	double relative, absolute;
	uint32_t zeros_reason; /* number of the reason for which each process marks the memory of zeros as unknown; 0: it does not */
	uint32_t reserved;
	/* Offsets in the file with the results. */
	uint64_t result_threads, result_slots, result_instructions, result_details, result_kernels, result_size;
};

/* Host memory of a process that is registered for the device. It is mapped at an address, or anywhere if that is 0 or taken. */
struct plan_map {
	uint64_t at, size;
	uint32_t slot; /* gets the address */
	uint32_t process;
};

/* Unproved results of a call that no OP_CHECK stands for. */
struct plan_doubt {
	uint64_t call;
	uint32_t reason; /* number */
	uint32_t results;
	uint32_t text; /* offset in names */
	uint32_t pad;
};

/* Numbers of reasons that a run finds: those of verify.Reasons. */
enum { REASON_KERNEL = 1, REASON_MANAGED = 6, REASON_UNINITIALISED = 9, REASON_RACE = 11, REASON_NOT_REACHED = 13, REASON_CRASH = 15, MAX_REASONS = 32 };

struct plan_function {
	uint32_t how;  /* number of words, or CALL_SPECIAL plus its number in the model: see call_gen.h */
	uint32_t name; /* offset in names */
};

enum { CALL_SPECIAL = 64 };

/* A captured process. Each runs in a process of its own where there are several. One that OP_FORK makes has no variables. */
struct plan_process {
	uint32_t first, count; /* threads */
	uint32_t env, vars;    /* offset in names of so many variables NAME=value, one behind the other, set before the library is loaded */
	uint32_t forked; /* by OP_FORK */
};

struct plan_thread {
	uint64_t first, count; /* instructions */
	uint64_t scratch;      /* offset of its own scratch memory */
};

struct plan_operand {
	uint32_t slot;
	uint32_t low, high; /* halves of the addend */
};

static inline uint64_t plan_value(const struct plan_operand *o, const uint64_t *slots)
{
	return slots[o->slot] + (o->low | (uint64_t)o->high << 32);
}

struct plan_reloc {
	uint64_t at; /* offset in the data */
	uint64_t addend; /* of a spoil: its bytes */
	uint32_t slot; /* of a spoil: 1 if another spoil follows, 0 after the last one */
	uint32_t size; /* bytes of the word: 8 or 4 */
};

enum { SPOILED = 0xdb }; /* a byte that makes invalid addresses and numbers that are too large */

/* How long a function of the program's took that a stream called, in the plan's data. A graph calls it more than once. */
struct plan_runs {
	uint64_t next;  /* run, from 0; of those behind the last nothing is known, and they take no time */
	uint64_t count;
	uint64_t ns[];
};

/* What every call needs; the time from one call to the next goes by how many bytes are moved for it. */
struct plan_instruction {
	uint8_t op, flags, bits, words;
	uint32_t fn;       /* number of the call's function; OP_WAIT: of the thread */
	uint32_t operands; /* the first of them */
	uint32_t relocs, relocs_count;
	uint32_t ret_slot; /* takes the result, 0 for none */
	uint64_t want;
};

/* The rest of the instruction of the same number, which few need while the plan runs. */
struct plan_rest {
	uint64_t call; /* in the trace */
	uint64_t at;   /* of a call: nanoseconds from the beginning of the run to its start, where the plan is paced */
	uint64_t len, width;
};

enum { RUN_STARTED = 1, RUN_DONE, RUN_REFUSED };

/* What the system says of threads: nanoseconds on a processor, and ready to run without one. Both are 0 where it says nothing. */
struct core_time {
	uint64_t ran, waited;
};

struct result_header {
	char magic[8];
	uint32_t version;
	uint32_t status;
	uint64_t counter[2], ns[2]; /* two readings of the counter and of CLOCK_MONOTONIC */
	uint32_t stopped;           /* an instruction with INST_STOP has ended the run */
	uint32_t details;           /* in use */
	uint32_t ready, refused;    /* threads that are there; processes that can't go on */
	uint64_t origin;            /* counter at time 0, once all threads are ready */
	uint32_t crashed;           /* 1 + the thread that a signal has ended the run in, 0 where that is not known */
	uint32_t kernels_lock;      /* held by the thread that adds a name to result_kernels */
	struct core_time library;   /* of the library's own threads that are there at the end, in all processes */
	uint64_t stolen_before, stolen_after; /* what the machine's host had taken of its processors, nanoseconds in steps of 10 ms */
	uint32_t kernels; /* names in result_kernels */
	uint32_t reports; /* the library reports which results kernels that it lacks would have computed, by aclsim_unknown() */
	uint32_t poison;  /* set by the caller before the run */
	uint32_t sandbox; /* what sandbox_enter() has returned, 0 outside */
	char error[4096 - 128];     /* why the run was refused; the names of missing functions, one a line behind the first */
};

/* A cache line, so that threads do not slow each other. */
struct result_thread {
	uint64_t progress; /* instructions finished */
	uint64_t inside;   /* in a call of the runtime */
	struct core_time core; /* from the first instruction to the last; stored at its end */
	uint64_t reserved[4];
};

enum { RESULT_DONE = 1, RESULT_DIFFERS = 2, RESULT_TIMEOUT = 4, RESULT_TOLERATED = 8 /* other bytes, but within the tolerance */ };

/* The other bits of result_instruction.flags: the number of the reason for which the library does not vouch for the bytes, and 1 + that
 * of the kernel concerned in result_kernels; 0 for none. */
enum { RESULT_REASON_SHIFT = 8, RESULT_KERNEL_SHIFT = 16, KERNEL_NAMES = 256, KERNEL_NAME = 64 /* bytes, NUL-terminated */ };

struct result_instruction {
	uint64_t start, end; /* counter, see INST_START and INST_END */
	uint64_t ret;        /* of an OP_CHECK whose bytes differ, tolerated or not: a hash of them */
	uint32_t flags;
	uint32_t detail; /* number of its result_detail, from 1; 0 for none */
};

/* How the bytes of an OP_CHECK differ. */
struct result_detail {
	uint64_t first, count; /* differing bytes */
	uint8_t got[16], want[16];
	uint64_t shown; /* bytes in got and want */
};

_Static_assert(sizeof(struct plan_header) == 368, "plan_header");
_Static_assert(sizeof(struct plan_extent) == 24, "plan_extent");
_Static_assert(sizeof(struct plan_doubt) == 24, "plan_doubt");
_Static_assert(sizeof(struct plan_map) == 24, "plan_map");
_Static_assert(sizeof(struct plan_function) == 8, "plan_function");
_Static_assert(sizeof(struct plan_process) == 20, "plan_process");
_Static_assert(sizeof(struct plan_thread) == 24, "plan_thread");
_Static_assert(sizeof(struct plan_operand) == 12, "plan_operand");
_Static_assert(sizeof(struct plan_reloc) == 24, "plan_reloc");
_Static_assert(sizeof(struct plan_instruction) == 32, "plan_instruction");
_Static_assert(sizeof(struct plan_rest) == 32, "plan_rest");
_Static_assert(sizeof(struct result_header) == 4096, "result_header");
_Static_assert(sizeof(struct result_thread) == 64, "result_thread");
_Static_assert(sizeof(struct result_instruction) == 32, "result_instruction");
_Static_assert(sizeof(struct result_detail) == 56, "result_detail");

#endif
