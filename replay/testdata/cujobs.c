/*
 * Threads that pass jobs to each other, like jobs.c, for the CUDA driver API: memory of every kind with its expected content, graphs that
 * add to it, streams, events, contexts and modules that come and go. Each thread acts at random and checks every result.
 * Arguments: the seed, and "plain" to use only memory that a driver can place. Built twice: with KERNEL as the kernel alone, for the fake driver.
 */
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* x[i] += by * (i + 1) */
void add(const struct fakecuda_launch *l)
{
	uint64_t at, count;
	uint32_t by, *x;
	memcpy(&at, l->params[0], sizeof at);
	memcpy(&count, l->params[1], sizeof count);
	memcpy(&by, l->params[2], sizeof by);
	if ((x = l->memory(at, 4 * count)) != NULL)
		for (uint32_t i = 0; i < count; i++)
			x[i] += by * (i + 1);
}
#else
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "must.h"

#define CHECK(x)                                                                   \
	do {                                                                       \
		CUresult failed_ = (x);                                            \
		if (failed_) {                                                     \
			fprintf(stderr, "%s: %d at line %d\n", #x, failed_, __LINE__); \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

enum { THREADS = 4, ROUNDS = 80, JOBS = 16, MOST = 1024, SPARE = 3 };

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry add(.param .u64 x, .param .u64 count, .param .u32 by)\n{\n\tret;\n}\n";

enum memory { PLAIN, POOLED, MANAGED, KINDS };

struct job {
	enum memory kind;
	CUdeviceptr at;
	uint32_t count, want[MOST];
	CUevent event; /* after the last work on it, NULL if that was waited for */
	/* Adds to the job's memory and copies it to the host; NULL if not made yet. */
	CUgraphExec exec;
	CUgraph graph;
	CUgraphNode kernel, copy; /* NULL if captured */
	uint32_t *host, by;
};

static pthread_mutex_t locks[JOBS], spare_lock = PTHREAD_MUTEX_INITIALIZER;
/* A context can't be synchronized while one of its streams is captured. */
static pthread_mutex_t quiet = PTHREAD_MUTEX_INITIALIZER;
static struct job *jobs[JOBS];
static CUstream spare[SPARE];
static CUcontext primary;
static CUfunction shared;
static CUmemoryPool pool;
static atomic_uint called;
static unsigned seed;
static bool plain; /* only memory that a driver can place */

struct worker {
	uint64_t state;
	CUstream s; /* its own */
	unsigned calls;
};

static uint32_t chance(struct worker *w, uint32_t below)
{
	w->state = w->state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(w->state >> 33) % below;
}

/* Takes a free place for a job. */
static struct job **take(struct worker *w)
{
	for (;;) {
		uint32_t i = chance(w, JOBS);
		if (pthread_mutex_trylock(&locks[i]) == 0)
			return &jobs[i];
	}
}

static void wait_for(struct worker *w, CUstream s)
{
	CUevent e;
	CUresult r;
	switch (chance(w, 6)) {
	case 0:
		CHECK(cuStreamSynchronize(s));
		break;
	case 1:
		pthread_mutex_lock(&quiet);
		CHECK(cuCtxSynchronize());
		pthread_mutex_unlock(&quiet);
		break;
	case 2:
	case 3:
		CHECK(cuEventCreate(&e, chance(w, 2) ? CU_EVENT_DISABLE_TIMING : 0));
		CHECK(cuEventRecord(e, s));
		if (chance(w, 2))
			CHECK(cuEventSynchronize(e));
		while ((r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY)
			usleep(20);
		CHECK(r);
		CHECK(cuEventDestroy(e));
		break;
	default:
		while ((r = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY)
			usleep(20);
		CHECK(r);
	}
}

static uint32_t *host_memory(struct worker *w, size_t n, bool *registered)
{
	void *p;
	*registered = chance(w, 3) == 0;
	if (*registered) {
		p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
		CHECK(cuMemHostRegister(p, n, chance(w, 2) ? CU_MEMHOSTREGISTER_PORTABLE : 0));
	} else if (chance(w, 2)) {
		CHECK(cuMemAllocHost(&p, n));
	} else {
		CHECK(cuMemHostAlloc(&p, n, CU_MEMHOSTALLOC_PORTABLE));
	}
	return p;
}

static void end_host(void *p, bool registered)
{
	if (registered) {
		CHECK(cuMemHostUnregister(p));
		free(p);
	} else {
		CHECK(cuMemFreeHost(p));
	}
}

static CUdeviceptr device_memory(struct worker *w, size_t n, CUstream s, enum memory *kind)
{
	CUdeviceptr p;
	switch (*kind = chance(w, plain ? MANAGED : KINDS)) {
	case PLAIN:
		CHECK(cuMemAlloc(&p, n));
		break;
	case POOLED:
		if (chance(w, 2))
			CHECK(cuMemAllocAsync(&p, n, s));
		else
			CHECK(cuMemAllocFromPoolAsync(&p, n, pool, s));
		break;
	default:
		CHECK(cuMemAllocManaged(&p, n, CU_MEM_ATTACH_GLOBAL));
	}
	return p;
}

static void end_memory(struct worker *w, CUdeviceptr p, enum memory kind, CUstream s)
{
	if (kind == POOLED && chance(w, 4))
		CHECK(cuMemFreeAsync(p, s));
	else
		CHECK(cuMemFree(p));
}

static void compare(const struct job *j, const uint32_t *got)
{
	for (uint32_t i = 0; i < j->count; i++)
		MUST(got[i] == j->want[i]);
}

static void added(struct job *j, uint32_t by)
{
	for (uint32_t i = 0; i < j->count; i++)
		j->want[i] += by * (i + 1);
}

static void count_call(void *arg) { atomic_fetch_add((atomic_uint *)arg, 1); }

static void launch(struct worker *w, struct job *j, CUfunction f, CUstream s, uint32_t by)
{
	uint64_t n = j->count;
	void *params[] = {&j->at, &n, &by};
	switch (chance(w, 4)) {
	case 0: {
		struct { CUdeviceptr x; uint64_t count; uint32_t by; } block = {j->at, n, by};
		size_t size = 20;
		void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
		CHECK(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, s, NULL, extra));
		break;
	}
	case 1: {
		CUevent e;
		CHECK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
		CUlaunchAttribute all[] = {
			{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = -1}},
			{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {2, 1, 1}}},
			{.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, .value = {.launchCompletionEvent = {.event = e}}},
			{.id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, .value = {.accessPolicyWindow = {.base_ptr = (void *)j->at, .num_bytes = 4, .hitRatio = 1}}},
		};
		uint32_t from = chance(w, 4), to = from + 1 + chance(w, 4 - from);
		CUlaunchConfig config = {8, 1, 1, 128, 1, 1, 0, s, all + from, to - from};
		CHECK(cuLaunchKernelEx(&config, f, params, NULL));
		if (from <= 2 && to > 2)
			CHECK(cuEventSynchronize(e));
		CHECK(cuEventDestroy(e));
		break;
	}
	case 2:
		CHECK(cuLaunchCooperativeKernel(f, 8, 1, 1, 128, 1, 1, 0, s, params));
		break;
	default:
		CHECK(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, s, params, NULL));
	}
	added(j, by);
}

static void end_graph(struct job *j)
{
	if (j->exec == NULL)
		return;
	CHECK(cuGraphExecDestroy(j->exec));
	CHECK(cuGraphDestroy(j->graph));
	CHECK(cuMemFreeHost(j->host));
	j->exec = NULL;
}

static CUDA_KERNEL_NODE_PARAMS kernel_node(struct job *j, uint64_t *n, void **params)
{
	params[0] = &j->at, params[1] = n, params[2] = &j->by;
	return (CUDA_KERNEL_NODE_PARAMS){.func = shared, .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1, .kernelParams = params};
}

static CUDA_MEMCPY3D copy_node(const struct job *j)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = j->at, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = j->host,
			       .WidthInBytes = 4 * j->count, .Height = 1, .Depth = 1};
}

