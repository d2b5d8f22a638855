/* The process's and the calling thread's state that every call looks at. */
#ifndef ACLTRACE_SHIM_STATE_H
#define ACLTRACE_SHIM_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring.h"

#define SHIM_EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define SHIM_INLINE inline __attribute__((always_inline))

enum { PLAIN_BYTES = 1024 /* most that a plain call takes in the ring: see shim_plain in shim_hot.h */ };

struct shim_thread {
	uint8_t *base; /* first byte of the records; NULL: no ring yet */
	struct ring *ring;
	uint64_t head;
	uint64_t room; /* a plain call may be written while head is below this; 0: never */
	uint64_t tail; /* last value seen, or less while pages of the ring are not touched: see session/thread.c */
	uint64_t size; /* bytes of the records */
	uint64_t lost; /* calls since the last record */
	uint64_t until; /* clock; end of the latest call */
	uint16_t slot;
	bool off;            /* this thread records nothing */
	bool late;           /* this thread has loaded a library that may bypass the shim: see bind/late.c */
	uint32_t generation; /* of the process state that the ring belongs to */
	int32_t device;      /* 1 + device selected by the thread, 0 unknown */
	uint32_t depth;      /* traced calls that the thread is in */
	void *frame;         /* of the wrapper of the outermost call */
	uint64_t capacity;   /* bytes that records may use: less than size while an END record is due */
	void *outer_frame;   /* of the wrapper of the enclosing call */
	uint16_t outer;      /* enclosing calls that the thread is in */
	bool confined;       /* this thread may not read the counter: see session/filter.c */
	bool shut_out;       /* this thread is counted in control.shut_out */
	uint32_t ran;        /* runs of host functions noted beside the ring: see task/host.c */
	uint32_t offered;    /* control.offered when this thread last looked for a ring */
	uint32_t owner;      /* thread id, if another process may share this structure: see session/share.c; otherwise 0 */
};

extern __thread struct shim_thread shim_t __attribute__((tls_model("initial-exec"))) HIDDEN;

/*
 * Two areas of whole pages in the shim's own data: their addresses are known at link time, so every field is one load away. The kernel clears
 * the first one in a forked child (MADV_WIPE_ON_FORK), which thereby notices the fork without asking for its pid. The session's control file is
 * mapped over the second one.
 */
#if defined(__aarch64__)
#define SHIM_PAGE 65536 /* largest page size of a kernel */
#else
#define SHIM_PAGE 4096
#endif

#define NO_FILE 0x80000000u
enum { PROCESS_NEW = 0, PROCESS_OPENING = 1, PROCESS_RECORDS = 2, PROCESS_OFF = 3 };

struct shim_process {
	_Atomic uint32_t ready; /* PROCESS_*; NEW also after a fork */
	uint32_t generation; /* 1 + number of its file process.N, unique in the session; without a file NO_FILE and its pid */
	uint32_t pid;
	uint32_t maps_written; /* a record has the mappings of the process */
	uint32_t drop; /* a thread has waited in vain for the recorder: none waits any more */
	uint32_t plain; /* generation, or 0 while no call may be written as a plain one */
	uint32_t inside; /* atomic; system calls of the shim in progress */
};
extern union shim_process_page {
	struct shim_process process;
	uint8_t bytes[SHIM_PAGE];
} shim_process_page HIDDEN;
extern union shim_control_pages {
	struct control control;
	uint8_t bytes[(sizeof(struct control) + SHIM_PAGE - 1) / SHIM_PAGE * SHIM_PAGE];
} shim_control_pages HIDDEN;
#define shim_p (&shim_process_page.process)
#define shim_control (&shim_control_pages.control)

extern uint32_t shim_visible HIDDEN; /* live ranges of memory that the program accesses without a call: see payload/visible.c */
extern bool shim_after_task HIDDEN;  /* wrappers call shim_any_task after each task: see task/ids.h */

/* The process's own file process.N, mapped; NULL before. Not inherited by a child. */
extern struct process *shim_self HIDDEN;

/* shim_self, or NULL in a forked child that has not registered: its copy of the pointer is the parent's. */
static inline struct process *shim_own_process(void)
{
	struct process *p = __atomic_load_n(&shim_self, __ATOMIC_ACQUIRE);
	return p != NULL && shim_p->ready > PROCESS_OPENING ? p : NULL;
}

/* Whether some process of the session records nothing for now: then the wrapper decides, by the slot. */
static SHIM_INLINE bool shim_special(void) { return __builtin_expect(__atomic_load_n(&shim_control->quiet, __ATOMIC_RELAXED) != QUIET_NO, 0); }
/* Whether no process of the session records for now. */
static SHIM_INLINE bool shim_quiet(void) { return __builtin_expect(__atomic_load_n(&shim_control->quiet, __ATOMIC_RELAXED) == QUIET_ALL, 0); }

/* Raises a count that other threads raise too. */
static inline void raise_to(uint32_t *count, uint32_t least)
{
	uint32_t was = __atomic_load_n(count, __ATOMIC_RELAXED);
	while (was < least && !__atomic_compare_exchange_n(count, &was, least, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
}

static inline uint64_t round8(uint64_t n) { return (n + 7) & ~(uint64_t)7; }

#endif
