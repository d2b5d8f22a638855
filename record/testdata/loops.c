/*
 * loops BINARY KIND STEPS QUEUE: a program with one of the loops of `loops` below. QUEUE is as TASK_QUEUE_ENABLE: with 1 or 2 another thread
 * makes the launches, in one or in two stages. A step loads its inputs for a while before it copies them. Prints the number of steps.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

#define CHECK(call)                                                                                                                                  \
	do {                                                                                                                                             \
		int code = (call);                                                                                                                           \
		if (code != 0) {                                                                                                                             \
			fprintf(stderr, "%s: %d\n", #call, code);                                                                                                \
			exit(1);                                                                                                                                 \
		}                                                                                                                                            \
	} while (0)

uint64_t mstxRangeStartA(const char *message, aclrtStream stream);
void mstxRangeEnd(uint64_t id);

#ifdef BINARY

/* Kernels that nothing computes. */
#define KERNEL(name) \
	void name(void);   \
	void name(void) {}
KERNEL(embedding)
KERNEL(layer_norm)
KERNEL(matmul)
KERNEL(softmax)
KERNEL(gelu)
KERNEL(mul)
KERNEL(add)
KERNEL(reduce)
KERNEL(sqrt_kernel)
KERNEL(fill)
KERNEL(copy_kernel)
KERNEL(cast)

#elif defined LIBRARY

uint64_t mstxRangeStartA(const char *message, aclrtStream stream)
{
	static uint64_t last;
	(void)stream;
	return message == NULL ? 0 : ++last;
}

void mstxRangeEnd(uint64_t id) { (void)id; }

#else

enum { SIZE = 4096, MOST = 64, LAYERS = 4 };

static int steps, queue_mode, device;
static void *device_memory, *host_memory;

/* ---- the task queue ---- */

struct task {
	enum { LAUNCH, IN, OUT, RECORD, WAIT } what;
	aclrtFuncHandle kernel;
	aclrtEvent event;
	aclrtStream on;
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct task tasks[1024];
	unsigned begun, ended, added;
	struct queue *next;
};
static struct queue last = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static struct queue first = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .next = &last};

static void perform(const struct task *t)
{
	void *args[] = {device_memory, device_memory};
	switch (t->what) {
	case LAUNCH:
		CHECK(aclrtLaunchKernelWithHostArgs(t->kernel, 1, t->on, NULL, args, sizeof args, NULL, 0));
		break;
	case IN:
		CHECK(aclrtMemcpyAsync(device_memory, SIZE, host_memory, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, t->on));
		break;
	case OUT:
		CHECK(aclrtMemcpyAsync(host_memory, SIZE, device_memory, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, t->on));
		break;
	case RECORD:
		CHECK(aclrtRecordEvent(t->event, t->on));
		break;
	case WAIT:
		CHECK(aclrtStreamWaitEvent(t->on, t->event));
		break;
	}
}

