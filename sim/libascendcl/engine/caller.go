package main

/*
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

typedef void (*host_function)(void *arg);

// A thread of the runtime's that runs host functions, one at a time. Idle ones wait for the next.
struct worker {
	struct worker *next;
	pthread_cond_t wake;
	host_function fn;
	void *arg;
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
		w->fn(w->arg);
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
	failed = pthread_create(&t, NULL, work, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (failed) {
		free(w);
		return NULL;
	}
	pthread_detach(t);
	return w;
}

static void call_here(uintptr_t fn, uintptr_t arg)
{
	((host_function)fn)((void *)arg);
}

static void call_aside(uintptr_t fn, uintptr_t arg)
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
		call_here(fn, arg);
		return;
	}
	w->fn = (host_function)fn;
	w->arg = (void *)arg;
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

func (caller) Call(fn, arg uint64) { C.call_here(C.uintptr_t(fn), C.uintptr_t(arg)) }

func (caller) CallAside(fn, arg uint64) { C.call_aside(C.uintptr_t(fn), C.uintptr_t(arg)) }
