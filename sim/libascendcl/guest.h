/*
 * What keeps the engine and the program's own signals, stacks and descriptors apart. The engine is written in Go, whose code runs on small
 * stacks of its own: a signal handler may not run there.
 */
#ifndef ACLSIM_GUEST_H
#define ACLSIM_GUEST_H

#include <signal.h>
#include <stdint.h>

/* Blocks all signals but those of crashes, and stores the mask as it was. */
void guest_block(sigset_t *old);

/* Sets a mask, less the signals of crashes. */
void guest_unblock(const sigset_t *mask);

/* Puts a handler for the signals of crashes below those that the engine will set. Called before the engine is opened. */
void guest_before_engine(void);

/* Puts a handler above those that the engine has set, if it was opened; else restores the program's. */
void guest_after_engine(void (*crashed)(int sig, siginfo_t *info, void *context), const _Atomic uint64_t *kept);

/* A thread's signal stack. */
struct guest_stack {
	uintptr_t low, size;
	char *made; /* its memory if guest_set_stack made it */
};

/* Has all signal handlers that the program has set use signal stacks. */
void guest_handlers(void);

/* Gives the thread a signal stack if it has none. */
void guest_set_stack(struct guest_stack *stack);

/* Takes the thread's signal stack back. */
void guest_end_thread(struct guest_stack *stack);

/* Has the signal functions and close pass all on: this is a forked child, which has no engine. */
void guest_in_child(void);

/* Reports whether the thread is in a signal handler that runs on its signal stack. */
static inline int guest_on_signal_stack(const struct guest_stack *s)
{
	return (uintptr_t)__builtin_frame_address(0) - s->low < s->size;
}

/* Reports whether that stack has room for a call of the engine. */
static inline int guest_has_room(const struct guest_stack *s)
{
	enum { ROOM = 64 << 10 };

	return (uintptr_t)__builtin_frame_address(0) - s->low >= ROOM;
}

#endif
