/*
 * The caches of executors, in the sequences of a framework's queue modes: in mode 0 one thread does all, in mode 1 another thread runs phase
 * two, in mode 2 that thread does the look-up and both phases.
 */
#include <pthread.h>

#include "test.h"

OPERATOR(aclnnAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out);
OPERATOR(aclnnLayerNorm, const aclTensor *input, const array *shape, const aclTensor *weight, const aclTensor *bias, double eps, aclTensor *out, aclTensor *mean, aclTensor *rstd);
OPERATOR(aclnnCat, const array *tensors, int64_t dim, aclTensor *out);

int InitHugeMemThreadLocal(void *a, bool b);
void UnInitHugeMemThreadLocal(void *a, bool b);
void ReleaseHugeMem(void *a, bool b);
void InitPTACacheThreadLocal(void);
void UnInitPTACacheThreadLocal(void);
void SetPTAHashKey(uint64_t hash);
void SetPTACacheHashKey(uint8_t *key, size_t n);
void AddTensorAddrToCachedList(void *p);
aclOpExecutor *PTAGetExecCache(uint64_t hash, uint64_t *size);
aclOpExecutor *PTAFindExecCache(uint8_t *key, size_t n, uint64_t *size);
bool CanUsePTACache(const char *name);

static const char name[] = "aclnnAdd";
static char *memory;
static uint64_t size;

/* The consumer thread: runs an executor at a time. */
static pthread_t consumer;

static void *consume(void *e)
{
	OK(aclrtSetDevice(0));
	OK(aclnnAdd(memory, 8, e, stream));
	return NULL;
}

static void on_consumer(aclOpExecutor *e)
{
	CHECK(!pthread_create(&consumer, NULL, consume, e) && !pthread_join(consumer, NULL));
}

/* Opens a look-up for an addition of the tensors at three places. */
static void open_lookup(const char *name, uint64_t key, const int *places)
{
	CHECK(CanUsePTACache(name));
	InitPTACacheThreadLocal();
	for (int i = 0; i < 3; i++)
		AddTensorAddrToCachedList(memory + places[i]);
	SetPTAHashKey(key);
}

static aclOpExecutor *phase_one(const int *places)
{
	static float two = 2;
	aclOpExecutor *e;

	InitHugeMemThreadLocal(NULL, false);
	aclTensor *t[3];
	for (int i = 0; i < 3; i++)
		t[i] = vector(8, memory + places[i]);
	aclScalar *alpha = aclCreateScalar(&two, F32);
	OK(aclnnAddGetWorkspaceSize(t[0], t[1], alpha, t[2], &size, &e));
	for (int i = 0; i < 3; i++)
		OK(aclDestroyTensor(t[i]));
	OK(aclDestroyScalar(alpha));
	return e;
}

static void ran(const int *places)
{
	for (uint32_t i = 0; i < 3; i++)
		CHECK(tensor(i)->base == (uintptr_t)memory + (size_t)places[i]);
	CHECK(((const aclsim_operator_scalar *)value(2))->dtype == F32 && tensor(2)->role == ACLSIM_OPERATOR_OUT);
}

static const int here[] = {0, 64, 128}, there[] = {512, 576, 640};

