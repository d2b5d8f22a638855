/* Streams, events, and host functions on streams. */
#include "driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority)
{
	ENTER(c);
	if (phStream == NULL || flags > CU_STREAM_NON_BLOCKING)
		return leave(INVALID);
	return STORE(phStream, (CUstream)new_stream(c, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority));
}

CUresult cuStreamCreate(CUstream *phStream, unsigned Flags) { return cuStreamCreateWithPriority(phStream, Flags, 0); }

/* The stream of a handle. Returns 0 with the lock held. */
CUresult on_stream(CUstream h, struct stream **s)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	*s = stream_of(c, h);
	return *s ? OK : leave(HANDLE);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
	ON_STREAM(s, hStream);
	if (s != known(STREAM, hStream) || s->legacy)
		return leave(HANDLE);
	s->o.gone = true; /* takes effect after its work */
	pthread_cond_broadcast(&moved);
	return leave(OK);
}

CUresult cuStreamSynchronize(CUstream hStream)
{
	ON_STREAM(s, hStream);
	if (s->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return leave(await((struct place){s, s->issued}));
}

CUresult cuStreamQuery(CUstream hStream)
{
	ON_STREAM(s, hStream);
	return leave(s->done < s->issued ? CUDA_ERROR_NOT_READY : OK);
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	ON_STREAM(s, hStream);
	return STORE(priority, s->priority);
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned *flags)
{
	ON_STREAM(s, hStream);
	return STORE(flags, s->flags);
}

CUresult cuEventCreate(CUevent *phEvent, unsigned Flags)
{
	ENTER(c);
	bool shared = Flags & CU_EVENT_INTERPROCESS;
	if (phEvent == NULL || (shared && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return leave(INVALID);
	struct event *v = make(EVENT, sizeof *v);
	v->flags = Flags;
	if (shared)
		v->record = new_record(EVENT, c->device, 0, 0);
	*phEvent = (CUevent)v;
	return leave(shared && v->record == NULL ? CUDA_ERROR_OUT_OF_MEMORY : OK);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	ENTER(c);
	struct event *v = known(EVENT, event);
	if (v == NULL)
		return leave(HANDLE);
	if (pHandle == NULL || v->record == NULL || v->record < records || v->record >= records + RECORDS)
		return leave(INVALID);
	give_key(pHandle, event_magic, (struct ipc){.record = record_at(v->record)});
	abroad = true;
	return leave(OK);
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct ipc key;
	memcpy(&key, &handle, sizeof key);
	if (phEvent == NULL || memcmp(key.magic, event_magic, sizeof key.magic) != 0)
		return INVALID;
	ENTER(c);
	if (key.process == getpid())
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	int from = open_file(key.process, key.file);
	uint8_t *page = from < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, from, (off_t)(key.record / PAGE * PAGE));
	if (from >= 0)
		close(from);
	if (page == MAP_FAILED)
		return leave(CUDA_ERROR_MAP_FAILED);
	struct event *v = make(EVENT, sizeof *v);
	v->flags = CU_EVENT_DISABLE_TIMING;
	v->record = (struct record *)(page + key.record % PAGE);
	*phEvent = (CUevent)v;
	abroad = true;
	return leave(OK);
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
	FIND(event, v, known(EVENT, hEvent), HANDLE);
	v->o.gone = true;
	return leave(OK);
}

struct task *new_task(void (*run)(struct task *))
{
	struct task *t = calloc(1, sizeof *t);
	t->run = run;
	return t;
}

void add_tails(struct tails *t, struct node *const *nodes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned k = 0;
		while (k < t->count && t->nodes[k] != nodes[i])
			k++;
		if (k == t->count && k < sizeof t->nodes / sizeof *t->nodes)
			t->nodes[t->count++] = nodes[i];
	}
}

void record_on(struct stream *s, struct event *v)
{
	if (s->capture) {
		v->capture = s->capture;
		v->tails = s->tails;
		v->place = (struct place){s, 0};
		return;
	}
	struct task *t = new_task(NULL);
	t->event = v;
	if (v->record)
		t->reaches = v->record, t->mark = atomic_fetch_add(&v->record->issued, 1) + 1;
	v->capture = NULL;
	v->place = put(s, t);
}

static bool reached(const struct event *v)
{
	return v->record ? atomic_load(&v->record->done) >= atomic_load(&v->record->issued) : v->place.stream == NULL || v->place.stream->done >= v->place.ticket;
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned flags)
{
	if (flags > CU_EVENT_RECORD_EXTERNAL)
		return INVALID;
	ON_STREAM(s, hStream);
	struct event *v = known(EVENT, hEvent);
	if (v == NULL)
		return leave(HANDLE);
	if (s->capture && flags == CU_EVENT_RECORD_EXTERNAL) {
		/* Becomes a node; each run of the graph records it. */
		struct task *t = new_task(NULL);
		t->event = v;
		put(s, t);
	} else {
		record_on(s, v);
	}
	return leave(OK);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) { return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT); }

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned Flags)
{
	if (Flags)
		return INVALID;
	ON_STREAM(s, hStream);
	struct event *v = known(EVENT, hEvent);
	if (v == NULL)
		return leave(HANDLE);
	if (v->capture && s->capture == NULL)
		s->capture = v->capture, s->tails = (struct tails){.count = 0}; /* it joins the capture */
	if (v->capture)
		add_tails(&s->tails, v->tails.nodes, v->tails.count);
	if (v->record && v->capture == NULL) {
		struct task *t = new_task(NULL);
		t->awaits = v->record, t->mark = atomic_load(&v->record->issued);
		put(s, t);
	} else if (v->place.stream && v->capture == NULL) {
		struct task *t = new_task(NULL);
		wait_for(t, v->place.stream, v->place.ticket);
		put(s, t);
	}
	return leave(OK);
}

CUresult cuEventQuery(CUevent hEvent)
{
	FIND(event, v, known(EVENT, hEvent), HANDLE);
	return leave(reached(v) ? OK : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent hEvent)
{
	FIND(event, v, known(EVENT, hEvent), HANDLE);
	for (uint64_t mark = v->record ? atomic_load(&v->record->issued) : 0; v->record && atomic_load(&v->record->done) < mark;)
		pause_here();
	return leave(v->place.stream ? await(v->place) : OK);
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	FIND(event, a, known(EVENT, hStart), HANDLE);
	struct event *b = known(EVENT, hEnd);
	if (b == NULL || a->place.stream == NULL || b->place.stream == NULL || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
		return leave(HANDLE);
	if (a->place.stream->done < a->place.ticket || b->place.stream->done < b->place.ticket)
		return leave(CUDA_ERROR_NOT_READY);
	return STORE(pMilliseconds, (float)((double)(int64_t)(b->ns - a->ns) / 1e6));
}
