/*
 * The layout of a plan and of the results of its run. Package replay/plan writes plans, package replay reads results; plan/layout.go has the
 * same structures, and both sides assert the sizes. All numbers are little-endian.
 *
 * A plan file has a header of one page, the extents of five lists in the order in which they were written, and the index. The index has the short
 * tables, and for each list a table of its extents. An extent is whole pages. The player maps a list's extents one after the other, as an array.
 *
 * A plan is one program for each captured thread, made of fixed-size instructions. Instructions that are alike share a template, operands and
 * relocations, as the launches in a loop do. They differ in the data that they use, which is found from a thread's slot with its own data.
 *
 * Values that only the run can know (handles, addresses) live in slots. Every operand is a slot's value plus an addend:
 *
 *	slot 0    the number 0: the operand is an immediate
 *	slot 1    address of the plan's data, in a private writable copy
 *	slot 2    address of scratch memory
 *	slot 3    address of slot 0: the operand points to a slot, for outputs
 *	slot 4    address of memory that all processes share
 *	slot 5    a host function; its argument, a struct plan_runs, has its durations
 *	slot 6    the same with the argument in third place, for stream callbacks
 *	slot 7    a function that returns 0
 *	slot 8    the byte that new device memory is filled with: result_header.poison
 *	slot 9    address of zeros, in place of payloads that the trace lacks
 *	then      for each thread, the address of scratch memory that each call reuses; for each thread, its pthread_t; for each process, its pid;
 *	          for each thread, the address of its own data: that of the instruction that it plays. These slots are OWN_STRIDE apart
 *	the rest  handles and addresses that calls have stored
 *
 * A relocation is a word in the data that gets a slot's value plus an addend, just before its instruction. Relocations of a result (CHECK_RESULT)
 * are words that may have either value, the recorded one or the relocated one. The last ones in an instruction's list may
 * be spoils: pieces of the data that the runtime must have read when the call returns. The player then overwrites them, as programs do that reuse
 * their buffers: see spoil().
 */
#ifndef ACLTRACE_PLAN_H
#define ACLTRACE_PLAN_H

#include <stdint.h>

#define PLAN_MAGIC "ACLTPLAN"
#define RESULT_MAGIC "ACLTRSLT"
#define PLAN_VERSION 19
#define PLAN_HEADER 4096 /* bytes of the header's page */

enum { SLOT_ZERO, SLOT_DATA, SLOT_SCRATCH, SLOT_SLOTS, SLOT_SHARED, SLOT_HOST_FUNCTION, SLOT_STREAM_FUNCTION, SLOT_CALLBACK, SLOT_POISON, SLOT_ZEROS, SLOT_THREADS };

enum { OWN_STRIDE = 16, DATA_ALIGN = 16 };

enum plan_op {
	OP_NOTHING,  /* an instruction that the compiler withdrew */
	OP_CALL,     /* call function fn with `words` operands; the result's lower `bits` bits must be equal to those of want */
	OP_UNTIL,    /* the same, repeated until the `width` bytes at the operand after the words are len. width 0: there is no such operand,
	              * and the call is repeated until the result is want. Such a call may run a host function, in which the next len
	              * instructions are played. They count as finished when the call has returned */
	OP_STORE,    /* copy len bytes from operand 1, without gaps, to operand 0, in rows of width bytes at the distance operand 2 */
	OP_CHECK,    /* compare len bytes at operand 0, in such rows, with those at operand 1; want is a check_of */
	OP_WAIT,     /* until thread fn has finished its first `at` instructions */
	OP_TAKE,     /* copy descriptor operand 2 from process operand 1, and store its number at operand 0 */
	OP_MARK,     /* mark len bytes at operand 0 as unknown, if the library can, for the reason with number bits */
	OP_PLACE,    /* a simulator puts the thread's next allocation at the address operand 0 */
	OP_FORK,     /* fork the plan's process fn, with the library as it is, and play its threads */
};

/*
 * The object of an OP_CHECK. `words` is the parameter, ret_slot the item and `at` the offset of the bytes in the result. If `bits` is not 0, the
 * bytes prove nothing, equal or not; it is the reason's number, see verify.Reasons.
 */
enum check_of {
	CHECK_OUTPUT, /* a value that the call itself has stored */
	CHECK_RESULT, /* bytes that a copy has brought to the host */
	CHECK_MACHINE, /* as CHECK_OUTPUT, a property of the machine: another machine may differ */
	CHECK_EXTENT, /* as CHECK_OUTPUT, a number; any number from `at` on is allowed too */
	CHECK_LENGTH  /* a result with another length than recorded: both lengths are in the data, and differ */
};

/*
 * A bit of an OP_CHECK's `bits`, besides the reason's number: the result depends on words that may be addresses and have no relocation. It is unproved if
 * device memory is not at its recorded addresses.
 */
enum { CHECK_GUESS = 0x80 };