static void mode0(void)
{
	aclOpExecutor *e;

	open_lookup(name, 77, here);
	CHECK(!PTAGetExecCache(77, &size));
	e = phase_one(here);
	OK(aclnnAdd(NULL, 0, e, stream));
	ReleaseHugeMem(NULL, false);
	UnInitHugeMemThreadLocal(NULL, false);
	UnInitPTACacheThreadLocal();

	for (int i = 0; i < 2; i++) { /* a hit has the new addresses, and is a new executor each time */
		open_lookup(name, 77, there);
		calls[0] = 0;
		e = PTAGetExecCache(77, &size);
		CHECK(e);
		UnInitPTACacheThreadLocal();
		OK(aclnnAdd(NULL, 0, e, stream));
		ran(there);
		WANT(561103, aclnnAdd(NULL, 0, e, stream));
		CHECK(!strstr(calls, "Phase1"));
	}
	for (int i = 0; i < 3; i++)
		AddTensorAddrToCachedList(memory);
	CHECK(!PTAGetExecCache(77, &size)); /* no look-up is open */
	open_lookup("aclnnAdd\0", 77, there); /* another pointer: never the same operator */
	CHECK(!PTAGetExecCache(77, &size));
	open_lookup(name, 78, there);
	CHECK(!PTAGetExecCache(78, &size));
	open_lookup(name, 0, there); /* key 0 */
	CHECK(!PTAGetExecCache(0, &size));
	e = phase_one(there);
	OK(aclnnAdd(NULL, 0, e, stream));
	open_lookup(name, 0, there);
	CHECK(!PTAGetExecCache(0, &size));
	UnInitPTACacheThreadLocal();
	open_lookup(name, 77, here);
	InitPTACacheThreadLocal();
	CHECK(!PTAGetExecCache(77, &size)); /* no address was told */
	open_lookup(name, 77, here);
	AddTensorAddrToCachedList(memory);
	CHECK(!PTAGetExecCache(77, &size)); /* one too many */

	/* The entry is the first phase one of a look-up; a further one is another operator's. */
	open_lookup(name, 79, here);
	OK(aclDestroyAclOpExecutor(phase_one(here)));
	OK(aclnnAdd(NULL, 0, phase_one(here), stream));
	CHECK(!PTAGetExecCache(79, &size));
	UnInitPTACacheThreadLocal();
}

/* An entry is usable only after its executor has run on the consumer. */
static void mode1(void)
{
	aclOpExecutor *e, *again;

	open_lookup(name, 101, here);
	CHECK(!PTAGetExecCache(101, &size));
	e = phase_one(here);
	UnInitPTACacheThreadLocal();
	open_lookup(name, 101, here);
	CHECK(!PTAGetExecCache(101, &size)); /* still queued */
	again = phase_one(here);
	UnInitPTACacheThreadLocal();
	on_consumer(e);
	open_lookup(name, 101, there);
	e = PTAGetExecCache(101, &size);
	CHECK(e && e != again);
	UnInitPTACacheThreadLocal();
	on_consumer(again);
	ran(here);
	on_consumer(e);
	ran(there);

	/* A phase two that fails, or never happens, makes no entry; the next one does. */
	open_lookup(name, 102, here);
	e = phase_one(here);
	WANT(361001, aclnnAdd(NULL, 0, e, (aclrtStream)&size));
	open_lookup(name, 102, here);
	CHECK(!PTAGetExecCache(102, &size));
	e = phase_one(here);
	OK(aclDestroyAclOpExecutor(e));
	open_lookup(name, 102, here);
	CHECK(!PTAGetExecCache(102, &size));
	e = phase_one(here);
	OK(aclnnAdd(NULL, 0, e, stream));
	open_lookup(name, 102, here);
	CHECK((e = PTAGetExecCache(102, &size)));
	OK(aclDestroyAclOpExecutor(e));
	UnInitPTACacheThreadLocal();
}

/* The consumer looks up with whole keys. Its entries are its own. */
static void *look(void *hits)
{
	uint8_t key[3000];

	OK(aclrtSetDevice(0));
	for (int i = 0; i < 4; i++) {
		memset(key, 'a' + i % 2, sizeof key);
		CHECK(CanUsePTACache(name));
		InitPTACacheThreadLocal();
		for (int k = 0; k < 3; k++)
			AddTensorAddrToCachedList(memory + (i < 2 ? here : there)[k]);
		SetPTACacheHashKey(key, sizeof key);
		aclOpExecutor *e = PTAFindExecCache(key, sizeof key, &size);
		*(int *)hits += e != NULL;
		OK(aclnnAdd(NULL, 0, e ? e : phase_one(here), stream));
		ReleaseHugeMem(NULL, false);
		UnInitPTACacheThreadLocal();
		ran(i < 2 ? here : there);
	}
	CHECK(CanUsePTACache(name));
	InitPTACacheThreadLocal();
	SetPTACacheHashKey(NULL, 0);
	CHECK(!PTAFindExecCache(NULL, 0, &size));
	UnInitPTACacheThreadLocal();
	return NULL;
}

