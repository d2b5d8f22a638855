/* The problems that loop.c can have, and variants that are none. */
#include "loop.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- each step or layer ---- */

static void read_scalar(void) /* tensor.item() */
{
	drain();
	OK(aclrtMemcpy(loop.saved, 4, loop.y, 4, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void synchronize(void)
{
	drain();
	OK(aclrtSynchronizeDevice());
}

static void pageable(void)
{
	loop.pageable_batch = true;
}

static void load_slowly(void)
{
	host(5000);
}

static void think(void) /* the framework's own time before each layer */
{
	host(300);
}

static void stall(void)
{
	if (loop.step == AT)
		host(80000);
}

static void collect_garbage(void)
{
	if (loop.step % 10 == 9)
		host(20000);
}

static void save(void)
{
	static char *all;

	all = all ? all : malloc(16 * WEIGHTS);
	if (loop.step % 10 != 9)
		return;
	for (int i = 0; i < 16; i++)
		OK(aclrtMemcpy(all + i * WEIGHTS, WEIGHTS, loop.weights, WEIGHTS, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void leak(void)
{
	device_memory(64 << 10);
}

static void leak_stream(void)
{
	aclrtStream s;

	OK(aclrtCreateStream(&s));
}

static void leak_events(void)
{
	aclrtEvent e;

	OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclrtRecordEvent(e, loop.side));
}

static void evaluate(void) /* now and then, with a result of its own */
{
	if (loop.step % 10 != 9)
		return;
	for (int i = 0; i < 40; i++)
		launch(loop.stream, "loss", 200);
	wait_step();
}

static void empty_cache(void) /* and allocate again */
{
	drain();
	OK(aclrtSynchronizeDevice());
	OK(aclrtFree(loop.weights));
	loop.weights = device_memory(WEIGHTS);
}

static void allocate(void)
{
	OK(aclrtFree(device_memory(WEIGHTS)));
}

static void small(void)
{
	loop.kernel_us = 1;
	loop.launches = 20;
}

static void recapture(void)
{
	if (graphs() && loop.layer == 0)
		capture();
}

static void ignore_error(void)
{
	aclrtMemcpyAsync(loop.x, 16, loop.batch, 64, ACL_MEMCPY_HOST_TO_DEVICE, loop.stream);
}

static void late(void) /* one rank */
{
	if (loop.rank == 1)
		host(10000);
}

/* ---- graphs ---- */

static bool outside(void) /* shapes without a graph, in half of the steps */
{
	if (loop.step % 2 == 0)
		return false;
	layer_eager();
	return true;
}

static bool never_run(void) /* the last layer's graph */
{
	if (loop.layer != LAYERS - 1)
		return false;
	layer_eager();
	return true;
}

/* ---- ends ---- */

static void exhaust(void)
{
	if (loop.step < AT)
		return;
	for (;;)
		device_memory((size_t)4 << 30);
}

static void refused(void)
{
	if (loop.step == AT)
		OK(aclrtMemcpy(loop.x, 16, loop.saved, 64, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void freed_twice(void)
{
	if (loop.step != AT)
		return;
	OK(aclrtFree(loop.state));
	OK(aclrtFree(loop.state));
}

/* Whether a process has an open pidfd for this one. */
static bool watches(pid_t p)
{
	char folder[64], path[512], line[256];
	int n;
	bool found = false;

	snprintf(folder, sizeof folder, "/proc/%d/fdinfo", p);
	DIR *d = opendir(folder);
	for (struct dirent *e; d && !found && (e = readdir(d));) {
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		FILE *f = fopen(path, "r");
		while (f && !found && fgets(line, sizeof line, f))
			found = sscanf(line, "Pid: %d", &n) == 1 && n == getpid();
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return found;
}

static pid_t parent(pid_t p)
{
	char path[64];
	int up = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", p);
	FILE *f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %*c %d", &up) != 1)
		up = 0;
	if (f)
		fclose(f);
	return up;
}

/* A busy recorder may notice a short process after its parent has waited for it. Then nobody can tell which signal ended it. */
static void end_by(int signal)
{
	bool watched = false;

	for (int i = 0; i < 1000 && !watched; i++) {
		for (pid_t p = getppid(); p > 1 && !watched; p = parent(p))
			watched = watches(p);
		if (!watched)
			usleep(10000);
	}
	kill(getpid(), signal);
	pause();
}

static void terminated(void)
{
	if (loop.step == AT && loop.rank == 0)
		end_by(SIGTERM);
}

static void killed(void)
{
	if (loop.step == AT && loop.rank == 0)
		end_by(SIGKILL);
}

static void crash(void)
{
	if (loop.step == AT)
		*(volatile char *)8 = 1;
}

static void kernel_fails(void)
{
	setenv("ACLSIM_FAULTS", "kernel:loss:20=507015", 1);
}

static void notify_lost(void)
{
	aclrtNotify n;

	if (loop.step != AT)
		return;
	OK(aclrtCreateNotify(&n, 0));
	OK(aclrtWaitAndResetNotify(n, loop.stream, 0));
	OK(aclrtSynchronizeStreamWithTimeout(loop.stream, 100));
}

/* ---- for diff ---- */

static void add_kernel(void)
{
	if (loop.layer == LAYERS - 1)
		launch(loop.stream, "bias_gelu", 300);
}

static void slow_kernels(void)
{
	loop.kernel_us = 120;
}

/* ---- no problem ---- */

static void ask(void) /* questions whose answer is no */
{
	aclsysGetVersionNum("an_absent_package", &(int32_t){0});
	aclInit(NULL);
}

static void two_streams(void)
{
	static aclrtEvent e;

	if (!e)
		OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclrtRecordEvent(e, loop.side));
	OK(aclrtStreamWaitEvent(loop.stream, e));
}

static void warm_up(void) /* the first steps fill a pool */
{
	static void *pool[4];

	if (loop.step < 3)
		pool[loop.step] = device_memory(WEIGHTS);
	else if (loop.step == STEPS - 1)
		for (int i = 0; i < 3; i++)
			OK(aclrtFree(pool[i]));
}

static void event_each(void) /* made and ended */
{
	aclrtEvent e;

	drain();
	OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclrtRecordEvent(e, loop.stream));
	OK(aclrtStreamWaitEvent(loop.side, e));
	OK(aclrtSynchronizeStream(loop.side));
	OK(aclrtDestroyEvent(e));
}

static void event_pool(void) /* grows to its size in the first steps */
{
	static aclrtEvent pool[8];
	aclrtEvent *e = &pool[loop.step % 8];

	if (!*e)
		OK(aclrtCreateEventWithFlag(e, ACL_EVENT_SYNC));
	OK(aclrtRecordEvent(*e, loop.side));
}

static void second_input(void) /* a mask beside the batch */
{
	OK(aclrtMemcpyAsync(loop.state, 4096, loop.batch, 4096, ACL_MEMCPY_HOST_TO_DEVICE, loop.stream));
}

static void shapes(void) /* long prompts between short decodes */
{
	loop.kernel_us = loop.step % 8 == 0 ? 200 : 50;
}

static void add_gradients(void) /* and the optimizer */
{
	launch(loop.stream, "bias", 20);
	if (loop.layer == LAYERS - 1)
		for (int i = 0; i < 4; i++)
			launch(loop.stream, "bias_gelu", 20);
}

static void accumulate(void) /* the gradients of three batches before the loop's own; the first has none to add to */
{
	for (int i = 0; i < 3; i++) {
		OK(aclrtMemcpyAsync(loop.x, BATCH, loop.batch, BATCH, ACL_MEMCPY_HOST_TO_DEVICE, loop.stream));
		launch(loop.stream, "embed", loop.kernel_us);
		for (int k = 0; k < LAYERS; k++) {
			layer_eager();
			if (i > 0)
				launch(loop.stream, "bias", 20);
		}
		launch(loop.stream, "loss", loop.kernel_us);
	}
}

static void poll(void)
{
	aclrtEvent e;
	aclrtEventRecordedStatus s = ACL_EVENT_RECORDED_STATUS_NOT_READY;

	OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclrtRecordEvent(e, loop.stream));
	while (s != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
		OK(aclrtQueryEventStatus(e, &s));
		host(20);
	}
	OK(aclrtDestroyEvent(e));
}

static const struct problem problems[] = {
	{.name = "none"},
	{.name = "item", .layer = read_scalar},
	{.name = "sync-each-layer", .layer = synchronize},
	{.name = "pageable", .ready = pageable},
	{.name = "loader-slow", .batch = load_slowly},
	{.name = "loader-stall", .batch = stall},
	{.name = "host-bound", .layer = think},
	{.name = "garbage", .end = collect_garbage},
	{.name = "checkpoint", .end = save},
	{.name = "leak", .end = leak},
	{.name = "leak-events", .layer = leak_events},
	{.name = "evaluate", .end = evaluate},
	{.name = "leak-stream", .end = leak_stream},
	{.name = "empty-cache", .end = empty_cache},
	{.name = "allocate", .batch = allocate},
	{.name = "small-launches", .start = small},
	{.name = "recapture", .layer = recapture},
	{.name = "error-ignored", .end = ignore_error},
	{.name = "rank-late", .batch = late},
	{.name = "outside-graphs", .replaces = outside},
	{.name = "never-run", .replaces = never_run},
	{.name = "out-of-memory", .end = exhaust},
	{.name = "refused", .end = refused},
	{.name = "freed-twice", .end = freed_twice},
	{.name = "terminated", .end = terminated},
	{.name = "killed", .end = killed},
	{.name = "crash", .end = crash},
	{.name = "kernel-fails", .start = kernel_fails},
	{.name = "notify-lost", .end = notify_lost},
	{.name = "slow-kernels", .start = slow_kernels},
	{.name = "new-kernel", .layer = add_kernel},
	{.name = "ask", .ready = ask},
	{.name = "two-streams", .layer = two_streams},
	{.name = "warm-up", .end = warm_up},
	{.name = "shapes", .batch = shapes},
	{.name = "accumulate", .batch = accumulate, .layer = add_gradients},
	{.name = "poll", .end = poll},
	{.name = "event-each", .end = event_each},
	{.name = "event-pool", .end = event_pool},
	{.name = "second-input", .batch = second_input},
};

const struct problem *problem_named(const char *name)
{
	for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
		if (strcmp(problems[i].name, name) == 0)
			return &problems[i];
	return NULL;
}