enum data_type { TYPE_F16 = 1, TYPE_BF16, TYPE_F32, TYPE_F64 };

enum {
	INST_STOP = 1,  /* an unexpected result ends the run: later calls need the object that this call did not make */
	INST_START = 2, /* read the clock before the call; a paced plan always does */
	INST_END = 4,   /* read the clock after the call. Without these flags a time is the last one that was read */
	/* 8 is for the reader of the results: the replay has added the call */
	INST_UNMARKED = 16, /* of an OP_CHECK: its reason counts only if the library does not support OP_MARK */
	INST_LATE = 32, /* the call may report a failed task earlier or later than recorded: 0 and the plan's faults are equal */
	/* For an OP_CHECK of memory that the program accesses without a call. Excused bytes give the result REASON_MANAGED. */
	INST_EXCUSED = 64, /* a difference proves nothing: the program may have stored unseen */
	INST_SINCE = 128,   /* operand 3 is the content before the tasks: an unchanged byte is excused */
};

/* `count` rows at an offset in the index. */
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
	uint64_t zeros;    /* bytes of zeros */
	uint64_t instructions; /* a thread's instructions are padded to a whole page */
	struct plan_table data_extents, instructions_extents, templates_extents, operands_extents, relocs_extents;
	struct plan_table names; /* NUL-terminated; count is bytes */
	struct plan_table functions, processes, threads;
	struct plan_table reasons; /* reasons for unproved results: uint32_t, offsets in names; the first one has number 1 */
	struct plan_table doubts;  /* results that are unproved before the run */
	struct plan_table maps;    /* host memory to map */
	struct plan_table blocks;  /* device memory, if some result depends on its addresses */
	struct plan_table faults;  /* int32_t: errors of failed tasks that recorded calls returned */
	uint64_t until_ns; /* limit of an OP_UNTIL, and of a call that is repeated while its object is busy */
	double scale;      /* begin each call at its time multiplied by this; 0: as soon as possible */
	double relative, absolute;
	uint32_t tolerance; /* a data_type: numbers in results may differ by relative * recorded + absolute; 0: no tolerance */
	uint32_t zeros_reason; /* the reason by which each process marks the zeros as unknown; 0: it does not */
	uint32_t busy; /* a call that returns this error, and did not when recorded, is repeated: work still uses its object; 0: none */
	uint32_t pad;
	/* Offsets in the file with the results. */
	uint64_t result_threads, result_slots, result_instructions, result_details, result_kernels, result_size;
};

/* Host memory that a process registers for the device. It is mapped at `at`, or anywhere if that is 0 or taken. */
struct plan_map {
	uint64_t at, size;
	uint32_t slot; /* gets the address */
	uint32_t process;
};

struct plan_block {
	uint64_t at; /* recorded address */
	uint32_t slot; /* has the address */
	uint32_t pad;
};

/* Unproved results of a call without an OP_CHECK. */
struct plan_doubt {
	uint64_t call;
	uint32_t reason; /* number */
	uint32_t results;
	uint32_t text; /* offset in names */
	uint32_t pad;
};

/* Added to the reason of a mark that makes a result unproved only if it differs. */
enum { MARK_WEAK = 128 };

/* Reasons that the player itself gives, by their number in verify.Reasons. */
enum { REASON_KERNEL = 1, REASON_MANAGED = 6, REASON_UNINITIALISED = 9, REASON_RACE = 11, REASON_NOT_REACHED = 13, REASON_POINTER = 14, REASON_CRASH = 15, MAX_REASONS = 32 };

struct plan_function {
	uint32_t how;  /* number of words, or CALL_SPECIAL plus the function's number in the model: see call_gen.h */
	uint32_t name; /* offset in names */
};

enum { CALL_SPECIAL = 64 };

/* A captured process. A process that OP_FORK makes has no variables. */
struct plan_process {
	uint32_t first, count; /* threads */
	uint32_t env, vars;    /* offset in names, and number, of consecutive variables NAME=value, set before the library is loaded */
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
	uint64_t at; /* offset in the data, from the instruction's base on */
	uint64_t addend; /* of a spoil: its bytes */
	uint32_t slot;
	uint16_t size; /* bytes of the word: 8 or 4 */
	uint16_t flags; /* RELOC_* */
};

enum { RELOC_LAST = 1 /* in the list */, RELOC_SPOIL = 2 };

enum { SPOILED = 0xdb }; /* makes invalid addresses and numbers that are too large */

/* The recorded durations of a host function, in the plan's data. A graph may call the function more than once. */
struct plan_runs {
	uint64_t next;  /* index of the next run; a run without a recorded duration takes no time */
	uint64_t count;
	uint64_t ns[];
};

/* What equal instructions share. */
struct plan_template {
	uint8_t op, flags, bits, words;
	uint32_t fn;       /* number of the call's function; OP_WAIT: of the thread */
	uint32_t operands; /* the first of them */
	uint32_t ret_slot; /* gets the result, 0: none */
	uint32_t stream, kernel; /* for the reader of the results */
	uint64_t want, len, width;
};

