/* loop MANNER PROBLEM makes 30 steps. MANNER is eager, queue (another thread makes the calls), graphs (each layer is captured), ranks
 * (two processes, eager) or workers (a process for data that makes no call). PROBLEM is "none" or of problems.c. */
#include "loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct loop loop = {.kernel_us = 60, .layers = LAYERS, .launches = 3};
static const struct problem *problem;
static const char *manner;

void check(int code, const char *call)
{
	if (code == ACL_SUCCESS)
		return;
	fprintf(stderr, "loop: %s returned %d: %s\n", call, code, aclGetRecentErrMsg());
	_exit(1);
}

/* ---- time ---- */

extern void aclsim_work(int64_t ns) __attribute__((weak));
extern int64_t aclsim_now(void) __attribute__((weak));

void host(int us)
{
	if (aclsim_work)
		aclsim_work((int64_t)us * 1000);
	else
		usleep((useconds_t)us);
}

static int64_t now(void)
{
	return aclsim_now ? aclsim_now() : 0;
}

/* The virtual clock does not see that a thread waits for another one. */
static void pass_until(int64_t t)
{
	if (aclsim_work && t > now())
		aclsim_work(t - now());
}

/* ---- the queue ---- */

struct task {
	void (*run)(void *);
	void *arg;
	int64_t at;
};

static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct task tasks[4096];
	unsigned pushed, done;
	int64_t done_at;
	bool on, ending;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *run_queue(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "acl_thread");
	OK(aclrtSetDevice(0));
	pthread_mutex_lock(&queue.lock);
	for (;;) {
		while (queue.done == queue.pushed && !queue.ending)
			pthread_cond_wait(&queue.changed, &queue.lock);
		if (queue.done == queue.pushed)
			break;
		struct task t = queue.tasks[queue.done % 4096];
		pthread_mutex_unlock(&queue.lock);
		pass_until(t.at + 1000);
		t.run(t.arg);
		pthread_mutex_lock(&queue.lock);
		queue.done++;
		queue.done_at = now();
		pthread_cond_broadcast(&queue.changed);
	}
	pthread_mutex_unlock(&queue.lock);
	return NULL;
}

void submit(void (*run)(void *), void *arg)
{
	if (!queue.on) {
		run(arg);
		return;
	}
	pthread_mutex_lock(&queue.lock);
	queue.tasks[queue.pushed++ % 4096] = (struct task){run, arg, now()};
	pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
}

void drain(void)
{
	if (!queue.on)
		return;
	pthread_mutex_lock(&queue.lock);
	while (queue.done != queue.pushed)
		pthread_cond_wait(&queue.changed, &queue.lock);
	pthread_mutex_unlock(&queue.lock);
	pass_until(queue.done_at + 1000);
}

static void end_queue(void)
{
	if (!queue.on)
		return;
	drain();
	pthread_mutex_lock(&queue.lock);
	queue.ending = true;
	pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
	pthread_join(queue.thread, NULL);
	queue.on = false;
}

/* ---- kernels ---- */

struct args {
	const void *x;
	void *y;
	uint64_t count;
	float factor;
	uint32_t us;
};

struct launched {
	aclrtFuncHandle kernel;
	aclrtStream stream;
	struct args args;
};

static aclrtBinHandle binary;

static void launch_now(void *arg)
{
	struct launched *l = arg;

	OK(aclrtLaunchKernelWithHostArgs(l->kernel, 1, l->stream, NULL, &l->args, sizeof l->args, NULL, 0));
	free(l);
}

void launch(aclrtStream s, const char *kernel, int us)
{
	static struct {
		const char *name;
		aclrtFuncHandle f;
	} known[16];
	struct launched *l = malloc(sizeof *l);
	int i = 0;

	host(4); /* the framework's share of a launch */
	while (known[i].name && strcmp(known[i].name, kernel) != 0)
		i++;
	if (!known[i].name) {
		known[i].name = kernel;
		OK(aclrtBinaryGetFunction(binary, kernel, &known[i].f));
	}
	*l = (struct launched){known[i].f, s, {loop.x, loop.y, 64, 0.5f, (uint32_t)us}};
	submit(launch_now, l);
}

