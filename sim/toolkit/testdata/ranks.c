/*
 * Ranks of one communicator: "threads N", "processes N", or "all N" (one thread, HcclCommInitAll). Each rank makes collectives of known
 * numbers and compares the results. Further words choose other ends: "ends" (the last rank is killed), "late" (it never joins), "dies" (it
 * never joins, and the one before is killed while it waits), "missing" (it makes no collective). "again N" joins by root information that
 * has been used.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "hccl_gen.h"

#define WANT(want, call)                                                                                    \
	do {                                                                                                \
		long long want_ = (want), got_ = (call);                                                    \
		if (want_ != got_) {                                                                        \
			fprintf(stderr, "%d: %s is %lld, not %lld\n", __LINE__, #call, got_, want_);        \
			_exit(1);                                                                           \
		}                                                                                           \
	} while (0)

enum { MOST = 8, N = 5, LARGE = 300000 /* more than a round of HCCL_BUFFSIZE=1 */ };

struct rank {
	uint32_t id;
	HcclComm comm;
	aclrtStream stream;
	char *in, *out; /* device memory of LARGE doubles for each of MOST ranks */
};

static uint32_t ranks;
static const char *mode, *end = "";
static struct shared {
	HcclRootInfo root;
	atomic_int made, lost;
} *shared;

enum { BYTES = LARGE * 8 };

static void put(void *to, const void *from, size_t n) { WANT(0, aclrtMemcpy(to, n, from, n, ACL_MEMCPY_HOST_TO_DEVICE)); }

static void expect(int line, struct rank *r, const void *at, const void *want, size_t n)
{
	char *got = malloc(n);

	WANT(0, aclrtSynchronizeStream(r->stream));
	WANT(0, aclrtMemcpy(got, n, at, n, ACL_MEMCPY_DEVICE_TO_HOST));
	if (memcmp(got, want, n)) {
		fprintf(stderr, "%d: rank %u of %u (%s) has other bytes\n", line, r->id, ranks, mode);
		_exit(1);
	}
	free(got);
}
#define EXPECT(...) expect(__LINE__, __VA_ARGS__)

/* Rank i has the elements i + 2, i + 3 … */
#define REDUCE(name, type, hccl)                                                                                        \
	static void name(struct rank *r, HcclReduceOp op)                                                               \
	{                                                                                                               \
		type mine[N], want[N];                                                                                  \
                                                                                                                        \
		for (uint32_t j = 0; j < N; j++) {                                                                      \
			double all = op == HCCL_REDUCE_PROD ? 1 : op == HCCL_REDUCE_MIN ? 1e9 : 0;                      \
                                                                                                                        \
			mine[j] = (type)(r->id + 2 + j);                                                                \
			for (uint32_t i = 0; i < ranks; i++) {                                                          \
				double x = i + 2 + j;                                                                   \
                                                                                                                        \
				all = op == HCCL_REDUCE_SUM ? all + x : op == HCCL_REDUCE_PROD ? all * x : op == HCCL_REDUCE_MAX ? (x > all ? x : all) : (x < all ? x : all); \
			}                                                                                               \
			want[j] = (type)all;                                                                            \
		}                                                                                                       \
		put(r->in, mine, sizeof mine);                                                                          \
		WANT(0, HcclAllReduce(r->in, r->out, N, hccl, op, r->comm, r->stream));                                 \
		EXPECT(r, r->out, want, sizeof want);                                                                   \
		WANT(0, HcclAllReduce(r->in, r->in, N, hccl, op, r->comm, r->stream)); /* in place */                   \
		EXPECT(r, r->in, want, sizeof want);                                                                    \
	}
REDUCE(reduce_i8, int8_t, HCCL_DATA_TYPE_INT8)
REDUCE(reduce_u8, uint8_t, HCCL_DATA_TYPE_UINT8)
REDUCE(reduce_i16, int16_t, HCCL_DATA_TYPE_INT16)
REDUCE(reduce_u16, uint16_t, HCCL_DATA_TYPE_UINT16)
REDUCE(reduce_i32, int32_t, HCCL_DATA_TYPE_INT32)
REDUCE(reduce_u32, uint32_t, HCCL_DATA_TYPE_UINT32)
REDUCE(reduce_i64, int64_t, HCCL_DATA_TYPE_INT64)
REDUCE(reduce_u64, uint64_t, HCCL_DATA_TYPE_UINT64)
REDUCE(reduce_f32, float, HCCL_DATA_TYPE_FP32)
REDUCE(reduce_f64, double, HCCL_DATA_TYPE_FP64)