/* What differs between them. Small, since the time between two calls depends on the bytes that are loaded. */
struct plan_instruction {
	uint32_t template;
	uint32_t base;   /* offset of its own data, in units of DATA_ALIGN */
	uint32_t relocs; /* the first of them, 0: none */
	uint32_t call;   /* in the trace */
	uint64_t at;     /* of a call: its recorded start, in nanoseconds after the run's beginning; OP_WAIT: see there; OP_CHECK: see check_of */
	uint64_t dur;    /* of a call, for the reader of the results: its recorded duration */
};

enum { RUN_STARTED = 1, RUN_DONE, RUN_REFUSED };

/* Times of threads by the system, in nanoseconds: running on a processor, and ready but waiting for one. 0 if unknown. */
struct core_time {
	uint64_t ran, waited;
};

struct result_header {
	char magic[8];
	uint32_t version;
	uint32_t status;
	uint64_t counter[2], ns[2]; /* the counter and CLOCK_MONOTONIC, before and after the run */
	uint32_t stopped;           /* an instruction with INST_STOP has ended the run */
	uint32_t details;           /* in use */
	uint32_t ready, refused;    /* threads that have arrived; processes that can't go on */
	uint64_t origin;            /* counter at time 0, once all threads are ready */
	uint32_t crashed;           /* 1 + the thread in which a signal has ended the run, 0 if unknown */
	uint32_t kernels_lock;      /* held by the thread that adds a name to result_kernels */
	struct core_time library;   /* sum over the library's own threads that exist at the end, in all processes */
	uint64_t stolen_before, stolen_after; /* processor time that the machine's host took, nanoseconds in 10 ms steps */
	uint32_t kernels; /* names in result_kernels */
	uint32_t reports; /* the library reports which results kernels that it lacks would have computed, by aclsim_unknown() */
	uint32_t poison;  /* set by the caller before the run */
	uint32_t sandbox; /* result of sandbox_enter(), 0 without a sandbox */
	char error[4096 - 128];     /* why the run was refused; then the missing functions, one a line */
};

/* A cache line, so that threads do not slow each other. */
struct result_thread {
	uint64_t progress; /* instructions finished */
	uint64_t inside;   /* 1 + index of the current call's instruction */
	struct core_time core; /* from the first instruction to the last; stored at its end */
	uint64_t reserved[4];
};

enum { RESULT_DONE = 1, RESULT_DIFFERS = 2, RESULT_TIMEOUT = 4, RESULT_TOLERATED = 8 /* other bytes, but within the tolerance */, RESULT_REPORTED = 16 /* see INST_LATE */ };

/* The other bits of result_instruction.flags: the reason why the library does not vouch for the bytes, and 1 + the kernel's index in
 * result_kernels. 0: none. */
enum { RESULT_REASON_SHIFT = 8, RESULT_KERNEL_SHIFT = 16, KERNEL_NAMES = 256, KERNEL_NAME = 64 /* bytes, NUL-terminated */ };

struct result_instruction {
	uint64_t start, end; /* counter, see INST_START and INST_END */
	uint64_t ret;        /* result; of an OP_CHECK, a hash of the bytes that differ, tolerated or not */
	uint32_t flags;
	uint32_t detail; /* 1 + index of its result_detail, 0: none */
};

/* The difference that an OP_CHECK has found. */
struct result_detail {
	uint64_t first, count; /* differing bytes */
	uint8_t got[16], want[16];
	uint64_t shown; /* bytes in got and want */
};

_Static_assert(sizeof(struct plan_header) == 400, "plan_header");
_Static_assert(sizeof(struct plan_extent) == 24, "plan_extent");
_Static_assert(sizeof(struct plan_doubt) == 24, "plan_doubt");
_Static_assert(sizeof(struct plan_map) == 24, "plan_map");
_Static_assert(sizeof(struct plan_block) == 16, "plan_block");
_Static_assert(sizeof(struct plan_function) == 8, "plan_function");
_Static_assert(sizeof(struct plan_process) == 20, "plan_process");
_Static_assert(sizeof(struct plan_thread) == 24, "plan_thread");
_Static_assert(sizeof(struct plan_operand) == 12, "plan_operand");
_Static_assert(sizeof(struct plan_reloc) == 24, "plan_reloc");
_Static_assert(sizeof(struct plan_template) == 48, "plan_template");
_Static_assert(sizeof(struct plan_instruction) == 32, "plan_instruction");
_Static_assert(sizeof(struct result_header) == 4096, "result_header");
_Static_assert(sizeof(struct result_thread) == 64, "result_thread");
_Static_assert(sizeof(struct result_instruction) == 32, "result_instruction");
_Static_assert(sizeof(struct result_detail) == 56, "result_detail");

#endif
