/*
 * The cache of executors, as frameworks use it: a look-up on a thread names the operator, a key, and the addresses of the tensors. A hit
 * is a new executor with these addresses. After a miss, the next phase one of the thread becomes the entry of the key.
 *
 * Each thread has its own entries. An entry is usable once its executor has run and ended, maybe on another thread. So an entry has
 * two owners: the cache and the executor.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"

struct cached {
	_Atomic int owners;
	_Atomic int state; /* see below */
	const char *name;  /* the pointer that the program passed: another one never hits */
	uint8_t *key;
	size_t key_size;
	uint64_t hash;
	frozen call;
	uint64_t workspace_size;
	cached *next, *newer, *older; /* in its bucket; by last use */
};

enum { MADE, USABLE, FAILED };
enum { BUCKETS = 1024, DEFAULT_LIMIT = 10000 };

/* The cache and the look-up of a thread. */
typedef struct cache {
	cached *buckets[BUCKETS];
	cached *newest, *oldest;
	size_t count;

	const char *name;   /* NULL: no look-up is open */
	const uint8_t *key; /* the program's; NULL: the key is the hash alone */
	size_t key_size;
	uint64_t hash; /* 0: not to be cached */
	void **addresses;
	size_t num_addresses, room;
} cache;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t of_thread;
static size_t limit = DEFAULT_LIMIT;

static void drop(cached *c)
{
	if (atomic_fetch_sub(&c->owners, 1) != 1)
		return;
	free(c->call.block);
	free(c->key);
	free(c);
}

static void end_thread(void *p)
{
	cache *c = p;

	for (cached *e = c->newest, *older; e; e = older) {
		older = e->older;
		drop(e);
	}
	free(c->addresses);
	free(c);
}

static void start(void)
{
	const char *text = getenv("ACLNN_CACHE_LIMIT");
	unsigned long n = text ? strtoul(text, NULL, 10) : 0;

	if (n > 0)
		limit = n;
	pthread_key_create(&of_thread, end_thread);
}

/* mine returns this thread's cache; NULL if memory is exhausted. */
static cache *mine(void)
{
	pthread_once(&once, start);
	cache *c = pthread_getspecific(of_thread);
	if (!c && (c = calloc(1, sizeof *c)))
		pthread_setspecific(of_thread, c);
	return c;
}

static void begin(cache *c)
{
	c->key = NULL;
	c->key_size = 0;
	c->hash = 0;
	c->num_addresses = 0;
}

OPAPI_EXPORT bool CanUsePTACache(const char *name)
{
	cache *c = mine();

	if (!c || !name)
		return false;
	c->name = name;
	return true;
}

OPAPI_EXPORT void InitPTACacheThreadLocal(void)
{
	cache *c = mine();

	if (c)
		begin(c);
}

OPAPI_EXPORT void UnInitPTACacheThreadLocal(void)
{
	cache *c = mine();

	if (!c)
		return;
	begin(c);
	c->name = NULL;
}

OPAPI_EXPORT void AddTensorAddrToCachedList(void *address)
{
	cache *c = mine();

	if (!c)
		return;
	if (c->num_addresses == c->room) {
		size_t room = c->room ? 2 * c->room : 64;
		void **more = realloc(c->addresses, room * sizeof *more);
		if (!more) {
			c->hash = 0;
			return;
		}
		c->addresses = more;
		c->room = room;
	}
	c->addresses[c->num_addresses++] = address;
}

OPAPI_EXPORT void SetPTAHashKey(uint64_t hash)
{
	cache *c = mine();

	if (c) {
		c->hash = hash;
		c->key = NULL;
		c->key_size = 0;
	}
}

static uint64_t hash_of(const uint8_t *key, size_t n)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < n; i++)
		h = (h ^ key[i]) * UINT64_C(1099511628211);
	return h ? h : 1;
}

OPAPI_EXPORT void SetPTACacheHashKey(uint8_t *key, size_t size)
{
	cache *c = mine();

	if (!c)
		return;
	c->key = size ? key : NULL;
	c->key_size = key ? size : 0;
	c->hash = key && size ? hash_of(key, size) : 0;
}

static bool same_key(const cached *e, uint64_t hash, const uint8_t *key, size_t size)
{
	return e->hash == hash && e->key_size == size && (!size || !memcmp(e->key, key, size));
}