static CUgraph capture(struct job *j)
{
	CUgraph g;
	CUstream s;
	uint64_t n = j->count;
	void *params[] = {&j->at, &n, &j->by};
	pthread_mutex_lock(&quiet);
	CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(cuLaunchKernel(shared, 8, 1, 1, 128, 1, 1, 0, s, params, NULL));
	CHECK(cuMemcpyDtoHAsync(j->host, j->at, 4 * n, s));
	CHECK(cuStreamEndCapture(s, &g));
	CHECK(cuStreamDestroy(s));
	pthread_mutex_unlock(&quiet);
	return g;
}

static void make_graph(struct worker *w, struct job *j)
{
	uint64_t n = j->count;
	void *params[3];
	j->by = 1 + chance(w, 100);
	CHECK(cuMemAllocHost((void **)&j->host, 4 * n));
	j->kernel = NULL;
	if (chance(w, 2)) {
		j->graph = capture(j);
	} else {
		CUDA_KERNEL_NODE_PARAMS k = kernel_node(j, &n, params);
		CUDA_MEMCPY3D c = copy_node(j);
		CHECK(cuGraphCreate(&j->graph, 0));
		if (chance(w, 2)) {
			CHECK(cuGraphAddKernelNode(&j->kernel, j->graph, NULL, 0, &k));
			CHECK(cuGraphAddMemcpyNode(&j->copy, j->graph, &j->kernel, 1, &c, primary));
		} else {
			CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL}, q = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
			memcpy(&p.kernel, &k, sizeof k);
			q.memcpy.copyCtx = primary;
			q.memcpy.copyParams = c;
			CHECK(cuGraphAddNode_v2(&j->kernel, j->graph, NULL, NULL, 0, &p));
			CHECK(cuGraphAddNode_v2(&j->copy, j->graph, &j->kernel, NULL, 1, &q));
		}
	}
	CHECK(cuGraphInstantiate(&j->exec, j->graph, 0));
}

