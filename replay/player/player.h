/* The player's state, and the functions that its files share. */
#ifndef ACLTRACE_PLAYER_H
#define ACLTRACE_PLAYER_H

#define _GNU_SOURCE /* this header comes before all others */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan.h"

/* A runtime function, and how it is called: see player_call. */
struct target {
	void *fn;
	uint32_t how;
};

/* The runtime library. The functions are a simulator's, and NULL in other libraries: see aclsim/NAME.h. */
struct library {
	struct target *targets; /* by function number */
	void (*number)(uint64_t call); /* in strict mode: the call in the trace */
	void (*late)(int64_t ns); /* in a paced plan: by how much the thread is late */
	void (*mark)(const void *addr, size_t size, int reason); /* marks memory as unknown */
	void (*place)(uint64_t addr);
	int (*unknown)(const void *addr, size_t size, char *kernel, size_t n);
};

/* Constant once the threads run, except for the memory that the pointers lead to. */
extern struct player {
	const struct plan_header *plan;
	uint8_t *index; /* of the plan */
	uint8_t *data;  /* a private copy, which the player writes */
	const char *names;
	const struct plan_function *functions;
	const struct plan_process *processes;
	const struct plan_thread *threads;
	const struct plan_instruction *instructions;
	const struct plan_template *templates;
	const struct plan_operand *operands;
	const struct plan_reloc *relocs;
	struct result_header *result;
	struct result_thread *progress;
	struct result_instruction *results;
	struct result_detail *details;
	char (*kernels)[KERNEL_NAME];
	uint64_t *slots;
	struct library lib;
	uint64_t first_threads; /* threads that start at once: not those in forked processes */
	bool forked; /* this process was made by OP_FORK */
	bool windowed; /* pages of data are given back: see window.c */
	const char *own; /* in the sandbox, the folder that it may write to */
	double counts_per_ns;
	int64_t spin_ns; /* a wait for a call's time spins for so long at its end, since sleeps are not exact */
} P __attribute__((visibility("hidden")));

static inline const struct plan_template *template(const struct plan_instruction *in) { return &P.templates[in->template]; }
static inline uint8_t *own_data(const struct plan_instruction *in) { return P.data + (uint64_t)in->base * DATA_ALIGN; }
static inline bool paced(void) { return P.plan->scale > 0; }
static inline const void *table(const struct plan_table *t) { return P.index + t->offset; }
static inline uint64_t operand(uint64_t i) { return plan_value(&P.operands[i], P.slots); }
/* The slots with a thread's pthread_t, a process's pid, and the address of a thread's own data. */
static inline uint64_t thread_slot(uint64_t thread) { return SLOT_THREADS + P.plan->threads.count + thread; }
static inline uint64_t pid_slot(uint64_t process) { return thread_slot(P.plan->threads.count) + process; }
static inline uint64_t own_slot(uint64_t thread) { return pid_slot(P.plan->processes.count) + OWN_STRIDE * thread; }
static inline bool stopped(void) { return __atomic_load_n(&P.result->stopped, __ATOMIC_RELAXED) != 0; }

/* state.c: ends the process and stores the reason in the results. Without results it is printed. */
__attribute__((format(printf, 1, 2), noreturn)) void refuse(const char *format, ...);

/* clock.c */

uint64_t nanoseconds(void);

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return nanoseconds();
#endif
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Reads both clocks at one moment. */
void read_clocks(uint64_t *count, uint64_t *ns);
/* Measures the counter's rate and how late sleeps end. */
void learn_clock(void);
void pause_ns(uint64_t ns);
/* Waits for a time in the plan. Returns the counter then. */
uint64_t keep_time(uint64_t at);
struct core_time my_core_time(void);
/* The sum over all threads but the calling one. */
struct core_time others_core_time(void);
/* Processor time that the machine's host has taken, in nanoseconds. */
uint64_t stolen(void);

/* window.c: the data of a long plan. */

bool long_plan(void);
/* Prepares the data for the threads of a process. */
void open_window(const struct plan_process *p);
/* Notes the relocations that an instruction has stored. They end with the call if its spoils, NULL for none, cover them. */
void pass_data(uint64_t thread, const struct plan_instruction *in, const struct plan_reloc *spoils);
/* Notes that a thread has ended. */
void end_data(uint64_t thread);

/* load.c: the plan's file, and the runtime library. */

void open_plan(const char *path, const char *results);
/* Finds the plan's functions. If the library lacks some, refuses the run and names them. */
void open_library(const char *path);
/* Returns 0. Stands for the program's callbacks, and for every function if the library is "null". */
uint64_t nothing(void);

/* check.c: executes an OP_CHECK. */

void check(const struct plan_template *t, struct result_instruction *r);
void accept_either(const struct plan_instruction *in, const struct plan_template *t);

/* play.c: the threads in one process. */

extern __thread uint32_t my_number; /* 1 + the thread's number in the plan, 0 for other threads */
void make_slots(void);
/* Maps the host memory that a process registers for the device, before libraries map theirs. */
void map_host_memory(uint64_t process);
void play_threads(const struct plan_process *p);
/* Forks a process that ends with this one. Returns 0 in the child. */
pid_t fork_process(uint64_t process);
bool ended_well(int status);
/* Ends this process in the way in which another one has ended. */
__attribute__((noreturn)) void end_as(int status);

/* run.c: the processes. */

void run(uint64_t process, const char *library);
void run_all(const char *library);

/* guard.c: ends the processes of a replay if acltrace is killed. Returns the exit code. */
int guard(void);

/* judge.c: prints the verdict and returns the exit code. `status` is the wait status of the child that ran the plan. */
int judge(int status);

#endif