static void unlink_use(cache *c, cached *e)
{
	*(e->newer ? &e->newer->older : &c->newest) = e->older;
	*(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void link_newest(cache *c, cached *e)
{
	e->newer = NULL;
	e->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = e;
	c->newest = e;
}

static void evict(cache *c, cached *e)
{
	cached **at = &c->buckets[e->hash % BUCKETS];

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	unlink_use(c, e);
	c->count--;
	drop(e);
}

static cached *look(cache *c, uint64_t hash, const uint8_t *key, size_t size)
{
	cached *e = c->buckets[hash % BUCKETS];

	while (e && !(e->name == c->name && same_key(e, hash, key, size)))
		e = e->next;
	return e;
}

void cache_add(aclOpExecutor *x)
{
	cache *c = mine();

	if (!c || !c->hash || !c->name)
		return;
	cached *old = look(c, c->hash, c->key, c->key_size);
	if (old && atomic_load(&old->state) != FAILED)
		return; /* its executor has not ended yet */
	cached *e = calloc(1, sizeof *e);
	if (!e)
		return;
	e->key = c->key_size ? malloc(c->key_size) : NULL;
	e->call = x->call;
	e->call.block = block_copy(x->call.block);
	if ((c->key_size && !e->key) || !e->call.block) {
		atomic_store(&e->owners, 1);
		drop(e);
		return;
	}
	if (e->key)
		memcpy(e->key, c->key, c->key_size);
	e->key_size = c->key_size;
	e->hash = c->hash;
	e->name = c->name;
	e->workspace_size = x->workspace_size;
	atomic_store(&e->owners, 2);
	if (old)
		evict(c, old);
	while (c->count >= limit)
		evict(c, c->oldest);
	e->next = c->buckets[e->hash % BUCKETS];
	c->buckets[e->hash % BUCKETS] = e;
	link_newest(c, e);
	c->count++;
	x->entry = e;
	c->hash = 0; /* a further phase one in this look-up is another operator's */
}

void cache_ran(cached *e, bool well)
{
	atomic_store(&e->state, well ? USABLE : FAILED);
	drop(e);
}

/* Writes the addresses of a look-up into the tensors that are not absent. */
static bool place(const cache *c, aclsim_operator_block *b)
{
	size_t used = 0;

	for (uint32_t i = 0; i < b->num_tensors; i++) {
		aclsim_operator_tensor *t = &block_tensors(b)[i];
		if (t->flags & ACLSIM_OPERATOR_ABSENT)
			continue;
		if (used == c->num_addresses)
			return false;
		t->base = (uint64_t)(uintptr_t)c->addresses[used++];
	}
	return used == c->num_addresses;
}

static aclOpExecutor *find(uint64_t hash, const uint8_t *key, size_t size, uint64_t *workspace_size)
{
	cache *c = mine();
	cached *e = c && c->name && hash ? look(c, hash, key, size) : NULL;

	if (!e || atomic_load(&e->state) != USABLE || !workspace_size)
		return NULL;
	aclOpExecutor *x = executor_of(e->call.index, e->call.text, block_copy(e->call.block));
	if (x && !place(c, x->call.block)) { /* other tensors are absent than before */
		aclsim_operator_block *block = x->call.block;
		handle_end(x, EXECUTOR);
		handle_free(x, EXECUTOR);
		free(block);
		return NULL;
	}
	if (!x)
		return NULL;
	x->workspace_size = e->workspace_size;
	*workspace_size = e->workspace_size;
	unlink_use(c, e);
	link_newest(c, e);
	return x;
}

OPAPI_EXPORT aclOpExecutor *PTAGetExecCache(uint64_t hash, uint64_t *workspace_size)
{
	return find(hash, NULL, 0, workspace_size);
}

OPAPI_EXPORT aclOpExecutor *PTAFindExecCache(uint8_t *key, size_t size, uint64_t *workspace_size)
{
	return key && size ? find(hash_of(key, size), key, size, workspace_size) : NULL;
}

/* The pool for executors of a thread is not simulated: executors end in phase two. */
OPAPI_EXPORT int InitHugeMemThreadLocal(void *a, bool b)
{
	(void)a;
	(void)b;
	return 0;
}

OPAPI_EXPORT void UnInitHugeMemThreadLocal(void *a, bool b)
{
	(void)a;
	(void)b;
}

OPAPI_EXPORT void ReleaseHugeMem(void *a, bool b)
{
	(void)a;
	(void)b;
}
