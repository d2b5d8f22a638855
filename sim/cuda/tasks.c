/* Tasks, and the threads that run a stream's tasks in order. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

struct context *primary[MOST_DEVICES];

__thread struct context *stack[32];

__thread unsigned depth;

__thread bool in_callback; /* a host function of a stream runs, which may make no call */

__thread struct stream *own[8];

uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

struct context *current(void) { return depth ? stack[depth - 1] : NULL; }

/* Start of every call that needs a context. Returns 0 with the lock held. */
CUresult enter(struct context **ctx)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (getpid() != process)
		return CUDA_ERROR_NOT_INITIALIZED; /* the state does not survive a fork */
	if (in_callback)
		return CUDA_ERROR_NOT_PERMITTED;
	struct context *c = current();
	pthread_mutex_lock(&lock);
	CUresult e = c == NULL ? CUDA_ERROR_INVALID_CONTEXT : c->o.gone ? CUDA_ERROR_CONTEXT_IS_DESTROYED : c->error;
	if (e != OK)
		pthread_mutex_unlock(&lock);
	*ctx = c;
	return e;
}

CUresult leave(CUresult e)
{
	pthread_mutex_unlock(&lock);
	return e;
}

bool abroad; /* events may be shared with other processes */

/* Waits for a change. Changes in other processes are polled. */
void pause_here(void)
{
	if (!abroad) {
		pthread_cond_wait(&moved, &lock);
		return;
	}
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if ((t.tv_nsec += 1000000) >= 1000000000)
		t.tv_sec++, t.tv_nsec -= 1000000000;
	pthread_cond_timedwait(&moved, &lock, &t);
}

static bool ready(const struct task *t)
{
	if (t->awaits && atomic_load(&t->awaits->done) < t->mark)
		return false;
	for (unsigned i = 0; i < t->waits_count; i++)
		if (t->waits[i].stream->done < t->waits[i].ticket)
			return false;
	if (t->wait) {
		uint8_t *p = seen(t->dst, t->unit);
		uint64_t v = 0;
		if (p == NULL)
			return true;
		memcpy(&v, p, t->unit);
		switch (t->flags & 3) {
		case CU_STREAM_WAIT_VALUE_EQ:
			return v == t->wanted;
		case CU_STREAM_WAIT_VALUE_AND:
			return (v & t->wanted) != 0;
		case CU_STREAM_WAIT_VALUE_NOR:
			return ~(v | t->wanted) != 0;
		default:
			return t->unit == 4 ? (int32_t)(v - t->wanted) >= 0 : (int64_t)(v - t->wanted) >= 0;
		}
	}
	return true;
}

void drop(struct task *t)
{
	free(t->args);
	free(t->params);
	free(t->staged);
	free(t);
}

static void *work(void *arg)
{
	struct stream *s = arg;
	pthread_mutex_lock(&lock);
	while (!s->o.gone || s->first) {
		struct task *t = s->first;
		if (t == NULL || !ready(t)) {
			pause_here();
			continue;
		}
		pthread_mutex_unlock(&lock);
		if (t->run && t->ctx->error == OK)
			t->run(t);
		pthread_mutex_lock(&lock);
		if (t->event)
			t->event->ns = now();
		if (t->reaches) {
			uint64_t done = atomic_load(&t->reaches->done);
			while (done < t->mark && !atomic_compare_exchange_weak(&t->reaches->done, &done, t->mark))
				;
		}
		s->first = t->next;
		if (s->first == NULL)
			s->last = &s->first;
		s->done = t->ticket;
		drop(t);
		pthread_cond_broadcast(&moved);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

struct stream *new_stream(struct context *c, unsigned flags, int priority)
{
	struct stream *s = make(STREAM, sizeof *s);
	s->ctx = c;
	s->flags = flags;
	s->priority = priority;
	s->last = &s->first;
	return s;
}

/* The stream of a handle, NULL if it is invalid. */
struct stream *stream_of(struct context *c, CUstream h)
{
	if (h == NULL || h == (CUstream)1)
		return c->legacy;
	if (h == (CUstream)2) {
		for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
			if (own[i] && own[i]->ctx == c)
				return own[i];
			if (own[i] == NULL)
				return own[i] = new_stream(c, 0, 0);
		}
		return NULL;
	}
	return known(STREAM, h);
}

CUstream fake_thread_stream(CUstream s) { return s ? s : (CUstream)2; }

void wait_for(struct task *t, struct stream *s, uint64_t ticket)
{
	if (s->done < ticket && t->waits_count < sizeof t->waits / sizeof *t->waits)
		t->waits[t->waits_count++] = (struct place){s, ticket};
}

/* Puts a task on a stream, or into the graph of its capture. Returns the place to wait for. */
struct place put(struct stream *s, struct task *t)
{
	t->ctx = s->ctx;
	if (s->capture) {
		struct node *n = add_node(s->capture, t, node_type(t));
		n->needs_count = s->tails.count;
		n->needs = calloc(n->needs_count + 1, sizeof *n->needs);
		memcpy(n->needs, s->tails.nodes, n->needs_count * sizeof *n->needs);
		s->tails = (struct tails){{n}, 1};
		return (struct place){s, 0};
	}
	if (s->legacy) {
		EACH(stream, other, STREAM)
			if (other != s && other->ctx == s->ctx && !(other->flags & CU_STREAM_NON_BLOCKING))
				wait_for(t, other, other->issued);
	} else if (!(s->flags & CU_STREAM_NON_BLOCKING))
		wait_for(t, s->ctx->legacy, s->ctx->legacy->issued);
	if (s->issued == 0 && s->ctx->behind.stream)
		wait_for(t, s->ctx->behind.stream, s->ctx->behind.ticket);
	t->ticket = ++s->issued;
	*s->last = t;
	s->last = &t->next;
	if (!s->started) {
		s->started = true;
		pthread_create(&s->thread, NULL, work, s);
		pthread_detach(s->thread);
	}
	pthread_cond_broadcast(&moved);
	return (struct place){s, t->ticket};
}

CUresult await(struct place p)
{
	while (p.stream->done < p.ticket)
		pthread_cond_wait(&moved, &lock);
	return p.stream->ctx->error;
}

CUresult fake_unsupported(const char *name)
{
	static const char *told[600];
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < sizeof told / sizeof *told && told[i] != name; i++)
		if (told[i] == NULL) {
			told[i] = name;
			fprintf(stderr, "fakecuda: %s is not simulated and returns %d\n", name, CUDA_ERROR_NOT_SUPPORTED);
			break;
		}
	pthread_mutex_unlock(&lock);
	return CUDA_ERROR_NOT_SUPPORTED;
}
