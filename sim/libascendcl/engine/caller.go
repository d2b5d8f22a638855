package main

/*
#include <stdlib.h>
#include "native.h"

// A function of the program's. It takes as many of the words as it has parameters, all in registers.
typedef uint64_t (*host_function)(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

struct words {
	uint64_t w[4];
};

// A thread of the runtime's that runs host functions, one at a time. Idle ones wait for the next.
struct worker {
	struct worker *next;
	pthread_cond_t wake;
	host_function fn;
	struct words args;
	int busy;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker *idle;

static void *work(void *p)
{
	struct worker *w = p;

	pthread_mutex_lock(&lock);
	for (;;) {
		while (!w->busy)
			pthread_cond_wait(&w->wake, &lock);
		pthread_mutex_unlock(&lock);
		w->fn(w->args.w[0], w->args.w[1], w->args.w[2], w->args.w[3]);
		pthread_mutex_lock(&lock);
		w->busy = 0;
		pthread_cond_signal(&w->wake);
	}
	return NULL;
}

// Signals are for the program's own threads.
static struct worker *new_worker(void)
{
	struct worker *w = calloc(1, sizeof *w);
	sigset_t all, old;
	pthread_t t;
	int failed;

	if (!w)
		return NULL;
	pthread_cond_init(&w->wake, NULL);
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	failed = native_thread(&t, work, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (failed) {
		free(w);
		return NULL;
	}
	pthread_detach(t);
	return w;
}

static uint64_t call_here(uintptr_t fn, struct words a)
{
	uint64_t r;

	native_function_begins();
	r = ((host_function)fn)(a.w[0], a.w[1], a.w[2], a.w[3]);
	native_function_returned();
	return r;
}

static void call_aside(uintptr_t fn, struct words args)
{
	struct worker *w;

	pthread_mutex_lock(&lock);
	w = idle;
	if (w)
		idle = w->next;
	else
		w = new_worker();
	if (!w) {
		pthread_mutex_unlock(&lock);
		call_here(fn, args);
		return;
	}
	w->fn = (host_function)fn;
	w->args = args;
	w->busy = 1;
	pthread_cond_signal(&w->wake);
	while (w->busy)
		pthread_cond_wait(&w->wake, &lock);
	w->next = idle;
	idle = w;
	pthread_mutex_unlock(&lock);
}
*/
import "C"

// caller calls the program's functions.
type caller struct{}

func words(args []uint64) (w C.struct_words) {
	for i, a := range args {
		w.w[i] = C.uint64_t(a)
	}
	return w
}

func (caller) Call(fn uint64, args ...uint64) uint64 {
	return uint64(C.call_here(C.uintptr_t(fn), words(args)))
}

func (caller) CallAside(fn uint64, args ...uint64) { C.call_aside(C.uintptr_t(fn), words(args)) }
