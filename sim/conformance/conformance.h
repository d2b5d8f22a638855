/*
 * Shared by the programs of the conformance suite. A program is one rule: RULE(name) { … } runs with the runtime
 * initialized and device 0 set, RULE_BARE(name) { … } in a process that has not called the runtime. It ends with 0 if the
 * rule is kept; the first failed check ends it with 1. Compiled together, the first argument selects the rule.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"

struct rule {
	const char *name;
	void (*run)(void);
	int bare;
	struct rule *next;
};

static struct rule *rules;

#define ENTRY(id, is_bare)                                                                     \
	static void rule_##id(void);                                                           \
	__attribute__((constructor)) static void add_##id(void)                                \
	{                                                                                      \
		static struct rule r = {.name = #id, .run = rule_##id, .bare = is_bare};       \
                                                                                               \
		r.next = rules;                                                                \
		rules = &r;                                                                    \
	}                                                                                      \
	static void rule_##id(void)
#define RULE(id) ENTRY(id, 0)
#define RULE_BARE(id) ENTRY(id, 1)

/* How long something may take that is to happen at once, in ms. A simulator that breaks a rule uses all of it. */
static int patience = 180000;
/* Factor for all pauses in which a wrong result may appear. A busy machine needs a larger one. */
static int slowly = 1;

#define UNUSED __attribute__((unused)) static

UNUSED __attribute__((noreturn, format(printf, 1, 2))) void broke(const char *format, ...)
{
	va_list a;

	va_start(a, format);
	vfprintf(stderr, format, a);
	va_end(a);
	fputc('\n', stderr);
	fflush(stderr);
	_exit(1);
}

#define WANT(code, call)                                                                                                             \
	do {                                                                                                                         \
		aclError want_ = (code), got_ = (call);                                                                              \
                                                                                                                                     \
		if (got_ != want_) {                                                                                                 \
			const char *why_ = aclGetRecentErrMsg();                                                                     \
			broke("%s:%d: %s returned %d, not %d: %s", __FILE__, __LINE__, #call, got_, want_, why_ ? why_ : "no text"); \
		}                                                                                                                    \
	} while (0)
#define OK(call) WANT(ACL_SUCCESS, call)
#define INVALID(call) WANT(ACL_ERROR_RT_PARAM_INVALID, call)
/* Errors of AscendCL itself, before the library below sees the call. */
#define REFUSED(call) WANT(ACL_ERROR_INVALID_PARAM, call)
#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition))                                                     \
			broke("%s:%d: %s is false", __FILE__, __LINE__, #condition);  \
	} while (0)

/* Calls that must return while a stream is held: otherwise the process ends with 1. */
UNUSED void hangs(int signal)
{
	static const char text[] = "a call hangs that may not wait\n";

	(void)signal;
	if (write(2, text, sizeof text - 1) < 0)
		_exit(1);
	_exit(1);
}

UNUSED void alarm_ms(int ms)
{
	struct itimerval t = {.it_value = {ms / 1000, ms % 1000 * 1000}};

	signal(SIGALRM, hangs);
	setitimer(ITIMER_REAL, &t, NULL);
}

#define AT_ONCE(statement)          \
	do {                        \
		alarm_ms(patience); \
		statement;          \
		alarm_ms(0);        \
	} while (0)

UNUSED void pause_ms(int ms)
{
	if (ms > 1)
		ms *= slowly;
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

/* Waits until a thread sleeps, as one does that waits in a call. */
UNUSED void sleeping(int tid)
{
	char path[64], stat[512];

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	for (const char *state = NULL; !state || strncmp(state, ") S", 3); pause_ms(1)) {
		FILE *f = fopen(path, "r");

		if (!f)
			return;
		stat[fread(stat, 1, sizeof stat - 1, f)] = 0;
		fclose(f);
		state = strrchr(stat, ')');
	}
}

/* A gate holds a stream from hold to open: later tasks can't have run before. */
struct gate {
	atomic_int open, reached;
};

UNUSED void wait_at_gate(void *gate)
{
	struct gate *g = gate;

	atomic_store(&g->reached, 1);
	while (!atomic_load(&g->open))
		pause_ms(1);
}

UNUSED void hold(struct gate *g, aclrtStream s) { OK(aclrtLaunchHostFunc(s, wait_at_gate, g)); }

UNUSED void open_gate(struct gate *g) { atomic_store(&g->open, 1); }

UNUSED void *open_soon(void *gate)
{
	pause_ms(100);
	open_gate(gate);
	return NULL;
}

/* Opens a gate after a moment, from another thread. */
UNUSED void open_later(struct gate *g)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, open_soon, g));
	pthread_detach(t);
}

/* Waits until the device has come to the gate. */
UNUSED void at_gate(struct gate *g)
{
	for (int i = 0; i < patience && !atomic_load(&g->reached); i++)
		pause_ms(1);
	CHECK(atomic_load(&g->reached));
}

/* Calls a function on a thread of its own and waits for it. */
UNUSED void elsewhere(void *(*f)(void *), void *arg)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, f, arg));
	CHECK(!pthread_join(t, NULL));
}