/* Points the graph to the job's current memory. */
static void move_graph(struct worker *w, struct job *j)
{
	uint64_t n = j->count;
	void *params[3];
	if (j->exec == NULL)
		return;
	j->by = 1 + chance(w, 100);
	if (j->kernel == NULL) {
		CUgraphExecUpdateResultInfo info;
		CUgraph g = capture(j);
		CHECK(cuGraphExecUpdate(j->exec, g, &info));
		CHECK(cuGraphDestroy(j->graph));
		j->graph = g;
		return;
	}
	CUDA_KERNEL_NODE_PARAMS k = kernel_node(j, &n, params);
	CUDA_MEMCPY3D c = copy_node(j);
	CHECK(cuGraphExecKernelNodeSetParams(j->exec, j->kernel, &k));
	CHECK(cuGraphExecMemcpyNodeSetParams(j->exec, j->copy, &c, primary));
}

static void run_graph(struct worker *w, struct job *j, CUstream s)
{
	for (unsigned n = 1 + chance(w, 2); n > 0; n--) {
		CHECK(cuGraphLaunch(j->exec, s));
		added(j, j->by);
	}
	if (chance(w, 2)) {
		wait_for(w, s);
		compare(j, j->host);
	}
}

/* Copies rows of the job through pitched memory. */
static void rows(struct worker *w, struct job *j, CUstream s)
{
	size_t width = 4 * (1 + chance(w, j->count)), height = 4 * j->count / width, pitch;
	CUdeviceptr d;
	bool registered;
	CHECK(cuMemAllocPitch(&d, &pitch, width, height, 4));
	uint8_t *host = (uint8_t *)host_memory(w, width * height, &registered);
	CUDA_MEMCPY2D there = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = j->at, .srcPitch = width,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = d, .dstPitch = pitch, .WidthInBytes = width, .Height = height};
	CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = d, .srcPitch = pitch,
			      .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = host, .dstPitch = width, .WidthInBytes = width, .Height = height};
	CHECK(cuMemcpy2DAsync(&there, s));
	CHECK(cuMemcpy2DAsync(&back, s));
	wait_for(w, s);
	MUST(memcmp(host, j->want, width * height) == 0);
	end_host(host, registered);
	CHECK(cuMemFree(d));
}

/* Copies through another context. */
static void elsewhere(struct worker *w)
{
	CUcontext c, was;
	CUdeviceptr d;
	CUstream s;
	uint32_t to[64], from[64];
	for (uint32_t i = 0; i < 64; i++)
		from[i] = chance(w, 1 << 30);
	CHECK(cuCtxCreate(&c, 0, 0));
	CHECK(cuStreamCreate(&s, 0));
	CHECK(cuMemAlloc(&d, sizeof from));
	CHECK(cuMemcpyHtoDAsync(d, from, sizeof from, s));
	CHECK(cuStreamSynchronize(s));
	CHECK(cuMemcpyDtoH(to, d, sizeof to));
	MUST(memcmp(to, from, sizeof to) == 0);
	CHECK(cuStreamDestroy(s));
	CHECK(cuMemFree(d));
	CHECK(cuCtxPopCurrent(&was));
	MUST(was == c);
	CHECK(cuCtxDestroy(c));
}