/* 1.5 and 2.5 give 4, 3.75, 2.5 and 1.5. */
static void reduce_halves(struct rank *r)
{
	static const struct {
		HcclDataType type;
		uint16_t in[2], want[4];
	} halves[] = {
		{HCCL_DATA_TYPE_FP16, {0x3e00, 0x4100}, {0x4400, 0x4380, 0x4100, 0x3e00}},
		{HCCL_DATA_TYPE_BFP16, {0x3fc0, 0x4020}, {0x4080, 0x4070, 0x4020, 0x3fc0}},
	};

	for (int i = 0; i < 2 && ranks == 2; i++)
		for (int op = HCCL_REDUCE_SUM; op <= HCCL_REDUCE_MIN; op++) {
			put(r->in, &halves[i].in[r->id], 2);
			WANT(0, HcclAllReduce(r->in, r->out, 1, halves[i].type, (HcclReduceOp)op, r->comm, r->stream));
			EXPECT(r, r->out, &halves[i].want[op], 2);
		}
	WANT(HCCL_E_NOT_SUPPORT, HcclAllReduce(r->in, r->out, 1, HCCL_DATA_TYPE_FP8E4M3, HCCL_REDUCE_SUM, r->comm, r->stream));
}

static void reduce_all(struct rank *r)
{
	for (int op = HCCL_REDUCE_SUM; op <= HCCL_REDUCE_MIN; op++) {
		reduce_i16(r, (HcclReduceOp)op);
		reduce_u16(r, (HcclReduceOp)op);
		reduce_i32(r, (HcclReduceOp)op);
		reduce_u32(r, (HcclReduceOp)op);
		reduce_i64(r, (HcclReduceOp)op);
		reduce_u64(r, (HcclReduceOp)op);
		reduce_f32(r, (HcclReduceOp)op);
		reduce_f64(r, (HcclReduceOp)op);
		if (op == HCCL_REDUCE_PROD && ranks > 2)
			continue; /* does not fit */
		reduce_i8(r, (HcclReduceOp)op);
		reduce_u8(r, (HcclReduceOp)op);
	}
	reduce_halves(r);
}

/* Element j of the part that rank i has for rank k. */
static int32_t element(uint32_t i, uint32_t k, uint32_t j) { return (int32_t)(1000000 * i + 100000 * k + j); }

/* Fills r->in with the parts for all ranks, of n elements each, at distances of step elements. */
static void give(struct rank *r, uint32_t n, uint32_t step)
{
	int32_t *all = calloc(ranks * step, sizeof *all);

	for (uint32_t k = 0; k < ranks; k++)
		for (uint32_t j = 0; j < n; j++)
			all[k * step + j] = element(r->id, k, j);
	put(r->in, all, ranks * step * sizeof *all);
	free(all);
}

/* Compares n elements with the part that rank i had for rank k. */
static void got(int line, struct rank *r, uint32_t at, uint32_t n, uint32_t i, uint32_t k)
{
	int32_t *want = calloc(n, sizeof *want);

	for (uint32_t j = 0; j < n; j++)
		want[j] = element(i, k, j);
	expect(line, r, (int32_t *)r->out + at, want, n * sizeof *want);
	free(want);
}
#define GOT(...) got(__LINE__, __VA_ARGS__)

#define INT32 HCCL_DATA_TYPE_INT32