static void mode2(void)
{
	for (int i = 0; i < 2; i++) { /* the second thread has no entries of the first */
		int hits = 0;
		CHECK(!pthread_create(&consumer, NULL, look, &hits) && !pthread_join(consumer, NULL));
		CHECK(hits == 2);
	}
}

/* Absent tensors and elements have no address; those of a list are counted one by one. */
static void absent(void)
{
	static const char norm[] = "aclnnLayerNorm", cat[] = "aclnnCat";
	aclTensor *t = vector(8, memory), *u = vector(8, memory + 64);
	array *shape = aclCreateIntArray((int64_t[]){8}, 1), *list = aclCreateTensorList((const aclTensor *const[]){t, NULL, u}, 3);
	aclOpExecutor *e;

	CHECK(CanUsePTACache(norm));
	InitPTACacheThreadLocal();
	SetPTAHashKey(5);
	OK(aclnnLayerNormGetWorkspaceSize(t, shape, NULL, u, 0.5, u, NULL, NULL, &size, &e));
	OK(aclnnLayerNorm(NULL, 0, e, stream));
	InitPTACacheThreadLocal();
	for (int i = 0; i < 3; i++)
		AddTensorAddrToCachedList(memory + 1024 + i);
	SetPTAHashKey(5);
	CHECK((e = PTAGetExecCache(5, &size)));
	OK(aclnnLayerNorm(NULL, 0, e, stream));
	for (uint32_t i = 0; i < 3; i++)
		CHECK(tensor(i)->base == (uintptr_t)memory + 1024 + i);
	CHECK(param(2)->null && param(6)->null && real(4) == 0.5);

	CHECK(CanUsePTACache(cat));
	InitPTACacheThreadLocal();
	SetPTAHashKey(6);
	OK(aclnnCatGetWorkspaceSize(list, 0, u, &size, &e));
	OK(aclnnCat(NULL, 0, e, stream));
	InitPTACacheThreadLocal();
	for (int i = 0; i < 3; i++)
		AddTensorAddrToCachedList(memory + 2048 + i);
	CHECK((e = PTAGetExecCache(6, &size)));
	OK(aclnnCat(NULL, 0, e, stream));
	CHECK(tensor(0)->base == (uintptr_t)memory + 2048 && !tensor(1)->base && tensor(2)->base == (uintptr_t)memory + 2049 && tensor(3)->base == (uintptr_t)memory + 2050);
	UnInitPTACacheThreadLocal();
}

/* ACLNN_CACHE_LIMIT=3: the entry that was not used for longest goes. */
static void limit(void)
{
	for (uint64_t key = 1; key <= 4; key++) {
		open_lookup(name, 1000 + key, here);
		OK(aclnnAdd(NULL, 0, phase_one(here), stream));
		open_lookup(name, 1001, here);
		aclOpExecutor *e = PTAGetExecCache(1001, &size);
		CHECK(e);
		OK(aclDestroyAclOpExecutor(e));
	}
	for (uint64_t key = 1; key <= 4; key++) {
		open_lookup(name, 1000 + key, here);
		aclOpExecutor *e = PTAGetExecCache(1000 + key, &size);
		CHECK((e != NULL) == (key != 2));
		if (e)
			OK(aclDestroyAclOpExecutor(e));
	}
	UnInitPTACacheThreadLocal();
}

int main(void)
{
	start();
	memory = device(4096);
	mode0();
	mode1();
	mode2();
	absent();
	limit();
	OK(aclrtSynchronizeStream(stream));
	return 0;
}
