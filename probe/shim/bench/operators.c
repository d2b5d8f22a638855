/*
 * Measures the marks of an eager operator: phase one with an inner operator, and phase two with a launch. All functions return immediately.
 *
 *	operators NAME [ROUNDS [names | all | shapes]]
 *
 * With all, the program makes and ends four tensors for each operator, with 11 further calls as op-plugin makes them. With shapes, phase two describes the launch
 * if the runtime wants that. It prints "NAME NANOSECONDS launch NANOSECONDS": medians over rounds with 1000 operators each, which stay in the cache, and 1000 launches alone. Compiled
 * with -DBASE, it is the library whose functions the operators call.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"

void begin_one(const char *name, void **executor) __asm__("_Z19InitL2Phase1ContextPKcPP13aclOpExecutor");
void begin_two(const char *name, void *executor) __asm__("_Z19InitL2Phase2ContextPKcP13aclOpExecutor");
void begin_inner(const char *name, void *executor) __asm__("_Z13InitL0ContextPKcP13aclOpExecutor");
int run(void *workspace, uint64_t size, void *executor, void *stream) __asm__("_Z19CommonOpExecutorRunPvmP13aclOpExecutorS_");
void end(void *guard) __asm__("_ZN2op10OpDfxGuardD1Ev");

void *aclCreateTensor(const int64_t *dims, uint64_t n, aclDataType dtype, const int64_t *strides, int64_t offset, aclFormat format, const int64_t *storage, uint64_t n_storage, void *data);
int aclDestroyTensor(const void *tensor);
bool CanUsePTACache(const char *name);
void InitPTACacheThreadLocal(void);
void UnInitPTACacheThreadLocal(void);
void AddTensorAddrToCachedList(void *address);
void SetPTAHashKey(uint64_t hash);
void *PTAGetExecCache(uint64_t hash, uint64_t *size);
int InitHugeMemThreadLocal(void *unused, bool shared);
void UnInitHugeMemThreadLocal(void *unused, bool shared);

#ifdef BASE
void *aclCreateTensor(const int64_t *dims, uint64_t n, aclDataType dtype, const int64_t *strides, int64_t offset, aclFormat format, const int64_t *storage, uint64_t n_storage, void *data)
{
	(void)dims, (void)n, (void)dtype, (void)strides, (void)offset, (void)format, (void)storage, (void)n_storage;
	return data;
}
int aclDestroyTensor(const void *tensor) { return tensor == NULL; }
bool CanUsePTACache(const char *name) { return name != NULL; }
void InitPTACacheThreadLocal(void) {}
void UnInitPTACacheThreadLocal(void) {}
void AddTensorAddrToCachedList(void *address) { (void)address; }
void SetPTAHashKey(uint64_t hash) { (void)hash; }
void *PTAGetExecCache(uint64_t hash, uint64_t *size) { return (void)hash, (void)size, NULL; }
int InitHugeMemThreadLocal(void *unused, bool shared) { return (void)unused, (void)shared, 0; }
void UnInitHugeMemThreadLocal(void *unused, bool shared) { (void)unused, (void)shared; }
void begin_one(const char *name, void **executor) { (void)name, (void)executor; }
void begin_two(const char *name, void *executor) { (void)name, (void)executor; }
void begin_inner(const char *name, void *executor) { (void)name, (void)executor; }
int run(void *workspace, uint64_t size, void *executor, void *stream)
{
	(void)workspace, (void)size, (void)executor, (void)stream;
	return 0;
}
void end(void *guard) { (void)guard; }
#else
#include "median.h"

enum { CALLS = 1000, MOST = 10000, NAMES = 8 };
static const char *const names[NAMES] = {"aclnnAddmm", "aclnnMatmul", "aclnnRmsNorm", "aclnnSwiGlu", "aclnnApplyRotaryPosEmb", "aclnnFusedInferAttentionScoreV3",
	"aclnnGroupedMatmulV4", "aclnnInplaceAdd"};
static const char *const inner[NAMES] = {"AddmmAiCore", "MatMulV3NdAiCore", "RmsNormAiCore", "SwiGluAiCore", "ApplyRotaryPosEmbAiCore", "FusedInferAttentionScore",
	"GroupedMatmulAiCore", "AddAiCore"};
static uint64_t args[8];

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void launch(void)
{
	if (aclrtLaunchKernelWithHostArgs((aclrtFuncHandle)0x1000, 8, (aclrtStream)0x2000, NULL, args, sizeof args, NULL, 0) != ACL_SUCCESS)
		abort();
}

static bool makes, describes;
static void *tensors[4];
static const int64_t dims[] = {16, 64, 128}, strides[] = {8192, 128, 1};

static void arguments(int i)
{
	uint64_t size;

	CanUsePTACache(names[i]);
	InitPTACacheThreadLocal();
	for (int k = 0; k < 4; k++)
		AddTensorAddrToCachedList(args + k);
	SetPTAHashKey((uint64_t)i + 1);
	PTAGetExecCache((uint64_t)i + 1, &size);
	InitHugeMemThreadLocal(NULL, false);
	for (int k = 3; k >= 0; k--)
		tensors[k] = aclCreateTensor(dims, 3, ACL_FLOAT16, strides, 0, ACL_FORMAT_ND, dims, 3, args + k);
}

static void arguments_end(void)
{
	for (int k = 0; k < 4; k++)
		aclDestroyTensor(tensors[k]);
	UnInitHugeMemThreadLocal(NULL, false);
	UnInitPTACacheThreadLocal();
}

static void describe(void)
{
	static const uint32_t info[(48 + 4 * 44) / 4] = {0, 8, 1, 1, 2, 2, 0, 0, 0, 0, 0, 4};
	aclrtStreamAttrValue wanted = {0};

	if (aclrtGetStreamAttribute((aclrtStream)0x2000, ACL_STREAM_ATTR_CACHE_OP_INFO, &wanted) == ACL_SUCCESS && wanted.cacheOpInfoSwitch)
		aclrtCacheLastTaskOpInfo(info, sizeof info);
}

static __attribute__((noinline)) void phase_one(int i, void **executor)
{
	begin_one(names[i], executor);
	*executor = (void *)(uintptr_t)(0x55550000 + 256 * i);
	begin_inner(inner[i], *executor);
	end(args);
	end(args);
}

static __attribute__((noinline)) void phase_two(int i, void *executor)
{
	begin_two(names[i], executor);
	run(NULL, 0, executor, (void *)0x2000);
	launch();
	if (describes)
		describe();
	end(args);
}

int main(int argc, char **argv)
{
	static double operators[MOST], launches[MOST];
	int rounds = argc > 2 ? atoi(argv[2]) : 400;

	if (rounds < 1 || rounds > MOST)
		return 2;
	makes = argc > 3 && !strcmp(argv[3], "all"), describes = argc > 3 && !strcmp(argv[3], "shapes");
	for (int r = 0; r < rounds; r++) {
		struct timespec pause = {0, 4000000}; /* the recorder may catch up */
		uint64_t a = now();
		for (int i = 0; i < CALLS; i++)
			launch();
		uint64_t b = now();
		for (int i = 0; i < CALLS; i++) {
			void *executor;
			if (makes)
				arguments(i % NAMES);
			phase_one(i % NAMES, &executor);
			phase_two(i % NAMES, executor);
			if (makes)
				arguments_end();
		}
		uint64_t c = now();
		launches[r] = (double)(b - a) / CALLS;
		operators[r] = (double)(c - b) / CALLS;
		nanosleep(&pause, NULL);
	}
	printf("%s %.1f launch %.1f\n", argc > 1 ? argv[1] : "bare", median(operators, rounds), median(launches, rounds));
	return 0;
}
#endif