static struct job *new_job(struct worker *w, CUstream s)
{
	struct job *j = calloc(1, sizeof *j);
	bool registered;
	j->count = 1 + chance(w, MOST);
	size_t n = 4 * j->count;
	j->at = device_memory(w, n, s, &j->kind);
	for (uint32_t i = 0; i < j->count; i++)
		j->want[i] = chance(w, 1 << 30);
	if (j->kind == POOLED)
		wait_for(w, s);
	switch (chance(w, 3)) {
	case 0:
		CHECK(cuMemcpyHtoD(j->at, j->want, n));
		break;
	case 1:
		CHECK(cuMemcpyHtoDAsync(j->at, j->want, n, s));
		break;
	default: {
		uint32_t *host = host_memory(w, n, &registered);
		memcpy(host, j->want, n);
		CHECK(cuMemcpyAsync(j->at, (CUdeviceptr)host, n, s));
		wait_for(w, s);
		end_host(host, registered);
	}
	}
	return j;
}

static void round_of(struct worker *w, unsigned r)
{
	struct job **place = take(w), *j = *place;
	CUstream streams[] = {w->s, w->s, w->s, CU_STREAM_PER_THREAD, NULL}, s = streams[chance(w, 5)];
	if (j == NULL)
		j = new_job(w, s);
	size_t n = 4 * j->count;
	if (j->event) {
		CHECK(cuStreamWaitEvent(s, j->event, 0));
		if (chance(w, 2)) {
			CHECK(cuEventDestroy(j->event)); /* waits are possible until here */
			j->event = NULL;
		}
	}
	switch (chance(w, 14)) {
	case 0:
	case 1:
		launch(w, j, shared, s, 1 + chance(w, 100));
		break;
	case 2: {
		enum memory kind;
		CUdeviceptr other = device_memory(w, n, s, &kind);
		CHECK(chance(w, 2) ? cuMemcpyDtoDAsync(other, j->at, n, s) : cuMemcpyPeerAsync(other, primary, j->at, primary, n, s));
		if (j->kind != POOLED || chance(w, 2))
			wait_for(w, s);
		end_memory(w, j->at, j->kind, s);
		j->at = other, j->kind = kind;
		move_graph(w, j);
		break;
	}
	case 3: {
		bool registered;
		uint32_t *host = host_memory(w, n, &registered);
		CHECK(cuMemcpyDtoHAsync(host, j->at, n, s));
		wait_for(w, s);
		compare(j, host);
		end_host(host, registered);
		break;
	}
	case 4: {
		uint32_t *host = malloc(n);
		CHECK(cuStreamSynchronize(s));
		CHECK(cuMemcpyDtoH(host, j->at, n));
		compare(j, host);
		free(host);
		break;
	}
	case 5:
		/* Sums do not become small numbers: two of those look like an address. */
		CHECK(cuMemsetD8Async(j->at, 128 + r % 128, n, s));
		memset(j->want, 128 + r % 128, n);
		break;
	case 6:
		if (j->kind != POOLED)
			CHECK(cuStreamSynchronize(s));
		end_graph(j);
		end_memory(w, j->at, j->kind, s);
		if (j->event)
			CHECK(cuEventDestroy(j->event));
		free(j);
		j = NULL;
		break;
	case 7:
	case 8:
		if (j->exec == NULL)
			make_graph(w, j);
		run_graph(w, j, s);
		break;
	case 9:
		move_graph(w, j);
		if (j->exec)
			run_graph(w, j, s);
		break;
	case 10: {
		bool library = chance(w, 2);
		CUmodule m;
		CUlibrary l;
		CUkernel k;
		CUfunction f;
		if (library) {
			CHECK(cuLibraryLoadData(&l, ptx, NULL, NULL, 0, NULL, NULL, 0));
			CHECK(cuLibraryGetKernel(&k, l, "add"));
			CHECK(cuKernelGetFunction(&f, k));
		} else {
			CHECK(cuModuleLoadData(&m, ptx));
			CHECK(cuModuleGetFunction(&f, m, "add"));
		}
		launch(w, j, f, s, 1 + chance(w, 100));
		wait_for(w, s);
		CHECK(library ? cuLibraryUnload(l) : cuModuleUnload(m));
		break;
	}
	case 11:
		if (!plain)
			rows(w, j, s);
		break;
	case 12:
		CHECK(cuLaunchHostFunc(s, count_call, &called));
		w->calls++;
		break;
	default:
		CHECK(cuStreamWriteValue32(s, j->at, 0x80000000u + r, 0));
		j->want[0] = 0x80000000u + r;
	}
	if (j != NULL && chance(w, 2)) {
		if (j->event == NULL)
			CHECK(cuEventCreate(&j->event, CU_EVENT_DISABLE_TIMING));
		CHECK(cuEventRecord(j->event, s));
	} else if (j != NULL) {
		wait_for(w, s);
		if (j->event) {
			CHECK(cuEventDestroy(j->event));
			j->event = NULL;
		}
	}
	*place = j;
	pthread_mutex_unlock(&locks[place - jobs]);
}