static void add(struct queue *q, const struct task *t)
{
	pthread_mutex_lock(&q->lock);
	while (q->added - q->ended == sizeof q->tasks / sizeof *q->tasks)
		pthread_cond_wait(&q->changed, &q->lock);
	q->tasks[q->added++ % (sizeof q->tasks / sizeof *q->tasks)] = *t;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

static void *consume(void *of)
{
	struct queue *q = of;
	CHECK(aclrtSetDevice(device));
	for (;;) {
		pthread_mutex_lock(&q->lock);
		while (q->begun == q->added)
			pthread_cond_wait(&q->changed, &q->lock);
		struct task t = q->tasks[q->begun++ % (sizeof q->tasks / sizeof *q->tasks)];
		pthread_mutex_unlock(&q->lock);
		if (q->next)
			add(q->next, &t);
		else
			perform(&t);
		pthread_mutex_lock(&q->lock);
		q->ended++;
		pthread_cond_broadcast(&q->changed);
		pthread_mutex_unlock(&q->lock);
	}
	return NULL;
}

static void drain(void)
{
	for (struct queue *q = queue_mode == 2 ? &first : &last; q; q = q->next) {
		pthread_mutex_lock(&q->lock);
		while (q->ended != q->added)
			pthread_cond_wait(&q->changed, &q->lock);
		pthread_mutex_unlock(&q->lock);
	}
}

static void push(struct task t)
{
	if (queue_mode == 0)
		perform(&t);
	else
		add(queue_mode == 2 ? &first : &last, &t);
}

/* ---- parts of a step ---- */

static const char *const names[] = {"embedding", "layer_norm", "matmul", "softmax", "gelu", "mul", "add", "reduce", "sqrt_kernel", "fill", "copy_kernel", "cast"};
enum { EMBEDDING, NORM, MATMUL, SOFTMAX, GELU, MUL, ADD, REDUCE, SQRT, FILL, COPY, CAST, KERNELS };
static aclrtFuncHandle kernels[KERNELS];
static aclrtStream stream, side;

static void launch(int kernel, aclrtStream on) { push((struct task){.what = LAUNCH, .kernel = kernels[kernel], .on = on}); }

/* Loading takes longer than anything else in a step, longest in one of the steps. */
static void load(int step) { usleep(step == steps / 2 ? 12000 : 1500); }

static void input(aclrtStream on)
{
	push((struct task){.what = IN, .on = on});
	push((struct task){.what = IN, .on = on});
}

/* A copy from pageable memory: the framework waits, and the main thread copies. */
static void pageable(void)
{
	for (int i = 0; i < 2; i++) {
		drain();
		CHECK(aclrtSynchronizeStream(stream));
		CHECK(aclrtMemcpy(device_memory, SIZE, host_memory, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	}
}

static void wait_for(aclrtStream on)
{
	drain();
	CHECK(aclrtSynchronizeStream(on));
}

static void result(void)
{
	wait_for(stream);
	CHECK(aclrtMemcpy(host_memory, 4, device_memory, 4, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void layer(aclrtStream on)
{
	for (int k = NORM; k <= MUL; k++)
		launch(k, on);
	launch(MATMUL, on);
}

static void forward(aclrtStream on)
{
	launch(EMBEDDING, on);
	for (int l = 0; l < LAYERS; l++)
		layer(on);
}

static void backward(aclrtStream on)
{
	launch(REDUCE, on);
	for (int l = 0; l < LAYERS; l++)
		for (int k = MUL; k >= NORM; k--)
			launch(k, on);
}

/* The first step also makes the optimizer's state. */
static void optimize(aclrtStream on, int step)
{
	for (int i = 0; step == 0 && i < 6; i++)
		launch(FILL, on);
	for (int i = 0; i < 6; i++) {
		launch(MUL, on);
		launch(ADD, on);
		launch(SQRT, on);
	}
}

static void setup(const char *binary)
{
	aclrtBinHandle bin;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(device));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtCreateStream(&side));
	CHECK(aclrtMalloc(&device_memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMallocHost(&host_memory, SIZE));
	CHECK(aclrtBinaryLoadFromFile(binary, NULL, &bin));
	for (int i = 0; i < KERNELS; i++)
		CHECK(aclrtBinaryGetFunction(bin, names[i], &kernels[i]));
	for (int i = 0; i < 5; i++) /* the model */
		CHECK(aclrtMemcpy(device_memory, SIZE, host_memory, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	pthread_t t;
	for (struct queue *q = queue_mode == 2 ? &first : queue_mode ? &last : NULL; q; q = q->next)
		CHECK(pthread_create(&t, NULL, consume, q));
}

/* ---- loops ---- */

static void train(int i)
{
	load(i);
	input(stream);
	forward(stream);
	backward(stream);
	optimize(stream, i);
}

static void train_waits(void)
{
	for (int i = 0; i < steps; i++) {
		train(i);
		result();
	}
}

static void train_runs_on(void)
{
	for (int i = 0; i < steps; i++)
		train(i);
}

static void train_pageable(void)
{
	for (int i = 0; i < steps; i++) {
		load(i);
		pageable();
		forward(stream);
		backward(stream);
		optimize(stream, i);
	}
}

/* The norm of the gradients is read in the middle of a step, and nothing at its end. */
static void train_clips(void)
{
	for (int i = 0; i < steps; i++) {
		load(i);
		input(stream);
		forward(stream);
		backward(stream);
		launch(REDUCE, stream);
		result();
		optimize(stream, i);
	}
}

static void train_marks(void)
{
	for (int i = 0; i < steps; i++) {
		char name[32];
		snprintf(name, sizeof name, "step %d", i);
		uint64_t r = mstxRangeStartA(name, NULL);
		train(i);
		mstxRangeEnd(r);
	}
}

static void accumulate(int waits)
{
	for (int i = 0; i < steps; i++) {
		for (int m = 0; m < 4; m++) {
			load(i);
			input(stream);
			forward(stream);
			backward(stream);
		}
		optimize(stream, i);
		if (waits)
			result();
	}
}

static void accumulate_waits(void) { accumulate(1); }
static void accumulate_runs_on(void) { accumulate(0); }

static void evaluate(int waits)
{
	for (int i = 0; i < steps; i++) {
		train(i);
		if (waits)
			result();
		for (int e = 0; i % 5 == 4 && e < 3; e++) {
			input(stream);
			forward(stream);
			launch(REDUCE, stream);
			result();
		}
	}
}

static void evaluate_waits(void) { evaluate(1); }
static void evaluate_runs_on(void) { evaluate(0); }

static void infer(void)
{
	for (int i = 0; i < steps; i++) {
		load(i);
		input(stream);
		forward(stream);
		result();
	}
}

/* Nothing but launches. */
static void bare(void)
{
	for (int i = 0; i < steps; i++) {
		usleep(i == steps / 2 ? 12000 : 1500);
		forward(stream);
		backward(stream);
	}
}

static void two_devices(void)
{
	aclrtStream other;
	void *there;
	CHECK(aclrtSetDevice(1));
	CHECK(aclrtCreateStream(&other));
	CHECK(aclrtMalloc(&there, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtSetDevice(0));
	for (int i = 0; i < steps; i++) {
		load(i);
		input(stream);
		forward(stream);
		wait_for(stream);
		CHECK(aclrtSetDevice(1));
		CHECK(aclrtMemcpy(there, SIZE, host_memory, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
		CHECK(aclrtMemcpyAsync(host_memory, SIZE, there, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, other));
		CHECK(aclrtSynchronizeStream(other));
		CHECK(aclrtSetDevice(0));
		backward(stream);
		optimize(stream, i);
		result();
	}
}

static void *one_thread(void *of)
{
	aclrtStream own;
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&own));
	int n = *(int *)of;
	for (int i = 0; i < steps; i++) {
		load(i);
		input(own);
		for (int k = 0; k < n; k++)
			forward(own);
		wait_for(own);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[3];
	int n[3] = {1, 3, 1};
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&t[i], NULL, one_thread, &n[i]));
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(t[i], NULL));
}

/* ---- decoding ---- */

enum { SIZES = 3 };
static aclmdlRI graphs[SIZES][LAYERS + 1];

static void capture(int pieces)
{
	for (int s = 0; s < SIZES; s++) {
		for (int warm = 0; warm < 2; warm++) {
			forward(side);
			wait_for(side);
		}
		for (int p = 0; p < pieces; p++) {
			CHECK(aclmdlRICaptureBegin(side, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
			if (p == 0)
				launch(EMBEDDING, side);
			for (int l = 0; l < (pieces == 1 ? LAYERS : p > 0); l++)
				layer(side);
			launch(s == 0 ? COPY : s == 1 ? FILL : CAST, side);
			drain();
			CHECK(aclmdlRICaptureEnd(side, &graphs[s][p]));
		}
	}
}

/* The next token. The event comes late to its thread. */
static aclrtEvent arrived;
static pthread_t output;

static void *await(void *of)
{
	(void)of;
	CHECK(aclrtSetDevice(0));
	usleep(200);
	CHECK(aclrtSynchronizeEvent(arrived));
	return NULL;
}

static void sample(int outputs)
{
	launch(MATMUL, stream);
	launch(REDUCE, stream);
	if (!outputs) {
		push((struct task){.what = OUT, .on = stream});
		wait_for(stream);
		return;
	}
	if (output)
		CHECK(pthread_join(output, NULL));
	push((struct task){.what = RECORD, .event = arrived, .on = stream});
	push((struct task){.what = WAIT, .event = arrived, .on = side});
	push((struct task){.what = OUT, .on = side});
	push((struct task){.what = RECORD, .event = arrived, .on = side});
	drain();
	CHECK(pthread_create(&output, NULL, await, NULL));
}

static void decode(int pieces, int outputs)
{
	CHECK(aclrtCreateEventWithFlag(&arrived, ACL_EVENT_SYNC));
	capture(pieces);
	for (int i = 0; i < steps; i++) {
		load(i);
		input(stream);
		launch(FILL, stream);
		if (i % 7 == 0) {
			forward(stream); /* a prompt */
		} else {
			for (int p = 0; p < pieces; p++) {
				wait_for(stream);
				CHECK(aclmdlRIExecuteAsync(graphs[i / 7 % SIZES][p], stream));
			}
		}
		sample(outputs);
	}
	if (output)
		CHECK(pthread_join(output, NULL));
}

static void decode_full(void) { decode(1, 0); }
static void decode_outputs(void) { decode(1, 1); }
static void decode_pieces(void) { decode(LAYERS + 1, 0); }

static void prompts(void)
{
	CHECK(aclrtCreateEventWithFlag(&arrived, ACL_EVENT_SYNC));
	for (int i = 0; i < steps; i++) {
		load(i);
		input(stream);
		for (int n = i % 4 == 0 ? 2 : 1; n > 0; n--)
			forward(stream);
		sample(0);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
	int processes;
} loops[] = {
	{"train", train_waits, 1},
	{"train-runs-on", train_runs_on, 1},
	{"train-pageable", train_pageable, 1},
	{"train-clips", train_clips, 1},
	{"train-marks", train_marks, 1},
	{"accumulate", accumulate_waits, 1},
	{"accumulate-runs-on", accumulate_runs_on, 1},
	{"evaluate", evaluate_waits, 1},
	{"evaluate-runs-on", evaluate_runs_on, 1},
	{"infer", infer, 1},
	{"bare", bare, 1},
	{"two-devices", two_devices, 1},
	{"threads", threads, 1},
	{"ranks", train_waits, 2},
	{"decode", decode_full, 1},
	{"decode-outputs", decode_outputs, 1},
	{"decode-pieces", decode_pieces, 1},
	{"prompts", prompts, 1},
};

int main(int argc, char **argv)
{
	steps = argc == 5 ? atoi(argv[3]) : 0;
	queue_mode = argc == 5 ? atoi(argv[4]) : 0;
	for (size_t i = 0; steps > 0 && i < sizeof loops / sizeof *loops; i++) {
		if (strcmp(loops[i].name, argv[2]) != 0)
			continue;
		int bad = 0;
		while (device + 1 < loops[i].processes && fork() != 0)
			device++;
		setup(argv[1]);
		loops[i].run();
		wait_for(stream);
		if (device + 1 < loops[i].processes)
			return 0;
		for (int status; wait(&status) > 0;)
			bad |= status;
		printf("%d\n", steps);
		return bad != 0;
	}
	fprintf(stderr, "usage: loops BINARY KIND STEPS QUEUE\n");
	return 2;
}

#endif