static void move(struct rank *r, uint32_t n)
{
	uint32_t last = ranks - 1;
	int32_t *sums = calloc(n, sizeof *sums);

	give(r, n, n);
	WANT(0, HcclAllGather(r->in, r->out, n, INT32, r->comm, r->stream));
	for (uint32_t i = 0; i < ranks; i++)
		GOT(r, i * n, n, i, 0);
	WANT(0, HcclAlltoAll(r->in, n, INT32, r->out, n, INT32, r->comm, r->stream));
	for (uint32_t i = 0; i < ranks; i++)
		GOT(r, i * n, n, i, r->id);
	WANT(0, HcclReduceScatter(r->in, r->out, n, INT32, HCCL_REDUCE_SUM, r->comm, r->stream));
	for (uint32_t j = 0; j < n; j++)
		for (uint32_t i = 0; i < ranks; i++)
			sums[j] += element(i, r->id, j);
	EXPECT(r, r->out, sums, n * sizeof *sums);
	WANT(0, HcclScatter(r->in, r->out, n, INT32, last, r->comm, r->stream));
	GOT(r, 0, n, last, r->id);
	WANT(0, HcclReduce(r->in, r->out, n, INT32, HCCL_REDUCE_SUM, last, r->comm, r->stream));
	for (uint32_t j = 0; j < n; j++) {
		sums[j] = 0;
		for (uint32_t i = 0; i < ranks; i++)
			sums[j] += element(i, 0, j);
	}
	if (r->id == last)
		EXPECT(r, r->out, sums, n * sizeof *sums);
	else
		GOT(r, 0, n, last, r->id);
	WANT(0, aclrtMemcpyAsync(r->out, 4 * n, r->in, 4 * n, ACL_MEMCPY_DEVICE_TO_DEVICE, r->stream));
	WANT(0, HcclBroadcast(r->out, n, INT32, last, r->comm, r->stream));
	GOT(r, 0, n, last, 0);
	WANT(0, HcclBarrier(r->comm, r->stream));
	/* Around the ring. */
	uint32_t next = (r->id + 1) % ranks, before = (r->id + last) % ranks;
	for (int turn = 0; turn < 2; turn++)
		if (turn == (r->id == 0))
			WANT(0, HcclRecv(r->out, n, INT32, before, r->comm, r->stream));
		else
			WANT(0, HcclSend(r->in, n, INT32, next, r->comm, r->stream));
	GOT(r, 0, n, before, 0);
	/* Two messages to the next rank, one to itself. */
	int32_t *in = (int32_t *)r->in, *out = (int32_t *)r->out;
	HcclSendRecvItem items[] = {
		{HCCL_SEND, in + n, n, INT32, next}, {HCCL_SEND, in, n, INT32, next}, {HCCL_RECV, out, n, INT32, before}, {HCCL_RECV, out + n, n, INT32, before},
		{HCCL_SEND, in, n, INT32, r->id}, {HCCL_RECV, out + 2 * n, n, INT32, r->id},
	};
	WANT(0, HcclBatchSendRecv(items, 6, r->comm, r->stream));
	GOT(r, 0, n, before, 1);
	GOT(r, n, n, before, 0);
	GOT(r, 2 * n, n, r->id, 0);
	free(sums);
}

/* Rank i has i + k elements for rank k. */
static void move_lengths(struct rank *r)
{
	uint64_t out[MOST], out_at[MOST], in[MOST], in_at[MOST], matrix[MOST * MOST], at = 0;

	give(r, N, N);
	for (uint32_t k = 0; k < ranks; k++) {
		out[k] = in[k] = r->id + k;
		out_at[k] = k * N;
		in_at[k] = at + 1;
		at += in[k];
		for (uint32_t i = 0; i < ranks; i++)
			matrix[i * ranks + k] = i + k;
	}
	WANT(0, HcclAlltoAllV(r->in, out, out_at, INT32, r->out, in, in_at, INT32, r->comm, r->stream));
	for (uint32_t i = 0; i < ranks; i++)
		GOT(r, (uint32_t)in_at[i], (uint32_t)in[i], i, r->id);
	WANT(0, aclrtMemset(r->out, BYTES, 0, BYTES));
	/* Parts without gaps. */
	for (uint32_t k = 0; k < ranks; k++)
		WANT(0, aclrtMemcpy((int32_t *)r->out + k * N, 4 * N, (int32_t *)r->in + k * N, 4 * N, ACL_MEMCPY_DEVICE_TO_DEVICE));
	for (uint32_t k = 0, to = 0; k < ranks; to += r->id + k++)
		WANT(0, out[k] ? aclrtMemcpy((int32_t *)r->in + to, 4 * out[k], (int32_t *)r->out + k * N, 4 * out[k], ACL_MEMCPY_DEVICE_TO_DEVICE) : 0);
	WANT(0, HcclAlltoAllVC(r->in, matrix, INT32, r->out, INT32, r->comm, r->stream));
	for (uint32_t i = 0; i < ranks; i++)
		GOT(r, (uint32_t)in_at[i] - 1, (uint32_t)in[i], i, r->id);
	for (uint32_t k = 0; k < ranks; k++) {
		in[k] = k + 1;
		in_at[k] = k * N + 1;
	}
	give(r, N, N);
	WANT(0, HcclAllGatherV(r->in, r->id + 1, r->out, in, in_at, INT32, r->comm, r->stream));
	for (uint32_t i = 0; i < ranks; i++)
		GOT(r, i * N + 1, i + 1, i, 0);
	for (uint32_t k = 0; k < ranks; k++)
		out_at[k] = k * N;
	WANT(0, HcclReduceScatterV(r->in, in, out_at, r->out, r->id + 1, INT32, HCCL_REDUCE_MAX, r->comm, r->stream));
	GOT(r, 0, r->id + 1, ranks - 1, r->id);
}