static void *work(void *arg)
{
	struct worker w = {.state = (uint64_t)seed * 1000 + (uint64_t)arg + 1};
	CUcontext c;
	CHECK(cuDevicePrimaryCtxRetain(&c, 0));
	MUST(c == primary);
	CHECK(cuCtxSetCurrent(c));
	CHECK(cuStreamCreate(&w.s, CU_STREAM_NON_BLOCKING));
	for (unsigned r = 0; r < ROUNDS; r++) {
		switch (chance(&w, 24)) {
		case 0:
		case 1:
			CHECK(cuStreamSynchronize(w.s));
			CHECK(cuStreamDestroy(w.s));
			CHECK(chance(&w, 2) ? cuStreamCreate(&w.s, CU_STREAM_NON_BLOCKING) : cuStreamCreateWithPriority(&w.s, CU_STREAM_NON_BLOCKING, -1));
			break;
		case 2:
		case 3: {
			pthread_mutex_lock(&spare_lock);
			CUstream *other = &spare[chance(&w, SPARE)], s = *other;
			*other = w.s;
			w.s = s;
			pthread_mutex_unlock(&spare_lock);
			break;
		}
		case 4:
			CHECK(cuCtxPopCurrent(&c));
			MUST(c == primary);
			CHECK(chance(&w, 2) ? cuCtxPushCurrent(c) : cuCtxSetCurrent(c));
			break;
		case 5:
			elsewhere(&w);
		}
		round_of(&w, r);
	}
	CHECK(cuStreamSynchronize(w.s));
	CHECK(cuStreamDestroy(w.s));
	CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	CHECK(cuDevicePrimaryCtxRelease(0));
	return (void *)(uintptr_t)w.calls;
}

int main(int argc, char **argv)
{
	struct worker w = {.s = NULL};
	CUmodule m;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	unsigned calls = 0;
	seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : (unsigned)getpid();
	plain = argc > 2 && strcmp(argv[2], "plain") == 0;
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
	CHECK(cuCtxSetCurrent(primary));
	CHECK(cuModuleLoadData(&m, ptx));
	CHECK(cuModuleGetFunction(&shared, m, "add"));
	CHECK(cuMemPoolCreate(&pool, &props));
	for (int i = 0; i < SPARE; i++)
		CHECK(cuStreamCreate(&spare[i], CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < JOBS; i++)
		pthread_mutex_init(&locks[i], NULL);
	pthread_t threads[THREADS];
	for (size_t t = 0; t < THREADS; t++)
		pthread_create(&threads[t], NULL, work, (void *)t);
	for (size_t t = 0; t < THREADS; t++) {
		void *n;
		pthread_join(threads[t], &n);
		calls += (unsigned)(uintptr_t)n;
	}
	CHECK(cuCtxSynchronize());
	MUST(atomic_load(&called) == calls);
	for (int i = 0; i < JOBS; i++) {
		struct job *j = jobs[i];
		if (j == NULL)
			continue;
		uint32_t *host = malloc(4 * j->count);
		CHECK(cuMemcpyDtoH(host, j->at, 4 * j->count));
		compare(j, host);
		if (j->event)
			CHECK(cuEventDestroy(j->event));
		end_graph(j);
		end_memory(&w, j->at, j->kind, NULL);
		free(host);
		free(j);
	}
	for (int i = 0; i < SPARE; i++)
		CHECK(cuStreamDestroy(spare[i]));
	CHECK(cuMemPoolDestroy(pool));
	CHECK(cuModuleUnload(m));
	CHECK(cuDevicePrimaryCtxRelease(0));
	return 0;
}
#endif
