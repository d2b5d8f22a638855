/*
 * The pairs of events that time tasks. A pair is in the line of its stream, oldest first, from its task until its times are known, in the line of
 * the free pairs of its context, or with the thread that has taken it.
 *
 * A short lock protects the lines. A thread may vanish with it (cancelled, or by longjmp from a signal handler). Then nobody gets a pair any more:
 * take functions return NULL, and the program goes on.
 */
#ifndef ACLTRACE_SHIM_PAIRS_H
#define ACLTRACE_SHIM_PAIRS_H

#include "task/order.h"

#define PAIRS 4096

struct pair {
	uint32_t slot; /* of the measured call's thread; seq is the call's number there */
	bool free;
	uint64_t seq;
	uint64_t issued, closed; /* clock, just before each event was recorded */
	struct place place;
	void *on; /* handle by which the thread names the stream */
	void *context, *before, *after; /* context NULL: no events */
	struct pair *next;
};

/* A pair to use: of the context, without events, or of another context; NULL if all are in use. */
struct pair *pair_take(const void *context);
/* Gives back a pair that has its events, or none. */
void pair_free(struct pair *p);
/* Puts a pair into its stream's line. */
void pair_wait(struct pair *p);
/* How many pairs are in the lines of streams. */
uint32_t pairs_waiting(void);
/* Whether the process ever had a pair. */
bool pairs_used(void);

/* Lines are numbered up to pairs_lines(). Takes the oldest pair that waits in one. */
uint32_t pairs_lines(void);
struct pair *pair_oldest(uint32_t line);
/* Takes a pair that somebody wants, NULL if there is none. */
struct pair *pair_find(bool (*wanted)(const struct pair *p, const void *why), const void *why);

void pairs_forget(void); /* the parent's */

#endif
