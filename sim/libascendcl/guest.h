/*
 * Separates the engine from the program's signals, stacks and descriptors. The engine is written in Go, whose code runs on small
 * stacks: a signal handler must not run there.
 */
#ifndef ACLSIM_GUEST_H
#define ACLSIM_GUEST_H

#include <signal.h>
#include <stdint.h>

/* Blocks all signals but those of crashes, and stores the mask as it was. */
void guest_block(sigset_t *old);

/* Sets a mask, less the signals of crashes. */
void guest_unblock(const sigset_t *mask);

/* Binds the program's libraries to the functions of guest.c. It is cheap if no library was loaded since the previous call. */
void guest_bind(void);

/* Sets a handler for crash signals. Call it before the engine is opened: the engine's handlers are then above it. */
void guest_before_engine(void);

/* Sets a handler above the engine's, if the engine was opened. Otherwise restores the program's handlers. */
void guest_after_engine(void (*crashed)(int sig, siginfo_t *info, void *context), const _Atomic uint64_t *kept);

/* A thread's signal stack. */
struct guest_stack {
	uintptr_t low, size;
	char *made; /* its memory if guest_set_stack made it */
};

/* Makes all of the program's signal handlers use signal stacks. */
void guest_handlers(void);

/* Gives the thread a signal stack if it has none. */
void guest_set_stack(struct guest_stack *stack);

/* Removes the thread's signal stack. */
void guest_end_thread(struct guest_stack *stack);

/* Makes the signal functions and close pass everything on, for a forked child without an engine. */
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