UNUSED aclrtStream new_stream(void)
{
	aclrtStream s;

	OK(aclrtCreateStream(&s));
	return s;
}

UNUSED aclrtEvent new_event(void)
{
	aclrtEvent e;

	OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
	return e;
}

/* Waits for a stream, with a limit. */
UNUSED void finish(aclrtStream s) { OK(aclrtSynchronizeStreamWithTimeout(s, patience)); }

/* Memory of the device, all bytes 0; pinned host memory. */
UNUSED void *device(size_t n)
{
	void *p;

	OK(aclrtMalloc(&p, n, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemset(p, n, 0, n));
	return p;
}

UNUSED void *pinned(size_t n)
{
	void *p;

	OK(aclrtMallocHost(&p, n));
	memset(p, 0, n);
	return p;
}

/* A word of device memory, read and written at once. */
UNUSED uint64_t word(const void *p)
{
	uint64_t v;

	OK(aclrtMemcpy(&v, sizeof v, p, sizeof v, ACL_MEMCPY_DEVICE_TO_HOST));
	return v;
}

UNUSED void set_word(void *p, uint64_t v) { OK(aclrtMemcpy(p, sizeof v, &v, sizeof v, ACL_MEMCPY_HOST_TO_DEVICE)); }

UNUSED int stream_done(aclrtStream s)
{
	aclrtStreamStatus status;

	OK(aclrtStreamQuery(s, &status));
	return status == ACL_STREAM_STATUS_COMPLETE;
}

UNUSED int event_done(aclrtEvent e)
{
	aclrtEventRecordedStatus status;

	OK(aclrtQueryEventStatus(e, &status));
	return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

/* The kernels of kernels/kernels.c, from the binary that CONFORMANCE_BINARY names. */
UNUSED aclrtBinHandle binary(void)
{
	static aclrtBinHandle b;
	const char *path = getenv("CONFORMANCE_BINARY");

	if (!path)
		broke("CONFORMANCE_BINARY has to name the object of kernels/kernels.c");
	if (!b)
		OK(aclrtBinaryLoadFromFile(path, NULL, &b));
	return b;
}

UNUSED aclrtFuncHandle kernel(const char *name)
{
	aclrtFuncHandle f;

	OK(aclrtBinaryGetFunction(binary(), name, &f));
	return f;
}

/* Arguments of the kernel store: *to = value. */
struct store_args {
	void *to;
	uint64_t value;
};

/* Launches a kernel that stores a word. Returns the launch's code, which may be an error. */
UNUSED aclError launch_store(aclrtStream s, void *to, uint64_t value)
{
	struct store_args a = {to, value};

	return aclrtLaunchKernelWithHostArgs(kernel("store"), 1, s, NULL, &a, sizeof a, NULL, 0);
}

UNUSED void store(aclrtStream s, void *to, uint64_t value) { OK(launch_store(s, to, value)); }

/* Captures a store into a part of a model that is being captured. */
UNUSED void store_part(aclmdlRI part, void *to, uint64_t value)
{
	aclrtStream s = new_stream();

	OK(aclmdlRICaptureToModelRIBegin(s, part, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	store(s, to, value);
	OK(aclmdlRICaptureEnd(s, &part));
}

/* Begins a capture and makes a condition of the model, whose word is returned. */
UNUSED uint64_t *begin_with_condition(aclrtStream s, uint32_t value, int assigned, aclmdlRICondHandle *condition)
{
	aclmdlRICaptureStatus status;
	aclmdlRI model;
	uint64_t *word;

	kernel("store");
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	OK(aclmdlRICaptureGetInfo(s, &status, &model));
	OK(aclmdlRICondHandleCreate(model, value, (aclmdlRICondHandleFlag)(assigned ? ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT : 0), condition));
	OK(aclmdlRICondHandleGetCondPtr(*condition, &word));
	return word;
}

/* Puts a task that asks a condition on a stream. */
UNUSED aclError ask(aclrtStream s, aclmdlRICondHandle condition, aclmdlRICondTaskType type, uint32_t size, aclmdlRI *parts)
{
	aclmdlRICondTaskParams p = {.handle = condition, .type = type, .size = size, .modelRIArray = parts};

	return aclmdlRIAddCondTask(p, s, 0);
}

/* Runs a model and waits for it. */
UNUSED void run_model(aclmdlRI model, aclrtStream s)
{
	OK(aclmdlRIExecuteAsync(model, s));
	finish(s);
}

int main(int argc, char **argv)
{
	struct rule *r = rules;

	while (r && argc > 1 && strcmp(r->name, argv[1]))
		r = r->next;
	if (!r)
		broke("there is no rule %s", argc > 1 ? argv[1] : "");
	if (getenv("ACLSIM_BREAK"))
		patience = 1500;
	if (getenv("CONFORMANCE_SLOWLY"))
		slowly = atoi(getenv("CONFORMANCE_SLOWLY"));
	if (!r->bare) {
		OK(aclInit(NULL));
		OK(aclrtSetDevice(0));
	}
	r->run();
	fflush(NULL);
	_exit(0);
}

#endif