/* A graph with a collective, run three times: each run doubles the number in both ranks. */
static void in_graph(struct rank *r)
{
	aclrtStream stream = r->stream;
	float one = 1, want = 1;
	aclmdlRI graph;

	put(r->in, &one, sizeof one);
	WANT(0, aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	WANT(0, HcclAllReduce(r->in, r->in, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r->comm, stream));
	WANT(0, aclmdlRICaptureEnd(stream, &graph));
	for (int i = 0; i < 3; i++) {
		WANT(0, aclmdlRIExecuteAsync(graph, stream));
		want *= (float)ranks;
	}
	EXPECT(r, r->in, &want, sizeof want);
	WANT(0, aclmdlRIDestroy(graph));
}

/* A communicator of the first two ranks, in reverse order. */
static void of_some(struct rank *r)
{
	uint32_t ids[] = {1, 0}, size = 0;
	struct rank part = *r;
	int32_t mine = (int32_t)r->id + 1;
	char name[128];

	if (r->id > 1)
		return;
	for (int i = 0; i < 2; i++) { /* the same id again */
		WANT(0, HcclCreateSubCommConfig(&r->comm, 2, ids, 7, 1 - r->id, NULL, &part.comm));
		WANT(0, HcclGetRankSize(part.comm, &size));
		WANT(2, size);
		WANT(0, HcclGetCommName(part.comm, name));
		put(r->in, &mine, sizeof mine);
		WANT(0, HcclAllGather(r->in, r->out, 1, INT32, part.comm, r->stream));
		EXPECT(r, r->out, (int32_t[]){2, 1}, 8);
		WANT(0, HcclCommDestroy(part.comm));
	}
	WANT(HCCL_E_PARA, HcclCreateSubCommConfig(&r->comm, 2, ids, 7, r->id, NULL, &part.comm));
}

static void open_rank(struct rank *r)
{
	void *in, *out;

	WANT(0, aclrtSetDevice((int32_t)r->id % 2));
	WANT(0, aclrtCreateStream(&r->stream));
	WANT(0, aclrtMalloc(&in, MOST * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	WANT(0, aclrtMalloc(&out, MOST * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	r->in = in;
	r->out = out;
}

static void close_rank(struct rank *r)
{
	WANT(0, HcclCommDestroy(r->comm));
	WANT(HCCL_E_PARA, HcclCommDestroy(NULL));
	WANT(0, aclrtFree(r->in));
	WANT(0, aclrtFree(r->out));
	WANT(0, aclrtDestroyStream(r->stream));
}

/* The last rank has left without a word, or does nothing. */
static void without_last(struct rank *r)
{
	HcclResult async = HCCL_SUCCESS;
	int e;

	if (r->id == ranks - 1) {
		if (!strcmp(end, "missing"))
			while (!atomic_load(&shared->lost))
				usleep(1000);
		else
			kill(getpid(), SIGKILL);
		return;
	}
	WANT(0, HcclAllReduce(r->in, r->out, N, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r->comm, r->stream));
	e = aclrtSynchronizeStream(r->stream);
	WANT(0, HcclGetCommAsyncError(r->comm, &async));
	printf("%d %d\n", e, async);
	fflush(stdout);
	atomic_store(&shared->lost, 1);
	_exit(0);
}

static void work(struct rank *r)
{
	uint32_t id = MOST;

	WANT(0, HcclGetRankId(r->comm, &id));
	WANT(r->id, id);
	if (*end) {
		without_last(r);
		return;
	}
	reduce_all(r);
	move(r, N);
	move(r, LARGE);
	move_lengths(r);
	in_graph(r);
	of_some(r);
}

/* Kills the process after it has joined. */
static void *killer(void *unused)
{
	char line[512];
	bool joined = false;

	while (!joined) {
		FILE *f = fopen("/proc/self/maps", "r");

		while (f && fgets(line, sizeof line, f))
			joined |= strstr(line, "memfd:aclsim-hccl") != NULL;
		if (f)
			fclose(f);
		usleep(100000);
	}
	kill(getpid(), SIGKILL);
	return unused;
}

static void *rank(void *arg)
{
	struct rank r = {.id = (uint32_t)(uintptr_t)arg};
	HcclResult e;

	open_rank(&r);
	if (r.id == 0) {
		WANT(0, HcclGetRootInfo(&shared->root));
		atomic_store(&shared->made, 1);
	}
	while (!atomic_load(&shared->made))
		usleep(1000);
	bool never = !strcmp(end, "late") || !strcmp(end, "dies");
	pthread_t thread;
	if (never && r.id == ranks - 1)
		return NULL;
	if (!strcmp(end, "dies") && r.id == ranks - 2)
		WANT(0, pthread_create(&thread, NULL, killer, NULL));
	e = HcclCommInitRootInfo(ranks, &shared->root, r.id, &r.comm);
	if (never) {
		printf("%d\n", e);
		return NULL;
	}
	WANT(0, e);
	work(&r);
	close_rank(&r);
	return NULL;
}

static void in_threads(void)
{
	pthread_t threads[MOST];

	WANT(0, aclInit(NULL));
	for (uint32_t i = 0; i < ranks; i++)
		WANT(0, pthread_create(&threads[i], NULL, rank, (void *)(uintptr_t)i));
	for (uint32_t i = 0; i < ranks; i++)
		WANT(0, pthread_join(threads[i], NULL));
	WANT(0, aclFinalize());
}

static void in_processes(void)
{
	pid_t children[MOST];

	for (uint32_t i = 0; i < ranks; i++)
		if ((children[i] = fork()) == 0) {
			WANT(0, aclInit(NULL));
			rank((void *)(uintptr_t)i);
			WANT(0, aclFinalize());
			exit(0);
		}
	for (uint32_t i = 0; i < ranks; i++) {
		int status;

		WANT(children[i], waitpid(children[i], &status, 0));
		WANT((!strcmp(end, "ends") && i == ranks - 1) || (!strcmp(end, "dies") && i == ranks - 2) ? SIGKILL : 0, status);
	}
}

/* One thread puts the collectives of all ranks on their streams. */
static void in_one_thread(void)
{
	struct rank r[MOST] = {0};
	HcclComm comms[MOST];
	int32_t devices[MOST], device = -1;

	WANT(0, aclInit(NULL));
	for (uint32_t i = 0; i < ranks; i++) {
		devices[i] = (int32_t)i % 2;
		r[i].id = i;
		open_rank(&r[i]);
	}
	WANT(0, aclrtSetDevice(0));
	WANT(0, HcclCommInitAll(ranks, devices, comms));
	WANT(0, aclrtGetDevice(&device));
	WANT(0, device);
	for (uint32_t i = 0; i < ranks; i++) {
		r[i].comm = comms[i];
		WANT(0, aclrtSetDevice(devices[i]));
		give(&r[i], N, N);
		WANT(0, HcclAlltoAll(r[i].in, N, INT32, r[i].out, N, INT32, comms[i], r[i].stream));
	}
	for (uint32_t i = 0; i < ranks; i++) {
		WANT(0, aclrtSetDevice(devices[i]));
		for (uint32_t k = 0; k < ranks; k++)
			GOT(&r[i], k * N, N, k, i);
	}
	for (uint32_t i = 0; i < ranks; i++) {
		WANT(0, aclrtSetDevice(devices[i]));
		close_rank(&r[i]);
	}
	WANT(0, aclFinalize());
}

/* The descriptor's number in the root information belongs to another file by then, which must stay as it is. */
static void again(void)
{
	HcclRootInfo root;
	HcclComm comm;
	struct stat is;
	int file;

	WANT(0, aclInit(NULL));
	WANT(0, aclrtSetDevice(0));
	WANT(0, HcclGetRootInfo(&root));
	WANT(0, HcclCommInitRootInfo(1, &root, 0, &comm));
	file = memfd_create("file", 0);
	WANT(HCCL_E_PARA, HcclCommInitRootInfo(ranks, &root, 0, &comm));
	WANT(0, fstat(file, &is));
	WANT(0, is.st_size);
	WANT(0, aclFinalize());
}

int main(int argc, char **argv)
{
	mode = argv[1];
	ranks = (uint32_t)atoi(argv[2]);
	end = argc > 3 ? argv[3] : "";
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!strcmp(mode, "threads"))
		in_threads();
	else if (!strcmp(mode, "processes"))
		in_processes();
	else if (!strcmp(mode, "again"))
		again();
	else
		in_one_thread();
	return 0;
}