void *device_memory(size_t bytes)
{
	void *p;

	OK(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
	return p;
}

/* ---- a step ---- */

static aclmdlRI captured[LAYERS];

bool graphs(void)
{
	return strcmp(manner, "graphs") == 0;
}

static void body(aclrtStream s)
{
	static const char *const kernels[] = {"attention", "mlp", "gelu"};

	for (int i = 0; i < loop.launches; i++)
		launch(s, kernels[i % 3], loop.kernel_us);
}

void layer_eager(void)
{
	body(loop.stream);
}

void capture(void)
{
	aclrtStream s;

	OK(aclrtCreateStream(&s));
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	body(s);
	OK(aclmdlRICaptureEnd(s, &captured[loop.layer]));
}

static void layer(void)
{
	if (problem->replaces && problem->replaces())
		return;
	if (!graphs()) {
		layer_eager();
		return;
	}
	host(10);
	OK(aclmdlRIExecuteAsync(captured[loop.layer], loop.stream));
}

static void copy_batch(void *unused)
{
	(void)unused;
	OK(aclrtMemcpyAsync(loop.x, BATCH, loop.pageable_batch ? loop.pageable : loop.batch, BATCH, ACL_MEMCPY_HOST_TO_DEVICE, loop.stream));
}

static void copy_loss(void *unused)
{
	(void)unused;
	OK(aclrtMemcpyAsync(loop.loss, 4, loop.y, 4, ACL_MEMCPY_DEVICE_TO_HOST, loop.stream));
}

void wait_step(void)
{
	drain();
	OK(aclrtSynchronizeStream(loop.stream));
}

static void step(void)
{
	host(40); /* the next batch is ready */
	if (problem->batch)
		problem->batch();
	submit(copy_batch, NULL);
	launch(loop.stream, "embed", loop.kernel_us);
	for (loop.layer = 0; loop.layer < loop.layers; loop.layer++) {
		layer();
		if (problem->layer)
			problem->layer();
	}
	launch(loop.stream, "loss", loop.kernel_us);
	submit(copy_loss, NULL);
	wait_step();
	if (problem->end)
		problem->end();
}

/* ---- processes ---- */

/* Starts this program again for each rank, and ends as they do. */
static int start_ranks(void)
{
	int status, worst = 0;

	for (int i = 0; i < 2; i++) {
		if (fork() == 0) {
			char rank[] = {(char)('0' + i), 0};
			setenv("RANK", rank, 1);
			setenv("WORLD_SIZE", "2", 1);
			execv("/proc/self/exe", loop.argv);
			_exit(127);
		}
	}
	while (wait(&status) > 0)
		worst = status ? 1 : worst;
	return worst;
}

/* A process that loads data makes no call of the runtime. It is stopped at the end, as frameworks do. */
static pid_t worker(void)
{
	pid_t pid = strcmp(manner, "workers") == 0 ? fork() : 0;

	if (pid == 0 && strcmp(manner, "workers") == 0)
		for (;;)
			pause();
	return pid;
}

static void begin(void)
{
	if (problem->start)
		problem->start();
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtBinaryLoadFromFile(getenv("KERNELS"), NULL, &binary));
	OK(aclrtCreateStream(&loop.stream));
	OK(aclrtCreateStream(&loop.side));
	loop.x = device_memory(BATCH);
	loop.y = device_memory(BATCH);
	loop.state = device_memory(BATCH);
	loop.weights = device_memory(WEIGHTS);
	OK(aclrtMallocHost((void **)&loop.batch, BATCH));
	OK(aclrtMallocHost((void **)&loop.loss, 64));
	loop.pageable = calloc(1, BATCH);
	loop.saved = calloc(1, WEIGHTS);
	memset(loop.batch, 0, BATCH);
	OK(aclrtMemcpy(loop.weights, WEIGHTS, loop.saved, WEIGHTS, ACL_MEMCPY_HOST_TO_DEVICE));
	if (strcmp(manner, "queue") == 0) {
		queue.on = true;
		pthread_create(&queue.thread, NULL, run_queue, NULL);
	}
	if (graphs())
		for (loop.layer = 0; loop.layer < LAYERS; loop.layer++)
			capture();
}

static void end(void)
{
	end_queue();
	if (problem->over)
		problem->over();
	OK(aclrtFreeHost(loop.loss));
	OK(aclrtFreeHost(loop.batch));
	for (char **p = (char *[]){loop.weights, loop.state, loop.y, loop.x, NULL}; *p; p++)
		OK(aclrtFree(*p));
	OK(aclrtDestroyStream(loop.side));
	OK(aclrtDestroyStream(loop.stream));
	OK(aclrtBinaryUnLoad(binary));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
}

int main(int argc, char **argv)
{
	manner = argc == 3 ? argv[1] : "";
	problem = argc == 3 ? problem_named(argv[2]) : NULL;
	loop.argv = argv;
	if (!problem) {
		fprintf(stderr, "usage: loop MANNER PROBLEM\n");
		return 2;
	}
	if (strcmp(manner, "ranks") == 0 && !getenv("RANK"))
		return start_ranks();
	loop.rank = getenv("RANK") ? atoi(getenv("RANK")) : 0;
	begin();
	pid_t loader = worker();
	if (problem->ready)
		problem->ready();
	for (loop.step = 0; loop.step < STEPS; loop.step++)
		step();
	if (loader) {
		kill(loader, SIGTERM);
		waitpid(loader, NULL, 0);
	}
	end();
	printf("loop: %d steps\n", STEPS);
	return 0;
}
