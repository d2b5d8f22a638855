/*
 * A fake CUDA driver, for machines without a GPU. Memory, copies, streams, events, captured graphs and the checks of launches are real;
 * kernels are functions of the host, found by the names that a module's PTX gives them (include/fakecuda.h). Nothing here
 * measures anything, and whatever is not here answers CUDA_ERROR_NOT_SUPPORTED.
 *
 * Device memory is a file that is mapped twice: without rights where the program thinks that it is, and once more for this library. Whoever
 * reads through a device pointer is killed, as with a GPU; managed memory alone has rights in both places.
 *
 * One lock guards everything. Each stream has a thread that takes its tasks in order; what a task waits for besides are places in other
 * streams. Streams, events and contexts are never freed, so a stale handle is known as such.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FAKECUDA_DRIVER
#include "fakecuda.h"
#include "ptx.h"

#define OK CUDA_SUCCESS
#define INVALID CUDA_ERROR_INVALID_VALUE
#define HANDLE CUDA_ERROR_INVALID_HANDLE

/* Which shared object it is: a simulator's exports this, a vendor's does not. */
int fakecuda_simulated(void) { return 1; }

/* The first kernel that was launched and that no kernel library has; NULL for none. */
static _Atomic(const char *) missing_kernel;

/* As aclsim/unknown.h describes it, but coarse: after such a launch no bytes of the process are known any more. */
int aclsim_unknown(const void *addr, size_t size, char *kernel, size_t n)
{
	const char *name = atomic_load(&missing_kernel);

	(void)addr, (void)size;
	if (name == NULL)
		return 0;
	if (kernel != NULL && n > 0)
		snprintf(kernel, n, "%s", name);
	return 1;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool initialized;
static pid_t process;

/* What a handle leads to begins with its kind, and is in a list of its kind. */
enum kind { CONTEXT, STREAM, EVENT, MODULE, FUNCTION, GRAPH, NODE, POOL, PHYSICAL, CONDITION, LINK, ARRAY, LEVELS, RESOURCE, GREEN, KINDS };
struct object {
	enum kind kind;
	bool gone;
	struct object *next;
};
static struct object *objects[KINDS];

static void *make(enum kind kind, size_t size)
{
	struct object *o = calloc(1, size);
	o->kind = kind;
	o->next = objects[kind];
	objects[kind] = o;
	return o;
}

static void *known(enum kind kind, const void *handle)
{
	for (struct object *o = objects[kind]; o; o = o->next)
		if (o == handle && !o->gone)
			return o;
	return NULL;
}

/* ---- memory ---- */

enum { UNIT = 512, PAGE = 4096, GRANULARITY = 2 << 20 };
#define GIB (1ULL << 30)
#define TOTAL (8 * GIB)             /* of all devices */
#define GRAPHS_AT (12 * GIB)        /* memory that nodes of graphs allocate, which nobody can place */
#define RESERVE_AT (16 * GIB)       /* addresses that are reserved */
#define IMPORTS_AT (22 * GIB)       /* memory of other processes */
#define PHYSICAL_AT (24 * GIB)      /* what is mapped there */
#define ARENA (32 * GIB)
enum { RECORDS = 1 << 14 };         /* behind it in the file */
enum { MOST_DEVICES = 8 };
static int devices = 1;
static uint64_t base = 0x302000000000;
static uint8_t *arena;
static int file = -1;

/* What other processes are told of: where memory lies in the file, which pool there is, how far an event is. */
struct record {
	enum kind kind;
	int device;
	uint64_t at, size;
	_Atomic uint64_t issued, done; /* of an event: how often it was recorded, and up to which time it has come */
	uint64_t unused[3];
};
static struct record *records;
static size_t records_count;
_Static_assert(sizeof(struct record) == 64, "no record lies in two pages");

struct block {
	uint64_t at, size;
	enum { PLAIN, MANAGED, RESERVED, MAPPED, BACKING, IMPORTED, MULTICAST } kind;
	int device;
	uint32_t open;     /* to kernels of these devices besides, a bit for each */
	struct pool *pool; /* it is of, and as open as that. What was imported of one is the pool's too */
	bool going;        /* a stream gives it back when it has come so far */
	struct context *by; /* whose it is where that is no pool's */
	struct physical *of;
	uint64_t offset; /* in a multicast object */
	bool mostly_read;   /* as was advised of managed memory, and where it was last fetched to */
	CUmemLocation preferred, fetched;
};
static struct block *blocks; /* by address; what is mapped lies in what is reserved, and is listed apart */
static size_t blocks_count, blocks_room;
static uint64_t used[MOST_DEVICES];

static bool open_arena(void)
{
	const char *at = getenv("FAKECUDA_VA_BASE");
	if (at && *at)
		base = strtoull(at, NULL, 16);
	file = memfd_create("fakecuda", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, ARENA + RECORDS * sizeof *records) != 0)
		return false;
	records = mmap(NULL, RECORDS * sizeof *records, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, ARENA);
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
	void *p = mmap((void *)base, RESERVE_AT, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
	/* Whoever has taken the addresses wants to reserve them. */
	if (p == MAP_FAILED && (at == NULL || *at == 0))
		p = mmap((void *)(base -= RESERVE_AT), RESERVE_AT, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
	/* Drivers have memory of their own anywhere. */
	if ((at = getenv("FAKECUDA_TAKES")) != NULL && *at)
		mmap((void *)strtoull(at, NULL, 16), GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return arena != MAP_FAILED && records != MAP_FAILED && p == (void *)base;
}

static struct record *new_record(enum kind kind, int device, uint64_t at, uint64_t size)
{
	struct record *r = records_count < RECORDS ? &records[records_count++] : NULL;
	if (r)
		*r = (struct record){.kind = kind, .device = device, .at = at, .size = size};
	return r;
}

static uint64_t record_at(const struct record *r) { return ARENA + (uint64_t)(r - records) * sizeof *r; }

static int open_file(int pid, int fd)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* A descriptor is the file once more, and stands at the record of what it is of. */
static CUresult give_descriptor(void *out, const struct record *r)
{
	int fd = r ? open_file(getpid(), file) : -1;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	lseek(fd, (off_t)record_at(r), SEEK_SET);
	*(int *)out = fd;
	return OK;
}

/* Returns a descriptor of the file that is this library's alone, and what the record there says. -1 where that is of another kind or none at all. */
static int take_descriptor(const void *handle, enum kind kind, struct record *r)
{
	int fd = (int)(intptr_t)handle;
	off_t at = lseek(fd, 0, SEEK_CUR);
	return at >= (off_t)ARENA && pread(fd, r, sizeof *r, at) == sizeof *r && r->kind == kind && r->size ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
}

static void insert(struct block b)
{
	if (blocks_count == blocks_room)
		blocks = realloc(blocks, (blocks_room = blocks_room ? 2 * blocks_room : 64) * sizeof *blocks);
	size_t i = blocks_count++;
	for (; i > 0 && blocks[i - 1].at > b.at; i--)
		blocks[i] = blocks[i - 1];
	blocks[i] = b;
}

static struct block *block_at(uint64_t at, int kind)
{
	for (size_t i = 0; i < blocks_count; i++)
		if (blocks[i].at == at && ((int)blocks[i].kind == kind || (kind < 0 && blocks[i].kind <= MANAGED)))
			return &blocks[i];
	return NULL;
}

static void erase(struct block *b)
{
	memmove(b, b + 1, (size_t)(&blocks[--blocks_count] - b) * sizeof *b);
}

/* As aclsim/place.h describes it. */
static __thread uint64_t place_wish;
void aclsim_place(uint64_t addr) { place_wish = addr; }

/* An allocation lies where its thread wishes, or else the nth one at the nth address of the file that FAKECUDA_PLACE names, if that is free. */
static uint64_t placed(void)
{
	uint64_t wish = place_wish;
	place_wish = 0;
	if (wish)
		return wish;
	static FILE *f;
	static bool asked;
	const char *name = getenv("FAKECUDA_PLACE");
	if (!asked && name && *name)
		f = fopen(name, "r");
	asked = true;
	char line[64];
	return f && fgets(line, sizeof line, f) ? strtoull(line, NULL, 0) : 0;
}

/* Free addresses within a part of the arena, 0 where there are none. */
static uint64_t find_room(uint64_t from, uint64_t to, uint64_t size, uint64_t align, uint64_t wish)
{
	for (int pass = wish ? 0 : 1; pass < 2; pass++) {
		uint64_t at = pass == 0 ? wish : base + from;
		bool free_ = at >= base + from;
		for (size_t i = 0; i < blocks_count; i++) {
			struct block *b = &blocks[i];
			if (b->kind == MAPPED || b->kind == MULTICAST || b->at + b->size <= at || b->at >= base + to)
				continue;
			if (b->at >= at + size)
				break;
			if (pass == 0) {
				free_ = false;
				break;
			}
			at = (b->at + b->size + align - 1) / align * align;
		}
		if (free_ && at % UNIT == 0 && at + size <= base + to)
			return at;
	}
	return 0;
}

/* An address that is asked for is there once the streams that give it back have done so. */
static void await_room(uint64_t at, uint64_t size)
{
	for (size_t i = 0; at && i < blocks_count; i++)
		if (blocks[i].going && blocks[i].at < at + size && at < blocks[i].at + blocks[i].size) {
			pthread_cond_wait(&moved, &lock);
			i = (size_t)-1;
		}
}

static uint64_t room(int device) { return TOTAL / (uint64_t)devices - used[device]; }

static CUresult allocate_in(int device, CUdeviceptr *p, size_t size, int kind, uint64_t wish, uint64_t from, uint64_t to)
{
	if (p == NULL || size == 0)
		return INVALID;
	uint64_t align = kind == MANAGED ? PAGE : UNIT, whole = (size + align - 1) / align * align;
	await_room(wish, whole);
	uint64_t at = whole > room(device) ? 0 : find_room(from, to, whole, align, wish);
	if (at == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (kind == MANAGED && mprotect((void *)at, whole, PROT_READ | PROT_WRITE) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	insert((struct block){.at = at, .size = whole, .kind = kind, .device = device, .open = kind == MANAGED ? ~0U : 0});
	used[device] += whole;
	*p = at;
	return OK;
}

static CUresult allocate(int device, CUdeviceptr *p, size_t size, int kind, uint64_t wish) { return allocate_in(device, p, size, kind, wish, 0, RESERVE_AT); }

/* Memory that is given back by its address. */
static struct block *owned_block(CUdeviceptr p)
{
	struct block *b = block_at(p, -1);
	if (b == NULL && (b = block_at(p - p % PAGE, IMPORTED)) != NULL && b->pool == NULL)
		b = NULL;
	return b;
}

/* Memory of another process is no longer seen. */
static void leave_block(struct block *b)
{
	mmap(arena + (b->at - base), b->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, (off_t)(b->at - base));
	erase(b);
}

static CUresult release_block(CUdeviceptr p)
{
	struct block *b = owned_block(p);
	if (b == NULL)
		return INVALID;
	if (b->kind == IMPORTED) {
		leave_block(b);
		return OK;
	}
	if (b->kind == MANAGED)
		mprotect((void *)b->at, b->size, PROT_NONE);
	madvise(arena + (b->at - base), b->size & ~(uint64_t)(PAGE - 1), MADV_REMOVE);
	used[b->device] -= b->size;
	erase(b);
	return OK;
}

/* The memory that holds all of a range, NULL where there is none. */
static struct block *holding(uint64_t at, uint64_t size)
{
	for (size_t i = 0; i < blocks_count; i++) {
		struct block *b = &blocks[i];
		if (b->kind != RESERVED && b->kind != BACKING && b->kind != MULTICAST && at >= b->at && at - b->at <= b->size && size <= b->size - (at - b->at))
			return b;
	}
	return NULL;
}

/* Where this library sees device memory, NULL where no allocation holds all of it. */
static uint8_t *seen(uint64_t at, uint64_t size) { return holding(at, size) ? arena + (at - base) : NULL; }

static bool device_address(uint64_t at) { return at >= base && at < base + ARENA; }

/* Host memory that the device may reach. */
static struct host { uint8_t *at; size_t size; unsigned flags; bool own; struct host *next; } *hosts;

static struct host *host_of(const void *p)
{
	for (struct host *h = hosts; h; h = h->next)
		if ((const uint8_t *)p >= h->at && (const uint8_t *)p < h->at + h->size)
			return h;
	return NULL;
}

struct pool {
	struct object o;
	int device;
	uint32_t open;
	uint64_t threshold, high;
	bool shareable;
	struct record *record; /* once it was exported */
	int from;              /* of another process: the file with its memory, which stands at its record; 0 for one of this process */
};

/* ---- contexts, streams, tasks ---- */

struct place { struct stream *stream; uint64_t ticket; };

struct context {
	struct object o;
	int device;
	uint32_t peers; /* devices whose memory its kernels reach, a bit for each */
	unsigned flags;
	CUfunc_cache cache;
	size_t limits[CU_LIMIT_MAX];
	int references; /* of the primary one */
	CUresult error; /* of the device, once there is one */
	CUsharedconfig banks;
	struct stream *legacy, *watcher; /* which waits for all others where an event is to be behind all of them */
	struct place behind;             /* what streams to come are behind */
};

struct task {
	struct task *next;
	struct context *ctx;
	void (*run)(struct task *);
	struct place waits[64];
	unsigned waits_count;
	uint64_t ticket;
	struct event *event;
	struct record *reaches, *awaits; /* events of several processes: it brings one up to a mark, or waits until that is there */
	uint64_t mark;
	struct function *function;
	struct fakecuda_launch launch;
	uint8_t *args;
	const void **params;
	uint64_t dst, src, width, height, depth, dst_pitch, src_pitch, dst_plane, src_plane;
	uint32_t value, unit;
	uint8_t *staged;
	void (*fn)(void *);
	CUstreamCallback callback;
	void *data;
	CUstream handle;
	struct graph *graph;
	struct node *node; /* in a graph */
	struct condition *condition; /* that says which of the bodies run, and how often */
	CUgraphConditionalNodeType how;
	CUgraph *bodies;
	uint32_t bodies_count;
	bool wait; /* has to hold: value reached */
	unsigned flags;
	uint64_t wanted;
};

/* Nodes that the next one that is captured comes behind. */
struct tails { struct node *nodes[64]; unsigned count; };

struct stream {
	struct object o;
	struct context *ctx;
	unsigned flags;
	int priority;
	bool started, legacy;
	pthread_t thread;
	struct task *first, **last;
	uint64_t issued, done;
	struct graph *capture;
	struct tails tails; /* in it */
	bool began; /* the capture with it */
};

struct event {
	struct object o;
	unsigned flags;
	struct place place; /* of the latest record */
	uint64_t ns;
	struct graph *capture;
	struct tails tails;
	struct record *record; /* that other processes see */
};

struct graph {
	struct object o;
	bool executable;
	struct task *tasks;
	struct task **last;
	size_t count;
	struct place ran; /* the latest run of an executable one, which is over before another begins, and before its nodes change */
};

/* A value that kernels set, and that says what of a graph runs. */
struct condition {
	struct object o;
	bool assigned; /* at each launch */
	uint32_t value, first;
};

/* A task of a graph: it runs when all have that it depends on. */
struct node {
	struct object o;
	CUgraphNodeType type;
	struct graph *graph;
	struct task *task;
	struct node *origin; /* in the graph that this one is a copy of */
	struct node **needs;
	size_t needs_count;
	bool disabled, ran;
};
static struct node *add_node(struct graph *g, struct task *t, CUgraphNodeType type);
static CUgraphNodeType node_type(const struct task *t);

static struct context *primary[MOST_DEVICES];
static __thread struct context *stack[32];
static __thread unsigned depth;
static __thread bool in_callback; /* of a stream's, which may make no call */
static __thread struct stream *own[8];

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct context *current(void) { return depth ? stack[depth - 1] : NULL; }

/* What every call that needs a context begins with. The lock is held where it returns 0. */
static CUresult enter(struct context **ctx)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (getpid() != process)
		return CUDA_ERROR_NOT_INITIALIZED; /* nothing of it survives a fork */
	if (in_callback)
		return CUDA_ERROR_NOT_PERMITTED;
	struct context *c = current();
	pthread_mutex_lock(&lock);
	CUresult e = c == NULL ? CUDA_ERROR_INVALID_CONTEXT : c->o.gone ? CUDA_ERROR_CONTEXT_IS_DESTROYED : c->error;
	if (e != OK)
		pthread_mutex_unlock(&lock);
	*ctx = c;
	return e;
}

static CUresult leave(CUresult e)
{
	pthread_mutex_unlock(&lock);
	return e;
}

static bool abroad; /* other processes may have to do with events */

/* Waits until something has happened. Nobody says what happens in other processes. */
static void pause_here(void)
{
	if (!abroad) {
		pthread_cond_wait(&moved, &lock);
		return;
	}
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if ((t.tv_nsec += 1000000) >= 1000000000)
		t.tv_sec++, t.tv_nsec -= 1000000000;
	pthread_cond_timedwait(&moved, &lock, &t);
}

static bool ready(const struct task *t)
{
	if (t->awaits && atomic_load(&t->awaits->done) < t->mark)
		return false;
	for (unsigned i = 0; i < t->waits_count; i++)
		if (t->waits[i].stream->done < t->waits[i].ticket)
			return false;
	if (t->wait) {
		uint8_t *p = seen(t->dst, t->unit);
		uint64_t v = 0;
		if (p == NULL)
			return true;
		memcpy(&v, p, t->unit);
		switch (t->flags & 3) {
		case CU_STREAM_WAIT_VALUE_EQ:
			return v == t->wanted;
		case CU_STREAM_WAIT_VALUE_AND:
			return (v & t->wanted) != 0;
		case CU_STREAM_WAIT_VALUE_NOR:
			return ~(v | t->wanted) != 0;
		default:
			return t->unit == 4 ? (int32_t)(v - t->wanted) >= 0 : (int64_t)(v - t->wanted) >= 0;
		}
	}
	return true;
}

static void drop(struct task *t)
{
	free(t->args);
	free(t->params);
	free(t->staged);
	free(t);
}

static void *work(void *arg)
{
	struct stream *s = arg;
	pthread_mutex_lock(&lock);
	while (!s->o.gone || s->first) {
		struct task *t = s->first;
		if (t == NULL || !ready(t)) {
			pause_here();
			continue;
		}
		pthread_mutex_unlock(&lock);
		if (t->run && t->ctx->error == OK)
			t->run(t);
		pthread_mutex_lock(&lock);
		if (t->event)
			t->event->ns = now();
		if (t->reaches) {
			uint64_t done = atomic_load(&t->reaches->done);
			while (done < t->mark && !atomic_compare_exchange_weak(&t->reaches->done, &done, t->mark))
				;
		}
		s->first = t->next;
		if (s->first == NULL)
			s->last = &s->first;
		s->done = t->ticket;
		drop(t);
		pthread_cond_broadcast(&moved);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static struct stream *new_stream(struct context *c, unsigned flags, int priority)
{
	struct stream *s = make(STREAM, sizeof *s);
	s->ctx = c;
	s->flags = flags;
	s->priority = priority;
	s->last = &s->first;
	return s;
}

/* The stream of a handle, NULL for one that is none. */
static struct stream *stream_of(struct context *c, CUstream h)
{
	if (h == NULL || h == (CUstream)1)
		return c->legacy;
	if (h == (CUstream)2) {
		for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
			if (own[i] && own[i]->ctx == c)
				return own[i];
			if (own[i] == NULL)
				return own[i] = new_stream(c, 0, 0);
		}
		return NULL;
	}
	return known(STREAM, h);
}

CUstream fake_thread_stream(CUstream s) { return s ? s : (CUstream)2; }

static void wait_for(struct task *t, struct stream *s, uint64_t ticket)
{
	if (s->done < ticket && t->waits_count < sizeof t->waits / sizeof *t->waits)
		t->waits[t->waits_count++] = (struct place){s, ticket};
}

/* Puts a task on a stream, or into the graph that the stream is captured in. Returns the place to wait for. */
static struct place put(struct stream *s, struct task *t)
{
	t->ctx = s->ctx;
	if (s->capture) {
		struct node *n = add_node(s->capture, t, node_type(t));
		n->needs_count = s->tails.count;
		n->needs = calloc(n->needs_count + 1, sizeof *n->needs);
		memcpy(n->needs, s->tails.nodes, n->needs_count * sizeof *n->needs);
		s->tails = (struct tails){{n}, 1};
		return (struct place){s, 0};
	}
	if (s->legacy) {
		for (struct object *o = objects[STREAM]; o; o = o->next) {
			struct stream *other = (struct stream *)o;
			if (other != s && other->ctx == s->ctx && !(other->flags & CU_STREAM_NON_BLOCKING))
				wait_for(t, other, other->issued);
		}
	} else if (!(s->flags & CU_STREAM_NON_BLOCKING))
		wait_for(t, s->ctx->legacy, s->ctx->legacy->issued);
	if (s->issued == 0 && s->ctx->behind.stream)
		wait_for(t, s->ctx->behind.stream, s->ctx->behind.ticket);
	t->ticket = ++s->issued;
	*s->last = t;
	s->last = &t->next;
	if (!s->started) {
		s->started = true;
		pthread_create(&s->thread, NULL, work, s);
		pthread_detach(s->thread);
	}
	pthread_cond_broadcast(&moved);
	return (struct place){s, t->ticket};
}

static CUresult await(struct place p)
{
	while (p.stream->done < p.ticket)
		pthread_cond_wait(&moved, &lock);
	return p.stream->ctx->error;
}

CUresult fake_unsupported(const char *name)
{
	static const char *told[600];
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < sizeof told / sizeof *told && told[i] != name; i++)
		if (told[i] == NULL) {
			told[i] = name;
			fprintf(stderr, "fakecuda: %s is not there\n", name);
			break;
		}
	pthread_mutex_unlock(&lock);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- process, devices, contexts ---- */

static void after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* A tool that the program is to load, as with any driver. */
static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *tool = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	int (*begin)(void) = tool ? (int (*)(void))dlsym(tool, "InitializeInjection") : NULL;
	if (begin)
		begin();
}

CUresult cuInit(unsigned Flags)
{
	if (Flags != 0)
		return INVALID;
	pthread_mutex_lock(&lock);
	if (!initialized) {
		const char *n = getenv("FAKECUDA_DEVICES");
		devices = n && *n ? atoi(n) : 1;
		if (devices < 1 || devices > MOST_DEVICES)
			return leave(CUDA_ERROR_NO_DEVICE);
		if (!open_arena())
			return leave(CUDA_ERROR_OPERATING_SYSTEM);
		pthread_atfork(NULL, NULL, after_fork);
		process = getpid();
		initialized = true;
		pthread_mutex_unlock(&lock);
		inject();
		return OK;
	}
	return leave(getpid() == process ? OK : CUDA_ERROR_NOT_INITIALIZED);
}

CUresult cuDriverGetVersion(int *v)
{
	if (v == NULL)
		return INVALID;
	*v = 13020;
	return OK;
}

static const struct { CUresult code; const char *name, *text; } errors[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "not initialized"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "no such device"},
	{CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "not a binary"},
	{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "no context"},
	{CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "no such file"},
	{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
	{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "no such name"},
	{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "not complete"},
	{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel used memory that is not there"},
	{CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "not permitted in a function that a stream calls"},
	{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
};

static CUresult error_text(CUresult code, const char **p, bool name)
{
	for (unsigned i = 0; p && i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code) {
			*p = name ? errors[i].name : errors[i].text;
			return OK;
		}
	if (p)
		*p = NULL;
	return INVALID;
}

CUresult cuGetErrorName(CUresult error, const char **pStr) { return error_text(error, pStr, true); }
CUresult cuGetErrorString(CUresult error, const char **pStr) { return error_text(error, pStr, false); }

static CUresult find_symbol(const char *symbol, void **pfn, int version, uint64_t flags, CUdriverProcAddressQueryResult *status)
{
	if (symbol == NULL || pfn == NULL)
		return INVALID;
	const struct fake_symbol *best = NULL;
	bool any = false;
	for (const struct fake_symbol *s = fake_symbols; s->base; s++) {
		if (strcmp(s->base, symbol) != 0)
			continue;
		any = true;
		if (s->since > version || (s->thread && flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
			continue;
		if (best == NULL || s->since > best->since || (s->since == best->since && s->thread > best->thread))
			best = s;
	}
	if (status)
		*status = best ? CU_GET_PROC_ADDRESS_SUCCESS : any ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*pfn = best ? best->fn : NULL;
	return best || status ? OK : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, uint64_t flags) { return find_symbol(symbol, pfn, cudaVersion, flags, NULL); }

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, uint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	return find_symbol(symbol, pfn, cudaVersion, flags, symbolStatus);
}

#define DEVICE(d) do { if (!initialized) return CUDA_ERROR_NOT_INITIALIZED; if ((d) < 0 || (d) >= devices) return CUDA_ERROR_INVALID_DEVICE; } while (0)

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	DEVICE(ordinal);
	*device = ordinal;
	return OK;
}

CUresult cuDeviceGetCount(int *count)
{
	DEVICE(0);
	*count = devices;
	return OK;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	DEVICE(dev);
	if (name == NULL || len <= 0)
		return INVALID;
	snprintf(name, (size_t)len, "Fake GPU");
	return OK;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	DEVICE(dev);
	memset(uuid, 0xfa, sizeof *uuid);
	uuid->bytes[0] = (char)dev;
	return OK;
}
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) { return cuDeviceGetUuid_v2(uuid, dev); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	DEVICE(dev);
	*bytes = TOTAL / (uint64_t)devices;
	return OK;
}

/* What a device of compute capability 9.0 has, where programs take its word for something; all else is 0. */
static const int device_attributes[CU_DEVICE_ATTRIBUTE_MAX] = {
	[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9,
	[CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32,
	[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 8,
	[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR] = 32,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024,
	[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = INT32_MAX,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535,
	[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535,
	[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536,
	[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = 65536,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = 48 << 10,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = 227 << 10,
	[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = 228 << 10,
	[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK] = 1 << 10,
	[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY] = 64 << 10,
	[CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 8 << 20,
	[CU_DEVICE_ATTRIBUTE_MAX_PITCH] = INT32_MAX,
	[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT] = UNIT,
	[CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT] = 32,
	[CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT] = UNIT,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH] = 131072,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH] = 1 << 28,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH] = 131072,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT] = 65536,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH] = 131072,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT] = 65000,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH] = 2097120,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH] = 16384,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT] = 16384,
	[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH] = 16384,
	[CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1000000,
	[CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 1000000,
	[CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 256,
	[CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT] = 2,
	[CU_DEVICE_ATTRIBUTE_GPU_OVERLAP] = 1,
	[CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS] = 1,
	[CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1,
	[CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1,
	[CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1,
	[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
	[CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED] = 1,
	[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH] = 1,
};

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	DEVICE(dev);
	if (pi == NULL || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
		return INVALID;
	*pi = attrib == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? dev + 1 : device_attributes[attrib];
	return OK;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	DEVICE(dev);
	if (major == NULL || minor == NULL)
		return INVALID;
	*major = device_attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
	*minor = 0;
	return OK;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	DEVICE(dev);
	if (pciBusId == NULL || len <= 0)
		return INVALID;
	snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", dev + 1);
	return OK;
}

static struct context *new_context(int device, unsigned flags)
{
	struct context *c = make(CONTEXT, sizeof *c);
	c->device = device;
	c->flags = flags;
	c->limits[CU_LIMIT_STACK_SIZE] = 1 << 10;
	c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	c->legacy = new_stream(c, 0, 0);
	c->legacy->legacy = true;
	return c;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	if (primary[dev] == NULL)
		primary[dev] = new_context(dev, 0);
	primary[dev]->references++;
	primary[dev]->o.gone = false;
	*pctx = (CUcontext)primary[dev];
	return leave(OK);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	if (primary[dev] == NULL || primary[dev]->references == 0)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	primary[dev]->o.gone = --primary[dev]->references == 0;
	return leave(OK);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { return cuDevicePrimaryCtxRelease_v2(dev); }

static CUresult all_done(struct context *c);

/* What it has made is gone with it, and it is there again for whoever takes a reference. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct context *c = primary[dev];
	if (c == NULL || c->references == 0)
		return leave(OK);
	all_done(c);
	for (struct object *o = objects[STREAM]; o; o = o->next)
		if (((struct stream *)o)->ctx == c && !((struct stream *)o)->legacy)
			o->gone = true;
	for (size_t i = blocks_count; i-- > 0;)
		if (blocks[i].by == c)
			release_block(blocks[i].at);
	c->error = OK;
	c->o.gone = true;
	pthread_cond_broadcast(&moved);
	return leave(OK);
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) { return cuDevicePrimaryCtxReset_v2(dev); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags)
{
	DEVICE(dev);
	(void)flags;
	return OK;
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) { return cuDevicePrimaryCtxSetFlags_v2(dev, flags); }

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	DEVICE(dev);
	*flags = 0;
	*active = primary[dev] != NULL && primary[dev]->references > 0 && !primary[dev]->o.gone;
	return OK;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	DEVICE(dev);
	if (depth == sizeof stack / sizeof *stack)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	*pctx = (CUcontext)(stack[depth++] = new_context(dev, flags));
	return leave(OK);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned flags, CUdevice dev)
{
	return paramsArray || numParams ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned flags, CUdevice dev)
{
	return params ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(pctx, flags, dev);
}

static CUresult all_done(struct context *c)
{
	for (struct object *o = objects[STREAM]; o; o = o->next) {
		struct stream *s = (struct stream *)o;
		if (s->ctx == c)
			await((struct place){s, s->issued});
	}
	return c->error;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	struct context *c = known(CONTEXT, ctx);
	if (c == NULL || c == primary[c->device])
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	all_done(c);
	c->o.gone = true;
	if (current() == c)
		depth--;
	return leave(OK);
}
CUresult cuCtxDestroy(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }

/* Whoever attaches to a context keeps it until it detaches from it. */
CUresult cuCtxAttach(CUcontext *pctx, unsigned flags)
{
	struct context *c;
	CUresult e = pctx == NULL || flags ? INVALID : enter(&c);
	if (e)
		return e;
	c->references++;
	*pctx = (CUcontext)c;
	return leave(OK);
}
CUresult cuCtxDetach(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	struct context *c = known(CONTEXT, ctx);
	bool kept = c && c != primary[c->device] && c->references > 0;
	if (kept)
		c->references--;
	pthread_mutex_unlock(&lock);
	return kept ? OK : cuCtxDestroy_v2(ctx);
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned flags, CUdevice dev) { return cuCtxCreate_v2(pctx, flags, dev); }

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	struct context *c = known(CONTEXT, ctx);
	for (int i = 0; c == NULL && i < devices; i++) /* that of a device may wait for who retains it */
		c = ctx == (CUcontext)primary[i] ? primary[i] : NULL;
	pthread_mutex_unlock(&lock);
	if (c == NULL || depth == sizeof stack / sizeof *stack)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = c;
	return OK;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (pctx)
		*pctx = (CUcontext)stack[depth];
	return OK;
}

CUresult cuCtxPushCurrent(CUcontext ctx) { return cuCtxPushCurrent_v2(ctx); }
CUresult cuCtxPopCurrent(CUcontext *pctx) { return cuCtxPopCurrent_v2(pctx); }

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	if (depth > 0)
		depth--;
	return ctx ? cuCtxPushCurrent_v2(ctx) : OK;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	*pctx = (CUcontext)current();
	return OK;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	if (current() == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = current()->device;
	return OK;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	DEVICE(dev);
	DEVICE(peerDev);
	*canAccessPeer = dev != peerDev;
	return OK;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
	DEVICE(srcDevice);
	DEVICE(dstDevice);
	*value = srcDevice != dstDevice && attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
	return OK;
}

static CUresult peer_access(CUcontext peer, bool on)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	struct context *p = known(CONTEXT, peer);
	if (p == NULL)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (p->device == c->device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	uint32_t bit = 1U << p->device;
	if (!(c->peers & bit) != on)
		return leave(on ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	c->peers ^= bit;
	return leave(OK);
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned Flags) { return Flags ? INVALID : peer_access(peerContext, true); }
CUresult cuCtxDisablePeerAccess(CUcontext peerContext) { return peer_access(peerContext, false); }

CUresult cuCtxSynchronize(void)
{
	struct context *c;
	CUresult e = enter(&c);
	return e ? e : leave(all_done(c));
}

CUresult cuCtxGetFlags(unsigned *flags)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	*flags = c->flags;
	return leave(OK);
}

CUresult cuCtxSetFlags(unsigned flags)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	c->flags = flags;
	return leave(OK);
}

CUresult cuCtxGetId(CUcontext ctx, uint64_t *ctxId)
{
	pthread_mutex_lock(&lock);
	struct context *c = ctx ? known(CONTEXT, ctx) : current();
	if (c == NULL || ctxId == NULL)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	*ctxId = 0;
	for (struct object *o = &c->o; o; o = o->next)
		++*ctxId;
	return leave(OK);
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
	pthread_mutex_lock(&lock);
	if (version == NULL || (ctx ? known(CONTEXT, ctx) : current()) == NULL)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	*version = 3020;
	return leave(OK);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct context *c;
	CUresult e = limit < 0 || limit >= CU_LIMIT_MAX ? CUDA_ERROR_UNSUPPORTED_LIMIT : enter(&c);
	if (e)
		return e;
	c->limits[limit] = value;
	return leave(OK);
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct context *c;
	CUresult e = pvalue == NULL ? INVALID : limit < 0 || limit >= CU_LIMIT_MAX ? CUDA_ERROR_UNSUPPORTED_LIMIT : enter(&c);
	if (e)
		return e;
	*pvalue = c->limits[limit];
	return leave(OK);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	c->cache = config;
	return leave(OK);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	struct context *c;
	CUresult e = pconfig == NULL ? INVALID : enter(&c);
	if (e)
		return e;
	*pconfig = c->cache;
	return leave(OK);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return current() ? OK : CUDA_ERROR_INVALID_CONTEXT;
}

/* Functions without names, as the CUDA runtime uses them: the device's own context, not retained by it, and what makes one current. */
static CUresult own_context(CUcontext *ctx, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	if (primary[dev] == NULL) {
		primary[dev] = new_context(dev, 0);
		primary[dev]->o.gone = true;
	}
	*ctx = (CUcontext)primary[dev];
	return leave(OK);
}

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	static const void *table[4] = {(void *)sizeof table, NULL, (void *)own_context, (void *)cuCtxSetCurrent};
	if (ppExportTable == NULL || pExportTableId == NULL)
		return INVALID;
	*ppExportTable = table;
	return OK;
}

/* ---- modules ---- */

struct function {
	struct object o;
	struct module *module;
	const char *name;
	const struct ptx_param *params;
	size_t count, size;
	fakecuda_kernel *run;
	bool told; /* that there is none */
	struct function *sibling;
};
struct variable { const struct ptx_variable *as; CUdeviceptr at; struct variable *next; };
struct module {
	struct object o;
	struct ptx text;
	struct function *functions;
	struct variable *variables;
	bool library;
};

/* Adds a line to the list that a recording or a replay reads: "-" and the path of a library of kernels that was loaded, whose build id is
 * not known here, or "?" and the name of a kernel that no library has. */
static void report(char kind, const char *what)
{
	const char *list = getenv("FAKECUDA_KERNELS_LOG");
	char line[PATH_MAX + 4];
	int fd, n;

	if (!list || !*list || (fd = open(list, O_WRONLY | O_APPEND | O_CLOEXEC)) < 0)
		return;
	n = snprintf(line, sizeof line, "%c %s\n", kind, what);
	if (n >= (int)sizeof line || write(fd, line, (size_t)n) != n)
		fprintf(stderr, "fakecuda: FAKECUDA_KERNELS_LOG: %s is not reported\n", what);
	close(fd);
}

/* The address of a symbol of a type that a library defines itself. dlsym also searches the libraries that it needs, such as libc. */
static void *defined(void *library, const char *name, unsigned type)
{
	void *at = dlsym(library, name);
	struct link_map *of, *map;
	const ElfW(Sym) *symbol;
	Dl_info info;

	if (at == NULL || dlinfo(library, RTLD_DI_LINKMAP, &of) || !dladdr1(at, &info, (void **)&map, RTLD_DL_LINKMAP) || map != of)
		return NULL;
	if (!dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) || symbol == NULL || (symbol->st_info & 0xf) != type)
		return NULL;
	return at;
}

/* Opens the kernel library. The path is that of a file: a name without a slash is not searched for. */
static void *open_kernels(const char *path)
{
	char file[PATH_MAX];
	void *library;

	if (realpath(path, file) == NULL) {
		fprintf(stderr, "fakecuda: FAKECUDA_KERNELS: %s: %s\n", path, strerror(errno));
		return NULL;
	}
	if ((library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) == NULL) {
		fprintf(stderr, "fakecuda: FAKECUDA_KERNELS: %s\n", dlerror());
		return NULL;
	}
	if (defined(library, "fakecuda_kernels", STT_OBJECT) == NULL) {
		fprintf(stderr, "fakecuda: FAKECUDA_KERNELS: %s is no kernel library: it does not export fakecuda_kernels\n", file);
		return NULL;
	}
	report('-', file);
	return library;
}

static fakecuda_kernel *kernel_named(const char *name)
{
	static void *library;
	static bool asked;
	const char *path = getenv("FAKECUDA_KERNELS");
	if (!asked && path && *path)
		library = open_kernels(path);
	asked = true;
	return library ? (fakecuda_kernel *)defined(library, name, STT_FUNC) : NULL;
}

/* The variable of a name: the one of the same text before those of others that were linked to it. */
static struct variable *variable_named(const struct module *m, const char *name, int unit)
{
	struct variable *best = NULL;
	for (struct variable *v = m->variables; v; v = v->next)
		if (strcmp(v->as->name, name) == 0 && (best == NULL || v->as->unit == unit))
			best = v;
	return best;
}

static CUresult parse(struct module *m, const char *text)
{
	if (!ptx_read(&m->text, text))
		return CUDA_ERROR_INVALID_IMAGE;
	for (struct ptx_kernel *k = m->text.kernels; k; k = k->next) {
		struct function *f = make(FUNCTION, sizeof *f);
		f->module = m;
		f->name = k->name, f->params = k->params, f->count = k->count, f->size = k->size;
		f->run = kernel_named(f->name);
		f->sibling = m->functions;
		m->functions = f;
	}
	for (struct ptx_variable *p = m->text.variables; p; p = p->next) {
		struct variable *v = calloc(1, sizeof *v);
		v->as = p;
		CUresult e = allocate(current() ? current()->device : 0, &v->at, p->size, p->managed ? MANAGED : PLAIN, 0);
		if (e) {
			free(v);
			return e;
		}
		v->next = m->variables;
		m->variables = v;
		if (p->value)
			memcpy(seen(v->at, p->size), p->value, p->size);
		else
			memset(seen(v->at, p->size), 0, p->size);
	}
	for (struct variable *v = m->variables; v; v = v->next)
		for (size_t i = 0; i < v->as->count; i++) {
			const struct ptx_address *a = &v->as->addresses[i];
			struct variable *to = variable_named(m, a->name, v->as->unit);
			uint64_t value = to ? (to->at + a->add) & a->mask : 0; /* a function lies nowhere here */
			if (value)
				value >>= __builtin_ctzll(a->mask);
			memcpy(seen(v->at + a->at, a->bytes), &value, a->bytes);
		}
	return OK;
}

/* The PTX of an image, which is text, a fat binary or an ELF file with a section .ptx. */
static CUresult text_of(const uint8_t *image, const char **text)
{
	uint32_t magic;
	if (image == NULL)
		return INVALID;
	memcpy(&magic, image, sizeof magic);
	if (magic == 0x466243b1) {
		memcpy(&image, image + 8, sizeof image);
		return text_of(image, text);
	}
	if (magic == 0xba55ed50) {
		uint16_t header;
		uint64_t size;
		memcpy(&header, image + 6, 2);
		memcpy(&size, image + 8, 8);
		for (const uint8_t *p = image + header, *end = p + size; p + 16 <= end;) {
			uint16_t kind;
			uint32_t head;
			uint64_t body;
			memcpy(&kind, p, 2);
			memcpy(&head, p + 4, 4);
			memcpy(&body, p + 8, 8);
			if (kind == 1) {
				*text = (const char *)p + head;
				return OK;
			}
			p += head + body;
		}
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	if (memcmp(image, ELFMAG, SELFMAG) == 0) {
		const Elf64_Ehdr *e = (const void *)image;
		const Elf64_Shdr *s = (const void *)(image + e->e_shoff);
		for (unsigned i = 0; i < e->e_shnum; i++)
			if (strcmp((const char *)image + s[e->e_shstrndx].sh_offset + s[i].sh_name, ".ptx") == 0) {
				*text = (const char *)image + s[i].sh_offset;
				return OK;
			}
		return CUDA_ERROR_INVALID_IMAGE;
	}
	*text = (const char *)image;
	return OK;
}

static CUresult load(struct module *m, const uint8_t *image)
{
	const char *text;
	CUresult e = text_of(image, &text);
	return e ? e : parse(m, text);
}

static CUresult load_module(void **out, const void *image, bool context)
{
	struct context *c;
	CUresult e = OK;
	if (out == NULL || image == NULL)
		return INVALID;
	if (context)
		e = enter(&c);
	else if (!initialized)
		e = CUDA_ERROR_NOT_INITIALIZED;
	else
		pthread_mutex_lock(&lock);
	if (e)
		return e;
	struct module *m = make(MODULE, sizeof *m);
	m->library = !context;
	e = load(m, image);
	if (e)
		m->o.gone = true;
	else
		*out = m;
	return leave(e);
}

/* The bytes of a file, and one that is 0; NULL where there is none. */
static char *file_bytes(const char *name, size_t *size)
{
	FILE *f = name ? fopen(name, "rb") : NULL;
	if (f == NULL)
		return NULL;
	size_t room = 1 << 20, n;
	char *b = calloc(1, room + 1);
	size_t have = 0;
	while ((n = fread(b + have, 1, room - have, f)) > 0) {
		have += n;
		if (have == room) {
			b = realloc(b, 2 * room + 1);
			memset(b + room, 0, room + 1);
			room *= 2;
		}
	}
	fclose(f);
	*size = have;
	return b;
}

static CUresult load_file(void **out, const char *name, bool context)
{
	size_t size;
	char *b = file_bytes(name, &size);
	CUresult e = b ? load_module(out, b, context) : CUDA_ERROR_FILE_NOT_FOUND;
	free(b);
	return e;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname) { return load_file((void **)module, fname, true); }
CUresult cuModuleLoadData(CUmodule *module, const void *image) { return load_module((void **)module, image, true); }
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) { return load_module((void **)module, fatCubin, true); }
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned numOptions, CUjit_option *options, void **optionValues)
{
	return numOptions && (options == NULL || optionValues == NULL) ? INVALID : load_module((void **)module, image, true);
}
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues, unsigned numJitOptions, CUlibraryOption *libraryOptions,
			   void **libraryOptionValues, unsigned numLibraryOptions)
{
	(void)jitOptions, (void)jitOptionsValues, (void)numJitOptions, (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	return load_module((void **)library, code, false);
}
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues, unsigned numJitOptions, CUlibraryOption *libraryOptions,
			       void **libraryOptionValues, unsigned numLibraryOptions)
{
	(void)jitOptions, (void)jitOptionsValues, (void)numJitOptions, (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	return load_file((void **)library, fileName, false);
}

static CUresult unload(const void *handle)
{
	pthread_mutex_lock(&lock);
	struct module *m = known(MODULE, handle);
	if (m == NULL)
		return leave(HANDLE);
	m->o.gone = true;
	for (struct function *f = m->functions; f; f = f->sibling)
		f->o.gone = true;
	for (struct variable *v = m->variables; v; v = v->next)
		release_block(v->at);
	return leave(OK);
}
CUresult cuModuleUnload(CUmodule hmod) { return unload(hmod); }
CUresult cuLibraryUnload(CUlibrary library) { return unload(library); }

/*
 * A kernel of no context is another kind of handle than its function in one: launches take both, all else takes its own alone. Whoever gives the one
 * for the other is ended, as a driver may do that looks for what is not there.
 */
static void *loose(struct function *f) { return (char *)f + 1; }
static bool is_loose(const void *h) { return (uintptr_t)h & 1; }
static struct function *launchable(const void *h) { return known(FUNCTION, is_loose(h) ? (const char *)h - 1 : h); }
static struct function *function_known(const void *h, bool wants_loose)
{
	if (h && is_loose(h) != wants_loose && launchable(h)) {
		fprintf(stderr, "fakecuda: %s\n", wants_loose ? "a function was given for a kernel" : "a kernel was given for a function");
		abort();
	}
	return launchable(h);
}

/* The module of a library has a handle of its own. */
enum { OF_LIBRARY = 1 };

static struct module *module_of(const void *handle) { return known(MODULE, (const void *)((uintptr_t)handle & ~(uintptr_t)OF_LIBRARY)); }

static CUresult function_of(void **out, const void *module, const char *name, bool as_kernel)
{
	pthread_mutex_lock(&lock);
	struct module *m = module_of(module);
	if (m == NULL)
		return leave(HANDLE);
	for (struct function *f = m->functions; name && f; f = f->sibling)
		if (strcmp(f->name, name) == 0) {
			*out = as_kernel ? loose(f) : f;
			return leave(OK);
		}
	return leave(CUDA_ERROR_NOT_FOUND);
}
CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) { return function_of((void **)hfunc, hmod, name, false); }
CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) { return function_of((void **)pKernel, library, name, true); }

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	pthread_mutex_lock(&lock);
	struct module *m = known(MODULE, library);
	if (m)
		*pMod = (CUmodule)((uintptr_t)m | OF_LIBRARY);
	return leave(m ? OK : HANDLE);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	pthread_mutex_lock(&lock);
	struct function *f = function_known(kernel, true);
	if (f)
		*pFunc = (CUfunction)f;
	return leave(f ? OK : HANDLE);
}

static CUresult variable_of(CUdeviceptr *dptr, size_t *bytes, const void *module, const char *name)
{
	pthread_mutex_lock(&lock);
	struct module *m = module_of(module);
	if (m == NULL)
		return leave(HANDLE);
	struct variable *v = name ? variable_named(m, name, 0) : NULL;
	if (v && dptr)
		*dptr = v->at;
	if (v && bytes)
		*bytes = v->as->size;
	return leave(v ? OK : CUDA_ERROR_NOT_FOUND);
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) { return variable_of(dptr, bytes, hmod, name); }
CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) { return variable_of(dptr, bytes, library, name); }

static CUresult param_info(const void *func, bool as_kernel, size_t index, size_t *offset, size_t *size)
{
	pthread_mutex_lock(&lock);
	struct function *f = function_known(func, as_kernel);
	if (f == NULL)
		return leave(HANDLE);
	if (index >= f->count || offset == NULL)
		return leave(INVALID);
	*offset = f->params[index].at;
	if (size)
		*size = f->params[index].size;
	return leave(OK);
}
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize) { return param_info(func, false, paramIndex, paramOffset, paramSize); }
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize) { return param_info(kernel, true, paramIndex, paramOffset, paramSize); }

static CUresult param_count(const void *func, bool as_kernel, size_t *count)
{
	pthread_mutex_lock(&lock);
	struct function *f = function_known(func, as_kernel);
	if (f && count)
		*count = f->count;
	return leave(f == NULL ? HANDLE : count == NULL ? INVALID : OK);
}
CUresult cuFuncGetParamCount(CUfunction func, size_t *paramCount) { return param_count(func, false, paramCount); }
CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount) { return param_count(kernel, true, paramCount); }

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	if (pi == NULL || attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
		return INVALID;
	pthread_mutex_lock(&lock);
	bool there = function_known(hfunc, false);
	switch ((int)attrib) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*pi = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*pi = 32;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*pi = 90;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*pi = device_attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK];
		break;
	default:
		*pi = 0;
	}
	return leave(there ? OK : HANDLE);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	(void)attrib, (void)value;
	pthread_mutex_lock(&lock);
	return leave(function_known(hfunc, false) ? OK : HANDLE);
}

/* What the launch of CUDA 3 takes is said by its own arguments in all later ones. */
CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	pthread_mutex_lock(&lock);
	if (function_known(hfunc, false) == NULL)
		return leave(HANDLE);
	return leave(x <= 0 || y <= 0 || z <= 0 || (int64_t)x * y * z > 1024 ? INVALID : OK);
}
CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned bytes)
{
	(void)bytes;
	pthread_mutex_lock(&lock);
	return leave(function_known(hfunc, false) ? OK : HANDLE);
}
CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	(void)config;
	pthread_mutex_lock(&lock);
	return leave(function_known(hfunc, false) ? OK : HANDLE);
}

/* Whoever profiles would begin and end here. */
CUresult cuProfilerStart(void)
{
	struct context *c;
	CUresult e = enter(&c);
	return e ? e : leave(OK);
}
CUresult cuProfilerStop(void) { return cuProfilerStart(); }

static CUresult potential_block(int *minGridSize, int *blockSize, CUfunction func, int most)
{
	struct context *c;
	CUresult e = minGridSize == NULL || blockSize == NULL || most < 0 ? INVALID : enter(&c);
	if (e)
		return e;
	if (function_known(func, false) == NULL)
		return leave(HANDLE);
	*blockSize = most > 0 && most < 1024 ? most : 1024;
	*minGridSize = device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] * (2048 / *blockSize);
	return leave(OK);
}
CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize shared, size_t dynamicSMemSize, int blockSizeLimit)
{
	(void)shared, (void)dynamicSMemSize;
	return potential_block(minGridSize, blockSize, func, blockSizeLimit);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)
{
	struct context *c;
	(void)dynamicSMemSize;
	CUresult e = numBlocks == NULL || blockSize <= 0 ? INVALID : enter(&c);
	if (e)
		return e;
	*numBlocks = blockSize > 1024 ? 0 : 2048 / blockSize < 32 ? 2048 / blockSize : 32;
	return leave(function_known(func, false) ? OK : HANDLE);
}

/* ---- what links PTX ---- */

struct link {
	struct object o;
	char *text;
	size_t length;
	uint8_t *image;
	size_t size; /* of the image */
};

CUresult cuLinkCreate_v2(unsigned numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	struct context *c;
	CUresult e = stateOut == NULL || (numOptions && (options == NULL || optionValues == NULL)) ? INVALID : enter(&c);
	if (e)
		return e;
	*stateOut = (CUlinkState)make(LINK, sizeof(struct link));
	return leave(OK);
}
CUresult cuLinkCreate(unsigned numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut) { return cuLinkCreate_v2(numOptions, options, optionValues, stateOut); }

/* An input ends where its size says, or before. */
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned numOptions, CUjit_option *options, void **optionValues)
{
	(void)name, (void)numOptions, (void)options, (void)optionValues;
	if (data == NULL || size == 0 || type == CU_JIT_INPUT_NVVM)
		return INVALID;
	pthread_mutex_lock(&lock);
	struct link *l = known(LINK, state);
	if (l == NULL || l->image)
		return leave(l ? INVALID : HANDLE);
	const char *text = data;
	size_t n = size;
	if (type != CU_JIT_INPUT_PTX) {
		CUresult e = text_of(data, &text);
		if (e)
			return leave(e);
		n = (const char *)data + size > text ? (size_t)((const char *)data + size - text) : 0;
	}
	n = strnlen(text, n);
	if (memmem(text, n, ".version", strlen(".version")) == NULL)
		return leave(CUDA_ERROR_INVALID_PTX);
	l->text = realloc(l->text, l->length + n + 2);
	memcpy(l->text + l->length, text, n);
	memcpy(l->text + l->length + n, "\n", 2);
	l->length += n + 1;
	return leave(OK);
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned numOptions, CUjit_option *options, void **optionValues)
{
	return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned numOptions, CUjit_option *options, void **optionValues)
{
	size_t size;
	char *b = file_bytes(path, &size);
	CUresult e = b ? cuLinkAddData_v2(state, type, b, size, path, numOptions, options, optionValues) : CUDA_ERROR_FILE_NOT_FOUND;
	free(b);
	return e;
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned numOptions, CUjit_option *options, void **optionValues)
{
	return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	pthread_mutex_lock(&lock);
	struct link *l = known(LINK, state);
	if (l == NULL || cubinOut == NULL)
		return leave(l ? INVALID : HANDLE);
	if (l->image == NULL && (l->length == 0 || (l->image = ptx_cubin(l->text, &l->size)) == NULL))
		return leave(CUDA_ERROR_NO_BINARY_FOR_GPU);
	*cubinOut = l->image;
	if (sizeOut)
		*sizeOut = l->size;
	return leave(OK);
}

/* What was linked goes with it. */
CUresult cuLinkDestroy(CUlinkState state)
{
	pthread_mutex_lock(&lock);
	struct link *l = known(LINK, state);
	if (l == NULL)
		return leave(HANDLE);
	l->o.gone = true;
	free(l->text);
	free(l->image);
	return leave(OK);
}

/* ---- memory that programs ask for ---- */

CUresult cuMemGetInfo_v2(size_t *free_, size_t *total)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	*free_ = room(c->device);
	*total = TOTAL / (uint64_t)devices;
	return leave(OK);
}

static CUresult memory_call(CUdeviceptr *p, size_t size, int kind)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if ((e = allocate(c->device, p, size, kind, placed())) == OK)
		block_at(*p, kind)->by = c;
	return leave(e);
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) { return memory_call(dptr, bytesize, PLAIN); }
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned flags)
{
	(void)flags;
	return memory_call(dptr, bytesize, MANAGED);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned ElementSizeBytes)
{
	if (pPitch == NULL || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return INVALID;
	*pPitch = (WidthInBytes + UNIT - 1) / UNIT * UNIT;
	return memory_call(dptr, *pPitch * Height, PLAIN);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if (dptr == 0)
		return leave(OK);
	if (owned_block(dptr))
		all_done(c);
	return leave(release_block(dptr));
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	for (size_t i = 0; i < blocks_count; i++)
		if (blocks[i].kind <= MANAGED && dptr >= blocks[i].at && dptr < blocks[i].at + blocks[i].size) {
			if (pbase)
				*pbase = blocks[i].at;
			if (psize)
				*psize = blocks[i].size;
			return leave(OK);
		}
	return leave(CUDA_ERROR_NOT_FOUND);
}

static CUresult add_host(void *p, size_t size, unsigned flags, bool own_)
{
	struct host *h = calloc(1, sizeof *h);
	*h = (struct host){p, size, flags, own_, hosts};
	hosts = h;
	return OK;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned Flags)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if (pp == NULL || bytesize == 0)
		return leave(INVALID);
	void *p = mmap(NULL, bytesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	*pp = p;
	return leave(add_host(p, bytesize, Flags, true));
}
CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) { return cuMemHostAlloc(pp, bytesize, 0); }

static CUresult end_host(void *p, bool own_)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if (host_of(p))
		all_done(c); /* which lets others have the lock */
	for (struct host **h = &hosts; *h; h = &(*h)->next)
		if ((*h)->at == p && (*h)->own == own_) {
			struct host *gone = *h;
			*h = gone->next;
			if (own_)
				munmap(p, gone->size);
			free(gone);
			return leave(OK);
		}
	return leave(own_ ? INVALID : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}
CUresult cuMemFreeHost(void *p) { return end_host(p, true); }
CUresult cuMemHostUnregister(void *p) { return end_host(p, false); }

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned Flags)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if (p == NULL || bytesize == 0)
		return leave(INVALID);
	return leave(host_of(p) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : add_host(p, bytesize, Flags, false));
}
CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned Flags) { return cuMemHostRegister_v2(p, bytesize, Flags); }

CUresult cuMemHostGetFlags(unsigned *pFlags, void *p)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	struct host *h = host_of(p);
	if (pFlags && h)
		*pFlags = h->flags;
	return leave(pFlags && h ? OK : INVALID);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned Flags)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if (pdptr == NULL || Flags || host_of(p) == NULL)
		return leave(INVALID);
	*pdptr = (CUdeviceptr)p;
	return leave(OK);
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	bool device = device_address(ptr) && seen(ptr, 1), host = !device && host_of((void *)ptr);
	if (!device && !host)
		return leave(INVALID);
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(uint64_t *)data = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = device ? holding(ptr, 1)->device : c->device;
		break;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(void **)data = device && holding(ptr, 1)->by ? holding(ptr, 1)->by : c;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(int *)data = device && holding(ptr, 1)->kind == MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(int *)data = 1;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(int *)data = device && holding(ptr, 1)->kind == PLAIN && holding(ptr, 1)->pool == NULL;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(uint64_t *)data = device ? holding(ptr, 1)->at : (uint64_t)host_of((void *)ptr)->at;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(uint64_t *)data = device ? holding(ptr, 1)->size : host_of((void *)ptr)->size;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(void **)data = device ? holding(ptr, 1)->pool : NULL;
		break;
	default:
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	return leave(OK);
}

/* Reserved addresses and what is mapped there. */
struct physical {
	struct object o;
	uint64_t at, size;
	int device, from; /* as of a pool */
	unsigned retained; /* besides the first time */
	CUmemAllocationProp as;
	uint32_t wanted, added; /* of a multicast object: how many devices, 0 for other memory; a bit for each that was added */
	struct binding *bindings;
};
/* A part of a multicast object that is memory of a device. */
struct binding { int device; uint64_t offset, size; uint8_t *at; struct binding *next; };

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
	(void)option;
	if (!initialized || granularity == NULL || prop == NULL)
		return initialized ? INVALID : CUDA_ERROR_NOT_INITIALIZED;
	*granularity = GRANULARITY;
	return OK;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, uint64_t flags)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ptr == NULL || size == 0 || size % GRANULARITY || flags)
		return INVALID;
	pthread_mutex_lock(&lock);
	uint64_t align = alignment > GRANULARITY ? alignment : GRANULARITY, wish = placed();
	uint64_t at = find_room(RESERVE_AT, IMPORTS_AT, size, align, wish ? wish : addr);
	/* What the program has at these addresses stays there. */
	if (at == 0 || mmap((void *)at, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, (off_t)(at - base)) != (void *)at)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	insert((struct block){.at = at, .size = size, .kind = RESERVED});
	*ptr = at;
	return leave(OK);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	pthread_mutex_lock(&lock);
	struct block *b = block_at(ptr, RESERVED);
	if (b == NULL || b->size != size)
		return leave(INVALID);
	munmap((void *)ptr, size);
	erase(b);
	return leave(OK);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, uint64_t flags)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (handle == NULL || prop == NULL || size == 0 || size % GRANULARITY || flags)
		return INVALID;
	int device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : 0;
	DEVICE(device);
	pthread_mutex_lock(&lock);
	uint64_t at = size > room(device) ? 0 : find_room(PHYSICAL_AT, ARENA, size, GRANULARITY, 0);
	if (at == 0)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	struct physical *p = make(PHYSICAL, sizeof *p);
	p->at = at;
	p->size = size;
	p->device = device;
	p->as = *prop;
	used[device] += size;
	insert((struct block){.at = at, .size = size, .kind = BACKING, .device = device});
	*handle = (uint64_t)p;
	return leave(OK);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	pthread_mutex_lock(&lock);
	struct physical *p = known(PHYSICAL, (void *)handle);
	if (p == NULL)
		return leave(INVALID);
	p->o.gone = p->retained == 0; /* what is mapped of it stays */
	p->retained -= p->retained > 0;
	return leave(OK);
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType, uint64_t flags)
{
	pthread_mutex_lock(&lock);
	struct physical *p = known(PHYSICAL, (void *)handle);
	if (p == NULL || p->from || p->wanted || shareableHandle == NULL || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return leave(INVALID);
	return leave(give_descriptor(shareableHandle, new_record(PHYSICAL, p->device, p->at - base, p->size)));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle, CUmemAllocationHandleType shHandleType)
{
	struct record r;
	pthread_mutex_lock(&lock);
	int from = handle == NULL || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? -1 : take_descriptor(osHandle, PHYSICAL, &r);
	if (from < 0)
		return leave(INVALID);
	struct physical *p = make(PHYSICAL, sizeof *p);
	p->at = base + r.at;
	p->size = r.size;
	p->device = r.device;
	p->from = from;
	*handle = (uint64_t)p;
	return leave(OK);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, uint64_t flags)
{
	pthread_mutex_lock(&lock);
	struct physical *p = known(PHYSICAL, (void *)handle);
	bool in = false;
	for (size_t i = 0; i < blocks_count; i++)
		in = in || (blocks[i].kind == RESERVED && ptr >= blocks[i].at && ptr + size <= blocks[i].at + blocks[i].size);
	if (p == NULL || !in || flags || size % GRANULARITY || offset + size > p->size || seen(ptr, 1))
		return leave(INVALID);
	if (p->wanted) {
		insert((struct block){.at = ptr, .size = size, .kind = MULTICAST, .of = p, .offset = offset});
		return leave(OK);
	}
	if (mmap(arena + (ptr - base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->from ? p->from : file, (off_t)(p->at - base + offset)) == MAP_FAILED)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	insert((struct block){.at = ptr, .size = size, .kind = MAPPED, .device = p->device, .of = p});
	return leave(OK);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	pthread_mutex_lock(&lock);
	struct block *b = block_at(ptr, MAPPED);
	if (b == NULL)
		b = block_at(ptr, MULTICAST);
	if (b == NULL || b->size != size)
		return leave(INVALID);
	erase(b);
	return leave(OK);
}

/* What a key says to another process. */
struct ipc {
	char magic[8];
	int process, file, device;
	uint64_t offset, size;
	uint64_t record; /* of the pool, or the event */
};
static const char memory_magic[8] = "fakeipc", event_magic[8] = "fakeevt", pool_magic[8] = "fakeptr";
_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "a key holds it");

static void give_key(void *out, const char magic[8], struct ipc key)
{
	key.process = getpid();
	key.file = file;
	memcpy(key.magic, magic, sizeof key.magic);
	memset(out, 0, sizeof(CUipcMemHandle));
	memcpy(out, &key, sizeof key);
}

/* Maps memory of another process, out of the file that it lies in. */
static CUresult take_memory(CUdeviceptr *out, int from, const struct ipc *key, struct pool *pool)
{
	uint64_t before = key->offset % PAGE, whole = (before + key->size + PAGE - 1) / PAGE * PAGE;
	uint64_t at = from < 0 ? 0 : find_room(IMPORTS_AT, PHYSICAL_AT, whole, PAGE, 0);
	if (at == 0 || mmap(arena + (at - base), whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, from, (off_t)(key->offset - before)) == MAP_FAILED)
		return CUDA_ERROR_MAP_FAILED;
	insert((struct block){.at = at, .size = whole, .kind = IMPORTED, .device = key->device, .open = ~0U, .pool = pool});
	*out = at + before;
	return OK;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	struct block *b = block_at(dptr, PLAIN);
	if (pHandle == NULL || b == NULL)
		return leave(INVALID);
	give_key(pHandle, memory_magic, (struct ipc){.device = b->device, .offset = b->at - base, .size = b->size});
	return leave(OK);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags)
{
	struct context *c;
	struct ipc key;
	memcpy(&key, &handle, sizeof key);
	if (pdptr == NULL || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || memcmp(key.magic, memory_magic, sizeof key.magic) != 0)
		return INVALID;
	CUresult e = enter(&c);
	if (e)
		return e;
	if (key.process == getpid())
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	int from = open_file(key.process, key.file);
	e = take_memory(pdptr, from, &key, NULL);
	if (from >= 0)
		close(from);
	return leave(e);
}
CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags) { return cuIpcOpenMemHandle_v2(pdptr, handle, Flags); }

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	all_done(c);
	struct block *b = block_at(dptr - dptr % PAGE, IMPORTED);
	if (b == NULL || b->pool)
		return leave(INVALID);
	leave_block(b);
	return leave(OK);
}

/* Lets kernels of devices reach memory, or no more. */
static CUresult opened(uint32_t *open, const CUmemAccessDesc *desc, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			continue;
		if (desc[i].location.id < 0 || desc[i].location.id >= devices)
			return CUDA_ERROR_INVALID_DEVICE;
		uint32_t bit = 1U << desc[i].location.id;
		*open = desc[i].flags ? *open | bit : *open & ~bit;
	}
	return OK;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	pthread_mutex_lock(&lock);
	struct block *b = holding(ptr, size);
	if (b == NULL)
		b = block_at(ptr, MULTICAST);
	if (b == NULL || desc == NULL || count == 0)
		return leave(INVALID);
	return leave(opened(&b->open, desc, count));
}

/* ---- streams and events ---- */

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if (phStream == NULL || flags > CU_STREAM_NON_BLOCKING)
		return leave(INVALID);
	*phStream = (CUstream)new_stream(c, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
	return leave(OK);
}
CUresult cuStreamCreate(CUstream *phStream, unsigned Flags) { return cuStreamCreateWithPriority(phStream, Flags, 0); }

/* The stream that a call names. The lock is held where it returns 0. */
static CUresult on_stream(CUstream h, struct stream **s)
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
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	if (s != known(STREAM, hStream) || s->legacy)
		return leave(HANDLE);
	s->o.gone = true; /* once its work is done */
	pthread_cond_broadcast(&moved);
	return leave(OK);
}
CUresult cuStreamDestroy(CUstream hStream) { return cuStreamDestroy_v2(hStream); }

CUresult cuStreamSynchronize(CUstream hStream)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	if (s->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return leave(await((struct place){s, s->issued}));
}

CUresult cuStreamQuery(CUstream hStream)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	return leave(s->done < s->issued ? CUDA_ERROR_NOT_READY : OK);
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	*priority = s->priority;
	return leave(OK);
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned *flags)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	*flags = s->flags;
	return leave(OK);
}

CUresult cuEventCreate(CUevent *phEvent, unsigned Flags)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
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
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
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
	struct context *c;
	struct ipc key;
	memcpy(&key, &handle, sizeof key);
	if (phEvent == NULL || memcmp(key.magic, event_magic, sizeof key.magic) != 0)
		return INVALID;
	CUresult e = enter(&c);
	if (e)
		return e;
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
	pthread_mutex_lock(&lock);
	struct event *v = known(EVENT, hEvent);
	if (v == NULL)
		return leave(HANDLE);
	v->o.gone = true;
	return leave(OK);
}
CUresult cuEventDestroy(CUevent hEvent) { return cuEventDestroy_v2(hEvent); }

static struct task *new_task(void (*run)(struct task *))
{
	struct task *t = calloc(1, sizeof *t);
	t->run = run;
	return t;
}

static void add_tails(struct tails *t, struct node *const *nodes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned k = 0;
		while (k < t->count && t->nodes[k] != nodes[i])
			k++;
		if (k == t->count && k < sizeof t->nodes / sizeof *t->nodes)
			t->nodes[t->count++] = nodes[i];
	}
}

static void record_on(struct stream *s, struct event *v)
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
	struct stream *s;
	CUresult e = flags > CU_EVENT_RECORD_EXTERNAL ? INVALID : on_stream(hStream, &s);
	if (e)
		return e;
	struct event *v = known(EVENT, hEvent);
	if (v == NULL)
		return leave(HANDLE);
	if (s->capture && flags == CU_EVENT_RECORD_EXTERNAL) {
		/* A node: runs of the graph record it. */
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
	struct stream *s;
	CUresult e = Flags ? INVALID : on_stream(hStream, &s);
	if (e)
		return e;
	struct event *v = known(EVENT, hEvent);
	if (v == NULL)
		return leave(HANDLE);
	if (v->capture && s->capture == NULL)
		s->capture = v->capture, s->tails = (struct tails){.count = 0}; /* it joins */
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
	pthread_mutex_lock(&lock);
	struct event *v = known(EVENT, hEvent);
	if (v == NULL)
		return leave(HANDLE);
	return leave(reached(v) ? OK : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent hEvent)
{
	pthread_mutex_lock(&lock);
	struct event *v = known(EVENT, hEvent);
	if (v == NULL)
		return leave(HANDLE);
	for (uint64_t mark = v->record ? atomic_load(&v->record->issued) : 0; v->record && atomic_load(&v->record->done) < mark;)
		pause_here();
	return leave(v->place.stream ? await(v->place) : OK);
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	pthread_mutex_lock(&lock);
	struct event *a = known(EVENT, hStart), *b = known(EVENT, hEnd);
	if (a == NULL || b == NULL || a->place.stream == NULL || b->place.stream == NULL || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
		return leave(HANDLE);
	if (a->place.stream->done < a->place.ticket || b->place.stream->done < b->place.ticket)
		return leave(CUDA_ERROR_NOT_READY);
	*pMilliseconds = (float)((double)(int64_t)(b->ns - a->ns) / 1e6);
	return leave(OK);
}
CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) { return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd); }

/* ---- copies and fills ---- */

/* Memory that a task uses: the device's as this library sees it, or the host's. */
static uint8_t *reach(struct task *t, uint64_t at, uint64_t size)
{
	if (!device_address(at))
		return (uint8_t *)at;
	pthread_mutex_lock(&lock);
	uint8_t *p = seen(at, size);
	if (p == NULL)
		t->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
	return p;
}

static uint64_t span(const struct task *t, uint64_t pitch, uint64_t plane) { return (t->depth - 1) * pitch * plane + (t->height - 1) * pitch + t->width; }

static void copy(struct task *t)
{
	if (t->width == 0 || t->height == 0 || t->depth == 0)
		return;
	uint8_t *d = reach(t, t->dst, span(t, t->dst_pitch, t->dst_plane)), *s = t->staged ? t->staged : reach(t, t->src, span(t, t->src_pitch, t->src_plane));
	for (uint64_t z = 0; d && s && z < t->depth; z++)
		for (uint64_t y = 0; y < t->height; y++)
			memmove(d + (z * t->dst_plane + y) * t->dst_pitch, s + (z * t->src_plane + y) * t->src_pitch, t->width);
}

static void fill(struct task *t)
{
	if (t->width == 0 || t->height == 0)
		return;
	uint8_t *d = reach(t, t->dst, (t->height - 1) * t->dst_pitch + t->width * t->unit);
	for (uint64_t y = 0; d && y < t->height; y++)
		for (uint64_t x = 0; x < t->width; x++)
			memcpy(d + y * t->dst_pitch + x * t->unit, &t->value, t->unit);
}

static bool there(uint64_t at, uint64_t size) { return device_address(at) ? seen(at, size) != NULL : at != 0; }

/* Puts a copy on a stream. What is not pinned is taken, or brought, before the call returns. */
static CUresult put_copy(CUstream h, bool wait, struct task shape)
{
	struct stream *s;
	CUresult e = on_stream(h, &s);
	if (e)
		return e;
	if (shape.width && shape.height && shape.depth && (!there(shape.dst, span(&shape, shape.dst_pitch, shape.dst_plane)) || !there(shape.src, span(&shape, shape.src_pitch, shape.src_plane))))
		return leave(INVALID);
	struct task *t = new_task(copy);
	shape.run = copy;
	*t = shape;
	bool from_host = !device_address(t->src) && !host_of((void *)t->src), to_host = !device_address(t->dst) && !host_of((void *)t->dst);
	if (s->capture && wait) {
		drop(t);
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	if (from_host && !wait && t->width && t->height && t->depth) {
		uint64_t n = span(t, t->src_pitch, t->src_plane);
		t->staged = malloc(n);
		memcpy(t->staged, (void *)t->src, n);
	}
	struct place p = put(s, t);
	return leave((wait || to_host) && p.ticket ? await(p) : OK);
}

static struct task line(uint64_t dst, uint64_t src, uint64_t n) { return (struct task){.dst = dst, .src = src, .width = n, .height = 1, .depth = 1}; }

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) { return put_copy(NULL, true, line(dst, src, ByteCount)); }
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) { return put_copy(hStream, false, line(dst, src, ByteCount)); }
CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) { return put_copy(NULL, true, line(dstDevice, (uint64_t)srcHost, ByteCount)); }
CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) { return put_copy(NULL, true, line((uint64_t)dstHost, srcDevice, ByteCount)); }
CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) { return put_copy(NULL, true, line(dstDevice, srcDevice, ByteCount)); }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return put_copy(hStream, false, line(dstDevice, (uint64_t)srcHost, ByteCount));
}
CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return put_copy(hStream, false, line((uint64_t)dstHost, srcDevice, ByteCount));
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return put_copy(hStream, false, line(dstDevice, srcDevice, ByteCount));
}
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream hStream)
{
	return attr == NULL ? INVALID : put_copy(hStream, false, line(dst, src, size));
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream)
{
	if (dsts == NULL || srcs == NULL || sizes == NULL || attrs == NULL || attrsIdxs == NULL || count == 0 || numAttrs == 0 || numAttrs > count || attrsIdxs[0] != 0 || hStream == NULL)
		return INVALID;
	CUresult e = OK;
	for (size_t i = 0; i < count && e == OK; i++)
		e = put_copy(hStream, false, line(dsts[i], srcs[i], sizes[i]));
	return e;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
			    CUstream hStream)
{
	(void)failIdx;
	return cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount)
{
	(void)dstContext, (void)srcContext;
	return put_copy(NULL, true, line(dstDevice, srcDevice, ByteCount));
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	(void)dstContext, (void)srcContext;
	return put_copy(hStream, false, line(dstDevice, srcDevice, ByteCount));
}

/* Arrays are memory of their own, row behind row. */
struct array {
	struct object o;
	CUdeviceptr at;
	size_t pitch, rows, size;
	CUDA_ARRAY3D_DESCRIPTOR as;
	bool level; /* of another one */
};

/* One side of a copy: where it begins, 0 for what is no memory. An array has its own pitch and its own rows of a plane. */
static uint64_t side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t x, size_t y, size_t z, uint64_t *pitch, uint64_t *rows)
{
	uint64_t at = type == CU_MEMORYTYPE_HOST ? (uint64_t)host : device;
	if (type == CU_MEMORYTYPE_ARRAY) {
		pthread_mutex_lock(&lock);
		struct array *a = known(ARRAY, array);
		at = a ? a->at : 0;
		if (a)
			*pitch = a->pitch, *rows = a->rows;
		pthread_mutex_unlock(&lock);
	}
	return at ? at + x + *pitch * (y + *rows * z) : 0;
}

static CUresult copy2d(const CUDA_MEMCPY2D *p, CUstream h, bool wait)
{
	if (p == NULL)
		return INVALID;
	struct task t = {.width = p->WidthInBytes, .height = p->Height, .depth = 1, .src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes,
		.dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes};
	t.src = side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, 0, &t.src_pitch, &t.src_plane);
	t.dst = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, 0, &t.dst_pitch, &t.dst_plane);
	return t.src_pitch < t.width || t.dst_pitch < t.width || t.src == 0 || t.dst == 0 ? INVALID : put_copy(h, wait, t);
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) { return copy2d(pCopy, NULL, true); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy) { return copy2d(pCopy, NULL, true); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) { return copy2d(pCopy, hStream, false); }

static bool shape_of(const CUDA_MEMCPY3D *p, struct task *out)
{
	struct task t = {.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth, .src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes,
		.dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes, .src_plane = p->srcHeight ? p->srcHeight : p->Height, .dst_plane = p->dstHeight ? p->dstHeight : p->Height};
	t.src = side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, p->srcZ, &t.src_pitch, &t.src_plane);
	t.dst = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, p->dstZ, &t.dst_pitch, &t.dst_plane);
	*out = t;
	return t.src_pitch >= t.width && t.dst_pitch >= t.width && t.src != 0 && t.dst != 0;
}

static CUresult copy3d(const CUDA_MEMCPY3D *p, CUstream h, bool wait)
{
	struct task t;
	return p == NULL || !shape_of(p, &t) ? INVALID : put_copy(h, wait, t);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) { return copy3d(pCopy, NULL, true); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) { return copy3d(pCopy, hStream, false); }

static CUresult put_fill(CUstream h, bool wait, CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t unit, size_t width, size_t height)
{
	struct stream *s;
	CUresult e = on_stream(h, &s);
	if (e)
		return e;
	if (dst % unit || (width && height && seen(dst, (height - 1) * pitch + width * unit) == NULL))
		return leave(INVALID);
	struct task *t = new_task(fill);
	t->dst = dst, t->dst_pitch = pitch, t->value = value, t->unit = unit, t->width = width, t->height = height;
	struct place p = put(s, t);
	return leave(wait && p.ticket ? await(p) : OK);
}

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, uint8_t uc, size_t N) { return put_fill(NULL, true, dstDevice, 0, uc, 1, N, 1); }
CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, uint16_t us, size_t N) { return put_fill(NULL, true, dstDevice, 0, us, 2, N, 1); }
CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, uint32_t ui, size_t N) { return put_fill(NULL, true, dstDevice, 0, ui, 4, N, 1); }
CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, uint8_t uc, size_t Width, size_t Height) { return put_fill(NULL, true, dstDevice, dstPitch, uc, 1, Width, Height); }
CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, uint16_t us, size_t Width, size_t Height) { return put_fill(NULL, true, dstDevice, dstPitch, us, 2, Width, Height); }
CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, uint32_t ui, size_t Width, size_t Height) { return put_fill(NULL, true, dstDevice, dstPitch, ui, 4, Width, Height); }
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, uint8_t uc, size_t N, CUstream hStream) { return put_fill(hStream, false, dstDevice, 0, uc, 1, N, 1); }
CUresult cuMemsetD16Async(CUdeviceptr dstDevice, uint16_t us, size_t N, CUstream hStream) { return put_fill(hStream, false, dstDevice, 0, us, 2, N, 1); }
CUresult cuMemsetD32Async(CUdeviceptr dstDevice, uint32_t ui, size_t N, CUstream hStream) { return put_fill(hStream, false, dstDevice, 0, ui, 4, N, 1); }
CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, uint8_t uc, size_t Width, size_t Height, CUstream hStream)
{
	return put_fill(hStream, false, dstDevice, dstPitch, uc, 1, Width, Height);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, uint32_t ui, size_t Width, size_t Height, CUstream hStream)
{
	return put_fill(hStream, false, dstDevice, dstPitch, ui, 4, Width, Height);
}

static void store_value(struct task *t)
{
	uint8_t *p = reach(t, t->dst, t->unit);
	if (p)
		memcpy(p, &t->wanted, t->unit);
}

static CUresult value_task(CUstream h, CUdeviceptr addr, uint64_t value, uint32_t unit, unsigned flags, bool wait)
{
	struct stream *s;
	CUresult e = on_stream(h, &s);
	if (e)
		return e;
	if (seen(addr, unit) == NULL)
		return leave(INVALID);
	struct task *t = new_task(wait ? NULL : store_value);
	t->dst = addr, t->wanted = value, t->unit = unit, t->flags = flags, t->wait = wait;
	put(s, t);
	return leave(OK);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value, unsigned flags) { return value_task(stream, addr, value, 4, flags, false); }
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags) { return value_task(stream, addr, value, 8, flags, false); }
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value, unsigned flags) { return value_task(stream, addr, value, 4, flags, true); }
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags) { return value_task(stream, addr, value, 8, flags, true); }

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, uint32_t value, unsigned flags) { return value_task(stream, addr, value, 4, flags, false); }
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags) { return value_task(stream, addr, value, 8, flags, false); }
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, uint32_t value, unsigned flags) { return value_task(stream, addr, value, 4, flags, true); }
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags) { return value_task(stream, addr, value, 8, flags, true); }

/* Memory in the order of a stream: here it is there at once, and gone once the stream has come so far. */
static struct pool *chosen_pools[MOST_DEVICES];

static CUresult pooled(CUdeviceptr *dptr, size_t size, struct pool *p)
{
	CUresult e = allocate(p->device, dptr, size, PLAIN, placed());
	if (e == OK) {
		block_at(*dptr, PLAIN)->pool = p;
		uint64_t n = 0;
		for (size_t i = 0; i < blocks_count; i++)
			n += blocks[i].pool == p ? blocks[i].size : 0;
		p->high = n > p->high ? n : p->high;
	}
	return e;
}

static struct pool *default_pool(int device)
{
	static struct pool *pools[MOST_DEVICES];
	if (pools[device] == NULL) {
		pools[device] = make(POOL, sizeof(struct pool));
		pools[device]->device = device;
	}
	return pools[device];
}

/* The one that allocations come from which name none. */
static struct pool *pool_of(int device) { return chosen_pools[device] && !chosen_pools[device]->o.gone ? chosen_pools[device] : default_pool(device); }

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	return e ? e : leave(pooled(dptr, bytesize, pool_of(s->ctx->device)));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	struct pool *p = known(POOL, pool);
	return leave(p && !p->from ? pooled(dptr, bytesize, p) : INVALID);
}

static void give_back(struct task *t)
{
	pthread_mutex_lock(&lock);
	release_block(t->dst);
	pthread_mutex_unlock(&lock);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	struct block *b = owned_block(dptr);
	if (b == NULL || b->kind == MANAGED || b->going)
		return leave(INVALID);
	b->going = s->capture == NULL;
	struct task *t = new_task(give_back);
	t->dst = dptr;
	put(s, t);
	return leave(OK);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (pool == NULL || poolProps == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	bool there = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE && poolProps->location.id >= 0 && poolProps->location.id < devices;
	struct pool *p = there ? make(POOL, sizeof *p) : NULL;
	if (p) {
		p->device = poolProps->location.id;
		p->shareable = poolProps->handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	}
	*pool = (CUmemoryPool)p;
	return leave(p ? OK : INVALID);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	pthread_mutex_lock(&lock);
	struct pool *p = known(POOL, pool);
	if (p == NULL || map == NULL)
		return leave(INVALID);
	return leave(opened(&p->open, map, count));
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	pthread_mutex_lock(&lock);
	struct object *p = known(POOL, pool);
	if (p)
		p->gone = true;
	return leave(p ? OK : INVALID);
}

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, uint64_t flags)
{
	pthread_mutex_lock(&lock);
	struct pool *p = known(POOL, pool);
	if (p == NULL || !p->shareable || handle_out == NULL || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return leave(INVALID);
	if (p->record == NULL)
		p->record = new_record(POOL, p->device, 0, 1);
	return leave(give_descriptor(handle_out, p->record));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType, uint64_t flags)
{
	struct record r;
	pthread_mutex_lock(&lock);
	int from = pool_out == NULL || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags ? -1 : take_descriptor(handle, POOL, &r);
	if (from < 0)
		return leave(INVALID);
	struct pool *p = make(POOL, sizeof *p);
	p->device = r.device;
	p->from = from;
	*pool_out = (CUmemoryPool)p;
	return leave(OK);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	struct block *b = block_at(ptr, PLAIN);
	if (shareData_out == NULL || b == NULL || b->pool == NULL || b->pool->record == NULL)
		return leave(INVALID);
	give_key(shareData_out, pool_magic, (struct ipc){.device = b->device, .offset = b->at - base, .size = b->size, .record = record_at(b->pool->record)});
	return leave(OK);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	struct context *c;
	struct ipc key;
	CUresult e = enter(&c);
	if (e)
		return e;
	struct pool *p = known(POOL, pool);
	if (p == NULL || p->from == 0 || ptr_out == NULL || shareData == NULL)
		return leave(INVALID);
	memcpy(&key, shareData, sizeof key);
	bool of_it = memcmp(key.magic, pool_magic, sizeof key.magic) == 0 && (uint64_t)lseek(p->from, 0, SEEK_CUR) == key.record;
	return leave(of_it ? take_memory(ptr_out, p->from, &key, p) : INVALID);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	pthread_mutex_lock(&lock);
	struct pool *p = known(POOL, pool);
	if (p && value && attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		memcpy(&p->threshold, value, sizeof p->threshold);
	return leave(p && value ? OK : INVALID);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	*pool_out = (CUmemoryPool)default_pool(dev);
	return leave(OK);
}
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	*pool = (CUmemoryPool)pool_of(dev);
	return leave(OK);
}

/* ---- arrays, textures and surfaces ---- */

static size_t element(CUarray_format format, unsigned channels)
{
	size_t n = format == CU_AD_FORMAT_UNSIGNED_INT8 || format == CU_AD_FORMAT_SIGNED_INT8 ? 1 :
		format == CU_AD_FORMAT_UNSIGNED_INT16 || format == CU_AD_FORMAT_SIGNED_INT16 || format == CU_AD_FORMAT_HALF ? 2 :
		format == CU_AD_FORMAT_UNSIGNED_INT32 || format == CU_AD_FORMAT_SIGNED_INT32 || format == CU_AD_FORMAT_FLOAT ? 4 : 0;
	return channels == 1 || channels == 2 || channels == 4 ? n * channels : 0;
}

/* The lock is held. */
static CUresult new_array(int device, const CUDA_ARRAY3D_DESCRIPTOR *d, bool level, CUarray *out)
{
	struct array a = {.as = *d, .rows = d->Height ? d->Height : 1, .level = level};
	a.pitch = d->Width * element(d->Format, d->NumChannels);
	a.size = a.pitch * a.rows * (d->Depth ? d->Depth : 1);
	CUresult e = allocate_in(device, &a.at, a.size, PLAIN, 0, GRAPHS_AT, RESERVE_AT);
	if (e)
		return e;
	struct array *n = make(ARRAY, sizeof *n);
	a.o = n->o;
	*n = a;
	*out = (CUarray)n;
	return OK;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	struct context *c;
	CUresult e = pHandle == NULL || pAllocateArray == NULL ? INVALID : enter(&c);
	return e ? e : leave(new_array(c->device, pAllocateArray, false, pHandle));
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *p)
{
	if (p == NULL)
		return INVALID;
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = p->Width, .Height = p->Height, .Format = p->Format, .NumChannels = p->NumChannels};
	return cuArray3DCreate_v2(pHandle, &d);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	pthread_mutex_lock(&lock);
	struct array *a = known(ARRAY, hArray);
	if (a && pArrayDescriptor)
		*pArrayDescriptor = a->as;
	return leave(a == NULL ? HANDLE : pArrayDescriptor == NULL ? INVALID : OK);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult e = pArrayDescriptor == NULL ? INVALID : cuArray3DGetDescriptor_v2(&d, hArray);
	if (e == OK)
		*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){.Width = d.Width, .Height = d.Height, .Format = d.Format, .NumChannels = d.NumChannels};
	return e;
}

static CUresult end_array(CUarray h, bool level)
{
	struct array *a = known(ARRAY, h);
	if (a == NULL || a->level != level)
		return HANDLE;
	a->o.gone = true;
	return release_block(a->at);
}
CUresult cuArrayDestroy(CUarray hArray)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	all_done(c);
	return leave(end_array(hArray, false));
}

/* Arrays of falling size. */
struct levels { struct object o; unsigned count; CUarray level[16]; };

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *p, unsigned numMipmapLevels)
{
	struct context *c;
	CUresult e = pHandle == NULL || p == NULL || numMipmapLevels == 0 || numMipmapLevels > 16 ? INVALID : enter(&c);
	if (e)
		return e;
	struct levels *l = make(LEVELS, sizeof *l);
	CUDA_ARRAY3D_DESCRIPTOR d = *p;
	for (; e == OK && l->count < numMipmapLevels; l->count++) {
		e = new_array(c->device, &d, true, &l->level[l->count]);
		d.Width = d.Width > 1 ? d.Width / 2 : d.Width, d.Height = d.Height > 1 ? d.Height / 2 : d.Height, d.Depth = d.Depth > 1 ? d.Depth / 2 : d.Depth;
	}
	l->o.gone = e != OK;
	*pHandle = (CUmipmappedArray)l;
	return leave(e);
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned level)
{
	pthread_mutex_lock(&lock);
	struct levels *l = known(LEVELS, hMipmappedArray);
	if (l == NULL || pLevelArray == NULL || level >= l->count)
		return leave(l ? INVALID : HANDLE);
	*pLevelArray = l->level[level];
	return leave(OK);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	all_done(c);
	struct levels *l = known(LEVELS, hMipmappedArray);
	if (l == NULL)
		return leave(HANDLE);
	for (unsigned i = 0; i < l->count; i++)
		end_array(l->level[i], true);
	l->o.gone = true;
	return leave(OK);
}

CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
	uint64_t pitch = 0, rows = 0, to = side(CU_MEMORYTYPE_ARRAY, NULL, 0, dstArray, dstOffset, 0, 0, &pitch, &rows);
	return to ? put_copy(NULL, true, line(to, (uint64_t)srcHost, ByteCount)) : HANDLE;
}
CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	uint64_t pitch = 0, rows = 0, from = side(CU_MEMORYTYPE_ARRAY, NULL, 0, srcArray, srcOffset, 0, 0, &pitch, &rows);
	return from ? put_copy(NULL, true, line((uint64_t)dstHost, from, ByteCount)) : HANDLE;
}

/*
 * Textures and surfaces are small numbers, the least that is free: a driver counts the places in a table. Where device memory lies elsewhere the
 * numbers are others too, as they may be in any other run.
 */
static struct image { bool used, surface; CUDA_RESOURCE_DESC of; } images[1024];

static uint64_t first_image(void) { return 1 + (base >> 40) % 8; }

static struct image *image_known(uint64_t number, bool surface)
{
	uint64_t i = number - first_image();
	return i < sizeof images / sizeof *images && images[i].used && images[i].surface == surface ? &images[i] : NULL;
}

/* Where the content of a texture or surface lies: rows of so many bytes. The lock is held. */
static bool image_memory(const CUDA_RESOURCE_DESC *of, CUdeviceptr *at, struct fakecuda_image *m)
{
	CUarray h = of->res.array.hArray;
	switch (of->resType) {
	case CU_RESOURCE_TYPE_LINEAR:
		*at = of->res.linear.devPtr;
		*m = (struct fakecuda_image){.width = of->res.linear.sizeInBytes, .height = 1, .pitch = of->res.linear.sizeInBytes};
		return true;
	case CU_RESOURCE_TYPE_PITCH2D:
		*at = of->res.pitch2D.devPtr;
		*m = (struct fakecuda_image){.width = of->res.pitch2D.width * element(of->res.pitch2D.format, of->res.pitch2D.numChannels), .height = of->res.pitch2D.height, .pitch = of->res.pitch2D.pitchInBytes};
		return true;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
		struct levels *l = known(LEVELS, of->res.mipmap.hMipmappedArray);
		if (l == NULL)
			return false;
		h = l->level[0];
	}
	/* fall through */
	case CU_RESOURCE_TYPE_ARRAY: {
		struct array *a = known(ARRAY, h);
		if (a == NULL)
			return false;
		*at = a->at;
		*m = (struct fakecuda_image){.width = a->pitch, .height = a->size / a->pitch, .pitch = a->pitch};
		return true;
	}
	default:
		return false;
	}
}

static CUresult new_image(uint64_t *out, const CUDA_RESOURCE_DESC *of, bool surface)
{
	struct context *c;
	struct fakecuda_image m;
	CUdeviceptr at;
	CUresult e = out == NULL || of == NULL ? INVALID : enter(&c);
	if (e)
		return e;
	if (!image_memory(of, &at, &m) || (surface && of->resType != CU_RESOURCE_TYPE_ARRAY) || seen(at, m.pitch * (m.height - 1) + m.width) == NULL)
		return leave(INVALID);
	for (unsigned i = 0; i < sizeof images / sizeof *images; i++)
		if (!images[i].used) {
			images[i] = (struct image){true, surface, *of};
			*out = i + first_image();
			return leave(OK);
		}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult end_image(uint64_t number, bool surface)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	all_done(c); /* kernels that were launched before still read it */
	struct image *i = image_known(number, surface);
	if (i)
		i->used = false;
	return leave(i ? OK : INVALID);
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc, const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	(void)pResViewDesc;
	return pTexDesc == NULL ? INVALID : new_image(pTexObject, pResDesc, false);
}
CUresult cuTexObjectDestroy(CUtexObject texObject) { return end_image(texObject, false); }
CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc) { return new_image(pSurfObject, pResDesc, true); }
CUresult cuSurfObjectDestroy(CUsurfObject surfObject) { return end_image(surfObject, true); }

/* ---- launches ---- */

static __thread struct task *running;

static void *memory(uint64_t addr, size_t bytes)
{
	struct context *c = running->ctx;
	if (device_address(addr)) {
		pthread_mutex_lock(&lock);
		struct block *b = holding(addr, bytes);
		/* Another device's memory is there for who asked for it. */
		uint32_t open = b && b->pool ? b->pool->open : b ? b->open : 0, bit = b ? 1U << b->device : 0;
		if (b && b->device != c->device && !(open >> c->device & 1) && !(c->peers & bit))
			c->error = CUDA_ERROR_ILLEGAL_ADDRESS;
		pthread_mutex_unlock(&lock);
		if (c->error)
			return NULL;
	}
	return reach(running, addr, bytes);
}

static bool see_image(uint64_t number, bool surface, struct fakecuda_image *m)
{
	CUdeviceptr at = 0;
	pthread_mutex_lock(&lock);
	struct image *i = image_known(number, surface);
	m->data = i && image_memory(&i->of, &at, m) ? seen(at, m->pitch * (m->height - 1) + m->width) : NULL;
	if (m->data == NULL)
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
	return m->data != NULL;
}
static bool see_texture(uint64_t number, struct fakecuda_image *m) { return see_image(number, false, m); }
static bool see_surface(uint64_t number, struct fakecuda_image *m) { return see_image(number, true, m); }

static size_t multicast(uint64_t addr, size_t bytes, void **copies, size_t most)
{
	size_t n = 0;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < blocks_count; i++) {
		struct block *b = &blocks[i];
		if (b->kind != MULTICAST || addr < b->at || addr + bytes > b->at + b->size || !(b->open >> running->ctx->device & 1))
			continue;
		uint64_t at = addr - b->at + b->offset;
		for (struct binding *k = b->of->bindings; k; k = k->next)
			if (at >= k->offset && at + bytes <= k->offset + k->size && n < most)
				copies[n++] = k->at + (at - k->offset);
	}
	if (n == 0)
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
	return n;
}

static void set_condition(uint64_t handle, uint32_t value)
{
	pthread_mutex_lock(&lock);
	struct condition *c = known(CONDITION, (const void *)(uintptr_t)handle);
	if (c)
		c->value = value;
	else
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
}

static void *variable(const char *name, size_t bytes)
{
	pthread_mutex_lock(&lock);
	struct variable *v = variable_named(running->function->module, name, 0);
	void *p = v ? seen(v->at, bytes) : NULL;
	if (p == NULL)
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&lock);
	return p;
}

static bool see_tensor(const void *map, struct fakecuda_tensor *t)
{
	bool is = fake_tensor(map, t);
	if (!is)
		running->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	return is;
}

static void run_kernel(struct task *t)
{
	running = t;
	t->launch.memory = memory;
	t->launch.multicast = multicast;
	t->launch.condition = set_condition;
	t->launch.variable = variable;
	t->launch.texture = see_texture;
	t->launch.surface = see_surface;
	t->launch.tensor = see_tensor;
	t->launch.params = t->params;
	if (t->function->run)
		t->function->run(&t->launch);
}

/* Not all that launches have streams have too, nor the other way round. */
CUresult cuStreamSetAttribute(CUstream hStream, CUlaunchAttributeID attr, const CUlaunchAttributeValue *value)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		if (value && value->priority <= 0 && value->priority >= -5)
			s->priority = value->priority;
		/* fall through */
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		return leave(value ? OK : INVALID);
	default:
		return leave(INVALID);
	}
}

/* What the attributes of a launch ask for. */
struct wishes { uint32_t cluster[3]; CUevent events[2]; };

static CUresult attributes(const CUlaunchConfig *c, bool captured, struct wishes *w)
{
	for (unsigned i = 0; i < c->numAttrs; i++) {
		const CUlaunchAttributeValue *v = &c->attrs[i].value;
		switch ((int)c->attrs[i].id) {
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
			w->cluster[0] = v->clusterDim.x, w->cluster[1] = v->clusterDim.y, w->cluster[2] = v->clusterDim.z;
			if (!v->clusterDim.x || !v->clusterDim.y || !v->clusterDim.z || c->gridDimX % v->clusterDim.x || c->gridDimY % v->clusterDim.y || c->gridDimZ % v->clusterDim.z)
				return CUDA_ERROR_INVALID_CLUSTER_SIZE;
			break;
		case CU_LAUNCH_ATTRIBUTE_PRIORITY:
			if (v->priority > 0 || v->priority < -5)
				return INVALID;
			break;
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
			w->events[0] = v->programmaticEvent.event;
			break;
		case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
			w->events[1] = v->launchCompletionEvent.event;
			break;
		case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
			if (v->accessPolicyWindow.num_bytes && seen((uint64_t)v->accessPolicyWindow.base_ptr, v->accessPolicyWindow.num_bytes) == NULL)
				return INVALID;
			break;
		case CU_LAUNCH_ATTRIBUTE_IGNORE:
		case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
		case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		case CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE:
		case CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE:
			break;
		case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
			if (!captured)
				return INVALID;
			if (v->deviceUpdatableKernelNode.deviceUpdatable)
				return CUDA_ERROR_NOT_SUPPORTED; /* its node would be updated by code of a GPU's */
			break;
		default:
			return INVALID;
		}
	}
	for (int i = 0; i < 2; i++)
		if (w->events[i] && known(EVENT, w->events[i]) == NULL)
			return HANDLE;
	return OK;
}

/* The task of a launch. */
static CUresult kernel_task(const CUlaunchConfig *c, bool captured, const void *func, void **kernelParams, void **extra, struct wishes *w, struct task **out)
{
	struct function *f = launchable(func);
	if (f == NULL)
		return HANDLE;
	uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
	if (!c->gridDimX || !c->gridDimY || !c->gridDimZ || threads == 0 || threads > 1024)
		return INVALID;
	CUresult e = attributes(c, captured, w);
	if (e != OK)
		return e;
	const uint8_t *packed = NULL;
	size_t size = 0;
	for (void **x = extra; x && x[0] != CU_LAUNCH_PARAM_END; x += 2) {
		if (x[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			packed = x[1];
		else if (x[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(size_t *)x[1];
		else
			return INVALID;
	}
	if ((kernelParams && extra) || (packed && size < f->size) || (f->count && !kernelParams && !packed))
		return INVALID;
	if (f->run == NULL) {
		const char *none = NULL, *name = strdup(f->name);

		if (name != NULL && !atomic_compare_exchange_strong(&missing_kernel, &none, name))
			free((char *)name);
	}
	if (f->run == NULL && !f->told) {
		fprintf(stderr, "fakecuda: no kernel library has %s: it does nothing\n", f->name);
		report('?', f->name);
	}
	f->told = true;
	struct task *t = new_task(run_kernel);
	t->function = f;
	t->args = calloc(1, f->size + 1);
	t->params = calloc(f->count + 1, sizeof *t->params);
	for (size_t i = 0; i < f->count; i++) {
		memcpy(t->args + f->params[i].at, packed ? packed + f->params[i].at : kernelParams[i], f->params[i].size);
		t->params[i] = t->args + f->params[i].at;
	}
	t->launch = (struct fakecuda_launch){
		.grid = {c->gridDimX, c->gridDimY, c->gridDimZ}, .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
		.cluster = {w->cluster[0], w->cluster[1], w->cluster[2]}, .shared = c->sharedMemBytes, .count = (uint32_t)f->count,
	};
	*out = t;
	return OK;
}

static CUresult launch(const CUlaunchConfig *c, const void *func, void **kernelParams, void **extra)
{
	struct stream *s;
	struct task *t;
	struct wishes w = {.cluster = {1, 1, 1}};
	if (c == NULL || (c->numAttrs && c->attrs == NULL))
		return INVALID;
	CUresult e = on_stream(c->hStream, &s);
	if (e)
		return e;
	if ((e = kernel_task(c, s->capture != NULL, func, kernelParams, extra, &w, &t)) != OK)
		return leave(e);
	put(s, t);
	for (int i = 0; i < 2; i++)
		if (w.events[i])
			record_on(s, known(EVENT, w.events[i]));
	return leave(OK);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) { return launch(config, f, kernelParams, extra); }

CUresult cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes,
			CUstream hStream, void **kernelParams, void **extra)
{
	CUlaunchConfig c = {gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, NULL, 0};
	return launch(&c, f, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,
				   unsigned sharedMemBytes, CUstream hStream, void **kernelParams)
{
	return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, NULL);
}

static void call(struct task *t)
{
	in_callback = true;
	if (t->fn)
		t->fn(t->data);
	else
		t->callback(t->handle, t->ctx->error, t->data);
	in_callback = false;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct stream *s;
	CUresult e = fn == NULL ? INVALID : on_stream(hStream, &s);
	if (e)
		return e;
	struct task *t = new_task(call);
	t->fn = fn, t->data = userData;
	put(s, t);
	return leave(OK);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned flags)
{
	struct stream *s;
	CUresult e = callback == NULL || flags ? INVALID : on_stream(hStream, &s);
	if (e)
		return e;
	struct task *t = new_task(call);
	t->callback = callback, t->data = userData, t->handle = hStream;
	put(s, t);
	return leave(OK);
}

CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData, unsigned syncMode)
{
	return syncMode > CU_HOST_TASK_SPINWAIT ? INVALID : cuLaunchHostFunc(hStream, fn, userData);
}

/* ---- capture and graphs ---- */

static struct graph *new_graph(bool executable)
{
	struct graph *g = make(GRAPH, sizeof *g);
	g->executable = executable;
	g->last = &g->tasks;
	return g;
}

static struct graph *graph_of(const void *h, bool executable)
{
	struct graph *g = known(GRAPH, h);
	return g && g->executable == executable ? g : NULL;
}

/* Whether they are all nodes of a graph. */
static bool nodes_of(const struct graph *g, const CUgraphNode *nodes, size_t count)
{
	bool ok = count == 0 || nodes != NULL;
	for (size_t i = 0; ok && i < count; i++) {
		struct node *n = known(NODE, nodes[i]);
		ok = n != NULL && n->graph == g;
	}
	return ok;
}

/* A graph of its own where none is given. The lock is held. */
static CUresult begin_capture(struct stream *s, struct graph *g, const CUgraphNode *behind, size_t count)
{
	if (s->capture || s->legacy)
		return s->legacy ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_ILLEGAL_STATE;
	if (g && !nodes_of(g, behind, count))
		return INVALID;
	s->capture = g ? g : new_graph(false);
	s->tails = (struct tails){.count = 0};
	add_tails(&s->tails, (struct node *const *)behind, count);
	s->began = true;
	return OK;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	struct stream *s;
	(void)mode;
	CUresult e = on_stream(hStream, &s);
	return e ? e : leave(begin_capture(s, NULL, NULL, 0));
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
	struct stream *s;
	(void)dependencyData, (void)mode;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	struct graph *g = graph_of(hGraph, false);
	return leave(g ? begin_capture(s, g, dependencies, numDependencies) : INVALID);
}

/* All else is stored of a stream alone that is being captured. */
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
	struct stream *s;
	CUresult e = status == NULL ? INVALID : on_stream(hStream, &s);
	if (e)
		return e;
	*status = s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	if (s->capture == NULL)
		return leave(OK);
	if (id)
		*id = (uint64_t)s->capture;
	if (graph)
		*graph = (CUgraph)s->capture;
	if (dependencies)
		*dependencies = (const CUgraphNode *)s->tails.nodes;
	if (edges)
		*edges = NULL; /* none has data */
	if (count)
		*count = s->tails.count;
	return leave(OK);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
{
	return cuStreamGetCaptureInfo_v3(hStream, status, id, graph, dependencies, NULL, count);
}
CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *status, uint64_t *id) { return cuStreamGetCaptureInfo_v3(hStream, status, id, NULL, NULL, NULL, NULL); }

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned flags)
{
	enum { ADD, SET };
	struct stream *s;
	(void)dependencyData;
	CUresult e = flags > SET ? INVALID : on_stream(hStream, &s);
	if (e)
		return e;
	if (s->capture == NULL)
		return leave(CUDA_ERROR_ILLEGAL_STATE);
	if (!nodes_of(s->capture, dependencies, numDependencies))
		return leave(INVALID);
	if (flags == SET)
		s->tails.count = 0;
	add_tails(&s->tails, (struct node *const *)dependencies, numDependencies);
	return leave(OK);
}
CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned flags)
{
	return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies, flags);
}
CUresult cuStreamBeginCapture(CUstream hStream) { return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL); }

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	if (s->capture == NULL || !s->began)
		return leave(CUDA_ERROR_ILLEGAL_STATE);
	struct graph *g = s->capture;
	for (struct object *o = objects[STREAM]; o; o = o->next)
		if (((struct stream *)o)->capture == g) {
			((struct stream *)o)->capture = NULL;
			((struct stream *)o)->began = false;
		}
	*phGraph = (CUgraph)g;
	return leave(OK);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	*captureStatus = s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	return leave(OK);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static __thread CUstreamCaptureMode mine = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureMode was = mine;
	mine = *mode;
	*mode = was;
	return OK;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned flags)
{
	if (phGraph == NULL || flags)
		return INVALID;
	pthread_mutex_lock(&lock);
	*phGraph = (CUgraph)new_graph(false);
	return leave(OK);
}

static CUresult end_graph(const void *h, bool executable)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(h, executable);
	if (g == NULL)
		return leave(INVALID);
	g->o.gone = true; /* an executable one has the tasks of the one that it was made of */
	return leave(OK);
}
CUresult cuGraphDestroy(CUgraph hGraph) { return end_graph(hGraph, false); }
CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) { return end_graph(hGraphExec, true); }

/* Of what kind the node is that a captured task becomes. */
static CUgraphNodeType node_type(const struct task *t)
{
	return t->run == run_kernel ? CU_GRAPH_NODE_TYPE_KERNEL : t->run == copy ? CU_GRAPH_NODE_TYPE_MEMCPY : t->run == fill ? CU_GRAPH_NODE_TYPE_MEMSET :
		t->run == call ? CU_GRAPH_NODE_TYPE_HOST : CU_GRAPH_NODE_TYPE_EMPTY;
}

static struct node *add_node(struct graph *g, struct task *t, CUgraphNodeType type)
{
	struct node *n = make(NODE, sizeof *n);
	n->type = type, n->graph = g, n->task = t;
	t->node = n;
	t->ctx = t->ctx ? t->ctx : current();
	*g->last = t;
	g->last = &t->next;
	g->count++;
	return n;
}

static void *same(const void *p, size_t n)
{
	void *q = p ? malloc(n ? n : 1) : NULL;
	if (q)
		memcpy(q, p, n);
	return q;
}

static struct graph *copy_graph(const struct graph *g, bool executable);
static void write_values(struct task *t);

/* A task as another one is, of its own. */
static struct task *copy_task(const struct task *t)
{
	struct task *n = same(t, sizeof *t);
	n->next = NULL;
	n->node = NULL;
	n->staged = same(t->staged, t->staged ? (t->depth - 1) * t->src_pitch * t->src_plane + (t->height - 1) * t->src_pitch + t->width : 0);
	n->args = same(t->args, t->run == write_values ? t->value * sizeof(CUstreamBatchMemOpParams) : t->function ? t->function->size + 1 : 0);
	n->params = t->params ? calloc(t->function->count + 1, sizeof *t->params) : NULL;
	for (size_t i = 0; t->params && i < t->function->count; i++)
		n->params[i] = n->args + t->function->params[i].at;
	n->graph = t->graph ? copy_graph(t->graph, true) : NULL;
	n->bodies = same(t->bodies, t->bodies_count * sizeof *t->bodies);
	for (uint32_t i = 0; i < t->bodies_count; i++)
		n->bodies[i] = (CUgraph)copy_graph((struct graph *)t->bodies[i], true);
	return n;
}

static struct node *copy_of(const struct graph *g, const struct node *origin)
{
	for (struct task *t = g->tasks; t; t = t->next)
		if (t->node->origin == origin)
			return t->node;
	return NULL;
}

static struct graph *copy_graph(const struct graph *g, bool executable)
{
	struct graph *x = new_graph(executable);
	for (struct task *t = g->tasks; t; t = t->next) {
		struct node *n = add_node(x, copy_task(t), t->node->type);
		n->origin = t->node;
		n->disabled = t->node->disabled;
	}
	for (struct task *t = x->tasks; t; t = t->next) {
		const struct node *o = t->node->origin;
		t->node->needs = calloc(o->needs_count + 1, sizeof *t->node->needs);
		for (size_t i = 0; i < o->needs_count; i++) {
			struct node *n = copy_of(x, o->needs[i]);
			if (n)
				t->node->needs[t->node->needs_count++] = n;
		}
	}
	return x;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, uint64_t flags)
{
	(void)flags;
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hGraph, false);
	if (g == NULL || phGraphExec == NULL)
		return leave(INVALID);
	*phGraphExec = (CUgraphExec)copy_graph(g, true);
	return leave(OK);
}
CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	(void)phErrorNode, (void)logBuffer, (void)bufferSize;
	return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}
CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	if (instantiateParams == NULL)
		return INVALID;
	instantiateParams->hErrNode_out = NULL;
	instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return cuGraphInstantiateWithFlags(phGraphExec, hGraph, instantiateParams->flags);
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(originalGraph, false);
	if (g == NULL || phGraphClone == NULL)
		return leave(INVALID);
	*phGraphClone = (CUgraph)copy_graph(g, false);
	return leave(OK);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hClonedGraph, false);
	struct node *n = g ? copy_of(g, (struct node *)hOriginalNode) : NULL;
	if (n == NULL || phNode == NULL)
		return leave(INVALID);
	*phNode = (CUgraphNode)n;
	return leave(OK);
}

static void await_run(const struct graph *x)
{
	if (x && x->ran.stream)
		await(x->ran);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	pthread_mutex_lock(&lock);
	struct graph *x = graph_of(hGraphExec, true), *g = graph_of(hGraph, false);
	if (x == NULL || g == NULL || resultInfo == NULL)
		return leave(INVALID);
	memset(resultInfo, 0, sizeof *resultInfo);
	bool alike = x->count == g->count;
	for (struct task *a = x->tasks, *b = g->tasks; alike && a && b; a = a->next, b = b->next)
		alike = a->run == b->run;
	if (!alike) {
		resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		return leave(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	}
	struct graph *n = copy_graph(g, true);
	await_run(x);
	x->tasks = n->tasks;
	x->last = n->last;
	return leave(OK);
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out, CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info;
	if (hErrorNode_out == NULL || updateResult_out == NULL)
		return INVALID;
	CUresult e = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
	*hErrorNode_out = NULL;
	*updateResult_out = e == OK ? CU_GRAPH_EXEC_UPDATE_SUCCESS : e == INVALID ? CU_GRAPH_EXEC_UPDATE_ERROR : info.result;
	return e;
}

static bool can_run(const struct node *n)
{
	for (size_t i = 0; i < n->needs_count; i++)
		if (!n->needs[i]->ran)
			return false;
	return !n->ran;
}

static void run_graph(struct task *t)
{
	for (struct task *k = t->graph->tasks; k; k = k->next)
		k->node->ran = false;
	for (size_t left = t->graph->count; left > 0 && t->ctx->error == OK; left--) {
		struct task *k = t->graph->tasks;
		while (k && !can_run(k->node))
			k = k->next;
		if (k == NULL)
			return; /* a circle, which adding an edge refuses */
		k->node->ran = true;
		if (k->run && !k->node->disabled) {
			k->ctx = t->ctx;
			k->run(k);
		}
		if (k->event)
			k->event->ns = now();
	}
}

/* Conditions have their first values again, those of parts, too. */
static void set_first(const struct graph *g)
{
	for (struct task *k = g->tasks; k; k = k->next) {
		if (k->condition && k->condition->assigned)
			k->condition->value = k->condition->first;
		for (uint32_t i = 0; i < k->bodies_count; i++)
			set_first((struct graph *)k->bodies[i]);
		if (k->graph)
			set_first(k->graph);
	}
}

static void launch_graph(struct task *t)
{
	set_first(t->graph);
	run_graph(t);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	return e ? e : leave(graph_of(hGraphExec, true) ? OK : INVALID);
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	struct graph *x = graph_of(hGraphExec, true);
	if (x == NULL)
		return leave(INVALID);
	struct task *t = new_task(launch_graph);
	t->graph = x;
	/* What its nodes wait for comes before all of it, and what they record is reached with its end. */
	for (struct task *k = x->tasks; k; k = k->next)
		if (k->node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && k->data && ((struct event *)k->data)->place.stream)
			wait_for(t, ((struct event *)k->data)->place.stream, ((struct event *)k->data)->place.ticket);
	if (x->ran.stream)
		wait_for(t, x->ran.stream, x->ran.ticket);
	struct place p = put(s, t);
	if (p.ticket)
		x->ran = p;
	for (struct task *k = x->tasks; k; k = k->next)
		if (k->event)
			k->event->place = p;
	return leave(OK);
}

/* ---- nodes that calls put into graphs ---- */

static struct node *node_of(CUgraphNode h, CUgraphNodeType type)
{
	struct node *n = known(NODE, h);
	return n && !n->graph->executable && n->type == type ? n : NULL;
}

/* Puts a task into a graph, behind those that it depends on. The lock is held, and the task is the graph's or gone. */
static CUresult put_node(CUgraphNode *out, CUgraph h, const CUgraphNode *needs, size_t count, struct task *t, CUgraphNodeType type)
{
	struct graph *g = graph_of(h, false);
	bool ok = out != NULL && g != NULL && nodes_of(g, needs, count);
	if (!ok) {
		drop(t);
		return leave(INVALID);
	}
	struct node *n = add_node(g, t, type);
	n->needs = calloc(count + 1, sizeof *n->needs);
	for (; n->needs_count < count; n->needs_count++)
		n->needs[n->needs_count] = (struct node *)needs[n->needs_count];
	*out = (CUgraphNode)n;
	return leave(OK);
}

/* Gives a node another task: that of the graph, or that of an executable one which was made of it. */
static CUresult set_node(CUgraphExec exec, CUgraphNode h, struct task *t, CUgraphNodeType type)
{
	struct node *n = node_of(h, type);
	if (n && exec) {
		struct graph *x = graph_of(exec, true);
		await_run(x);
		n = x ? copy_of(x, n) : NULL;
	}
	if (n == NULL) {
		drop(t);
		return leave(INVALID);
	}
	struct task *was = n->task;
	free(was->args);
	free(was->params);
	free(was->staged);
	t->next = was->next;
	t->node = n;
	t->ctx = was->ctx;
	*was = *t;
	free(t);
	return leave(OK);
}

static CUresult new_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *p, const void *kernel, struct task **t)
{
	struct wishes w = {.cluster = {1, 1, 1}};
	CUlaunchConfig c = {p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ, p->sharedMemBytes, NULL, NULL, 0};
	pthread_mutex_lock(&lock);
	return kernel_task(&c, true, p->func ? (const void *)p->func : kernel, p->kernelParams, p->extra, &w, t);
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct task *t;
	CUresult e = nodeParams ? new_kernel(nodeParams, NULL, &t) : INVALID;
	return nodeParams == NULL ? e : e ? leave(e) : put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_KERNEL);
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct task *t;
	CUresult e = nodeParams ? new_kernel((const CUDA_KERNEL_NODE_PARAMS_v1 *)nodeParams, nodeParams->kern, &t) : INVALID;
	return nodeParams == NULL ? e : e ? leave(e) : put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_KERNEL);
}
static CUresult set_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p, const void *kernel)
{
	struct task *t;
	CUresult e = new_kernel(p, kernel, &t);
	return e ? leave(e) : set_node(exec, node, t, CU_GRAPH_NODE_TYPE_KERNEL);
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *p) { return p ? set_kernel(NULL, hNode, p, NULL) : INVALID; }
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *p) { return p ? set_kernel(NULL, hNode, (const CUDA_KERNEL_NODE_PARAMS_v1 *)p, p->kern) : INVALID; }
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec x, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *p) { return p && x ? set_kernel(x, hNode, p, NULL) : INVALID; }
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec x, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *p)
{
	return p && x ? set_kernel(x, hNode, (const CUDA_KERNEL_NODE_PARAMS_v1 *)p, p->kern) : INVALID;
}

static struct task *new_copy(const CUDA_MEMCPY3D *p)
{
	struct task *t = new_task(copy);
	if (!shape_of(p, t)) {
		drop(t);
		return NULL;
	}
	t->run = copy;
	return t;
}
CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct task *t = copyParams && ctx ? new_copy(copyParams) : NULL;
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_MEMCPY);
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	struct task *t = nodeParams ? new_copy(nodeParams) : NULL;
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return set_node(NULL, hNode, t, CU_GRAPH_NODE_TYPE_MEMCPY);
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct task *t = copyParams && ctx && hGraphExec ? new_copy(copyParams) : NULL;
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return set_node(hGraphExec, hNode, t, CU_GRAPH_NODE_TYPE_MEMCPY);
}

static struct task *new_fill(const CUDA_MEMSET_NODE_PARAMS *p)
{
	if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)
		return NULL;
	struct task *t = new_task(fill);
	t->dst = p->dst, t->dst_pitch = p->pitch, t->value = p->value, t->unit = p->elementSize, t->width = p->width, t->height = p->height, t->depth = 1;
	return t;
}
CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct task *t = memsetParams && ctx ? new_fill(memsetParams) : NULL;
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_MEMSET);
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct task *t = nodeParams ? new_fill(nodeParams) : NULL;
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return set_node(NULL, hNode, t, CU_GRAPH_NODE_TYPE_MEMSET);
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct task *t = memsetParams && ctx && hGraphExec ? new_fill(memsetParams) : NULL;
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return set_node(hGraphExec, hNode, t, CU_GRAPH_NODE_TYPE_MEMSET);
}

static struct task *new_call(const CUDA_HOST_NODE_PARAMS *p)
{
	struct task *t = new_task(call);
	t->fn = p->fn, t->data = p->userData;
	return t;
}
CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	if (nodeParams == NULL || nodeParams->fn == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, new_call(nodeParams), CU_GRAPH_NODE_TYPE_HOST);
}
CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	if (nodeParams == NULL || nodeParams->fn == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return set_node(NULL, hNode, new_call(nodeParams), CU_GRAPH_NODE_TYPE_HOST);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph)
{
	pthread_mutex_lock(&lock);
	struct graph *child = graph_of(childGraph, false);
	if (child == NULL)
		return leave(INVALID);
	struct task *t = new_task(run_graph);
	t->graph = copy_graph(child, false);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_GRAPH);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	pthread_mutex_lock(&lock);
	struct node *n = node_of(hNode, CU_GRAPH_NODE_TYPE_GRAPH);
	if (n == NULL || phGraph == NULL)
		return leave(INVALID);
	*phGraph = (CUgraph)n->task->graph;
	return leave(OK);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies)
{
	pthread_mutex_lock(&lock);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, new_task(NULL), CU_GRAPH_NODE_TYPE_EMPTY);
}

/* The task of a node with an event, NULL where there is no such event. The lock is held. */
static struct task *event_task(CUevent h, CUgraphNodeType type)
{
	struct event *v = known(EVENT, h);
	struct task *t = v ? new_task(NULL) : NULL;
	if (t && type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		t->event = v;
	else if (t)
		t->data = v;
	return t;
}
static CUresult event_node(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUevent h, CUgraphNodeType type)
{
	pthread_mutex_lock(&lock);
	struct task *t = event_task(h, type);
	return t ? put_node(out, g, needs, count, t, type) : leave(HANDLE);
}
static CUresult set_event(CUgraphExec x, CUgraphNode n, CUevent h, CUgraphNodeType type)
{
	pthread_mutex_lock(&lock);
	struct task *t = event_task(h, type);
	return t ? set_node(x, n, t, type) : leave(HANDLE);
}
CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	return event_node(phGraphNode, hGraph, dependencies, numDependencies, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}
CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	return event_node(phGraphNode, hGraph, dependencies, numDependencies, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

/* Whether one node comes to another by what it needs. */
static bool leads(const struct node *from, const struct node *to)
{
	for (size_t i = 0; i < from->needs_count; i++)
		if (from->needs[i] == to || leads(from->needs[i], to))
			return true;
	return from == to;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hGraph, false);
	for (size_t i = 0; i < numDependencies; i++) {
		struct node *a = known(NODE, from[i]), *b = known(NODE, to[i]);
		if (g == NULL || a == NULL || b == NULL || a->graph != g || b->graph != g || leads(a, b))
			return leave(INVALID);
		b->needs = realloc(b->needs, (b->needs_count + 1) * sizeof *b->needs);
		b->needs[b->needs_count++] = a;
	}
	return leave(g ? OK : INVALID);
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	pthread_mutex_lock(&lock);
	struct node *n = known(NODE, hNode);
	if (n == NULL || type == NULL)
		return leave(INVALID);
	*type = n->type;
	return leave(OK);
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hGraph, false);
	if (g == NULL || numNodes == NULL)
		return leave(INVALID);
	size_t n = 0;
	for (struct task *t = g->tasks; t; t = t->next, n++)
		if (nodes && n < *numNodes)
			nodes[n] = (CUgraphNode)t->node;
	*numNodes = n;
	return leave(OK);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned isEnabled)
{
	pthread_mutex_lock(&lock);
	struct graph *x = graph_of(hGraphExec, true);
	await_run(x);
	struct node *n = x ? copy_of(x, (struct node *)hNode) : NULL;
	if (n)
		n->disabled = !isEnabled;
	return leave(n ? OK : INVALID);
}

/* ---- nodes whose kind a tag tells ---- */

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) { return set_event(NULL, hNode, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD); }
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) { return set_event(NULL, hNode, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT); }
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec x, CUgraphNode hNode, CUevent event) { return x ? set_event(x, hNode, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD) : INVALID; }
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec x, CUgraphNode hNode, CUevent event) { return x ? set_event(x, hNode, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT) : INVALID; }

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	if (nodeParams == NULL || nodeParams->fn == NULL || hGraphExec == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return set_node(hGraphExec, hNode, new_call(nodeParams), CU_GRAPH_NODE_TYPE_HOST);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
	pthread_mutex_lock(&lock);
	struct graph *child = graph_of(childGraph, false);
	if (child == NULL || hGraphExec == NULL)
		return leave(INVALID);
	struct task *t = new_task(run_graph);
	t->graph = copy_graph(child, true);
	return set_node(hGraphExec, hNode, t, CU_GRAPH_NODE_TYPE_GRAPH);
}

/* Values that are written to memory, or waited for, by the device. Only writes are here. */
static void write_values(struct task *t)
{
	const CUstreamBatchMemOpParams *ops = (const CUstreamBatchMemOpParams *)t->args;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < t->value; i++) {
		size_t n = ops[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;
		uint8_t *p = seen(ops[i].writeValue.address, n);
		if (p)
			memcpy(p, &ops[i].writeValue.value64, n);
		else
			t->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	pthread_mutex_unlock(&lock);
}
static struct task *new_values(const CUstreamBatchMemOpParams *ops, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (ops[i].operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 && ops[i].operation != CU_STREAM_MEM_OP_WRITE_VALUE_64)
			return NULL;
	struct task *t = new_task(write_values);
	t->args = same(ops, count * sizeof *ops);
	t->value = count;
	return t;
}
CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	struct task *t = nodeParams && nodeParams->paramArray ? new_values(nodeParams->paramArray, nodeParams->count) : NULL;
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
}

/* Memory of a graph is there from the node on. */
CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	if (nodeParams == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	CUresult e = graph_of(hGraph, false) ? allocate_in(nodeParams->poolProps.location.id, &nodeParams->dptr, nodeParams->bytesize, PLAIN, 0, GRAPHS_AT, RESERVE_AT) : INVALID;
	return e ? leave(e) : put_node(phGraphNode, hGraph, dependencies, numDependencies, new_task(NULL), CU_GRAPH_NODE_TYPE_MEM_ALLOC);
}
CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr)
{
	pthread_mutex_lock(&lock);
	if (block_at(dptr, PLAIN) == NULL)
		return leave(INVALID);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, new_task(NULL), CU_GRAPH_NODE_TYPE_MEM_FREE);
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx, unsigned defaultLaunchValue, unsigned flags)
{
	(void)ctx;
	pthread_mutex_lock(&lock);
	if (graph_of(hGraph, false) == NULL || pHandle_out == NULL)
		return leave(INVALID);
	struct condition *c = make(CONDITION, sizeof *c);
	c->value = c->first = defaultLaunchValue;
	c->assigned = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0;
	*pHandle_out = (CUgraphConditionalHandle)(uintptr_t)c;
	return leave(OK);
}

static void run_conditional(struct task *t)
{
	for (uint32_t n = 0; t->ctx->error == OK; n++) {
		uint32_t v = t->condition->value, body = v;
		if (t->how == CU_GRAPH_COND_TYPE_IF)
			body = v ? 0 : 1;
		else if (t->how == CU_GRAPH_COND_TYPE_WHILE)
			body = v ? 0 : t->bodies_count;
		if (body >= t->bodies_count || (n > 0 && t->how != CU_GRAPH_COND_TYPE_WHILE))
			return;
		struct task run = {.ctx = t->ctx, .graph = (struct graph *)t->bodies[body]};
		run_graph(&run);
	}
}

static CUresult conditional_node(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUDA_CONDITIONAL_NODE_PARAMS *p)
{
	pthread_mutex_lock(&lock);
	struct condition *c = known(CONDITION, (void *)(uintptr_t)p->handle);
	if (c == NULL || p->size == 0 || (p->type != CU_GRAPH_COND_TYPE_SWITCH && p->size > 2))
		return leave(INVALID);
	struct task *t = new_task(run_conditional);
	t->condition = c, t->how = p->type, t->bodies_count = p->size;
	t->bodies = calloc(p->size, sizeof *t->bodies);
	for (uint32_t i = 0; i < p->size; i++)
		t->bodies[i] = (CUgraph)new_graph(false);
	p->phGraph_out = t->bodies;
	return put_node(out, g, needs, count, t, CU_GRAPH_NODE_TYPE_CONDITIONAL);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUgraphNodeParams *p)
{
	CUcontext ctx = (CUcontext)current();
	if (p == NULL)
		return INVALID;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, (const CUDA_KERNEL_NODE_PARAMS *)&p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return cuGraphAddMemcpyNode(phGraphNode, hGraph, dependencies, numDependencies, &p->memcpy.copyParams, p->memcpy.copyCtx ? p->memcpy.copyCtx : ctx);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return cuGraphAddMemsetNode(phGraphNode, hGraph, dependencies, numDependencies, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset, p->memset.ctx ? p->memset.ctx : ctx);
	case CU_GRAPH_NODE_TYPE_HOST:
		return cuGraphAddHostNode(phGraphNode, hGraph, dependencies, numDependencies, (const CUDA_HOST_NODE_PARAMS *)&p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies, numDependencies, p->graph.graph);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return cuGraphAddEmptyNode(phGraphNode, hGraph, dependencies, numDependencies);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuGraphAddEventWaitNode(phGraphNode, hGraph, dependencies, numDependencies, p->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuGraphAddEventRecordNode(phGraphNode, hGraph, dependencies, numDependencies, p->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(phGraphNode, hGraph, dependencies, numDependencies, p->free.dptr);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return cuGraphAddBatchMemOpNode(phGraphNode, hGraph, dependencies, numDependencies, (const CUDA_BATCH_MEM_OP_NODE_PARAMS *)&p->memOp);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return conditional_node(phGraphNode, hGraph, dependencies, numDependencies, &p->conditional);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}
CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	(void)dependencyData; /* the whole of one before the whole of the other */
	return cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

static CUresult set_tagged(CUgraphExec x, CUgraphNode n, CUgraphNodeParams *p)
{
	CUcontext ctx = (CUcontext)current();
	if (p == NULL)
		return INVALID;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return set_kernel(x, n, (const CUDA_KERNEL_NODE_PARAMS_v1 *)&p->kernel, p->kernel.kern);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return x ? cuGraphExecMemcpyNodeSetParams(x, n, &p->memcpy.copyParams, ctx) : cuGraphMemcpyNodeSetParams(n, &p->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return x ? cuGraphExecMemsetNodeSetParams(x, n, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset, ctx) : cuGraphMemsetNodeSetParams(n, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset);
	case CU_GRAPH_NODE_TYPE_HOST:
		return x ? cuGraphExecHostNodeSetParams(x, n, (const CUDA_HOST_NODE_PARAMS *)&p->host) : cuGraphHostNodeSetParams(n, (const CUDA_HOST_NODE_PARAMS *)&p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return x ? cuGraphExecChildGraphNodeSetParams(x, n, p->graph.graph) : CUDA_ERROR_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return set_event(x, n, p->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? p->eventWait.event : p->eventRecord.event, p->type);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}
CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) { return set_tagged(NULL, hNode, nodeParams); }
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return hGraphExec ? set_tagged(hGraphExec, hNode, nodeParams) : INVALID;
}

/* ---- what programs ask and advise besides ---- */

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	DEVICE(dev);
	if (prop == NULL)
		return INVALID;
	const int *a = device_attributes;
	*prop = (CUdevprop){
		.maxThreadsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
		.maxThreadsDim = {a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X], a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y], a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
		.maxGridSize = {a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X], a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y], a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
		.sharedMemPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK], .totalConstantMemory = a[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
		.SIMDWidth = a[CU_DEVICE_ATTRIBUTE_WARP_SIZE], .memPitch = a[CU_DEVICE_ATTRIBUTE_MAX_PITCH], .regsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
		.clockRate = a[CU_DEVICE_ATTRIBUTE_CLOCK_RATE], .textureAlign = a[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
	};
	return OK;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain, bus, slot;
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (dev == NULL || pciBusId == NULL || (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3 && (domain = 0, sscanf(pciBusId, "%x:%x", &bus, &slot) != 2)))
		return INVALID;
	if (domain || slot || bus == 0 || bus > (unsigned)devices)
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = (int)bus - 1;
	return OK;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format, uint32_t numChannels, CUdevice dev)
{
	DEVICE(dev);
	if (maxWidthInElements == NULL || element(format, numChannels) == 0)
		return INVALID;
	*maxWidthInElements = (size_t)device_attributes[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH];
	return OK;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget where, CUflushGPUDirectRDMAWritesScope scope)
{
	(void)where, (void)scope;
	struct context *c;
	CUresult e = enter(&c);
	return e ? e : leave(OK);
}

/* A context that a call names, NULL for none; 0 names the current one. The lock is held. */
static struct context *context_named(CUcontext ctx) { return ctx ? known(CONTEXT, ctx) : current(); }

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	struct context *c = context_named(ctx);
	if (c && device)
		*device = c->device;
	return leave(c == NULL ? CUDA_ERROR_INVALID_CONTEXT : device ? OK : INVALID);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	struct context *c = context_named(ctx);
	return leave(c ? all_done(c) : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	struct context *c;
	CUresult e = enter(&c);
	return e ? e : leave(OK);
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if (pConfig)
		*pConfig = c->banks;
	return leave(pConfig ? OK : INVALID);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct context *c;
	CUresult e = enter(&c);
	if (e)
		return e;
	if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return leave(INVALID);
	c->banks = config;
	return leave(OK);
}

/* All of a context's work so far, and all of it from here on. */
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	pthread_mutex_lock(&lock);
	struct context *c = context_named(hCtx);
	struct event *v = known(EVENT, hEvent);
	if (c == NULL || v == NULL)
		return leave(c ? HANDLE : CUDA_ERROR_INVALID_CONTEXT);
	if (c->watcher == NULL)
		c->watcher = new_stream(c, CU_STREAM_NON_BLOCKING, 0);
	struct task *t = new_task(NULL);
	for (struct object *o = objects[STREAM]; o; o = o->next)
		if (((struct stream *)o)->ctx == c && (struct stream *)o != c->watcher)
			wait_for(t, (struct stream *)o, ((struct stream *)o)->issued);
	put(c->watcher, t);
	record_on(c->watcher, v);
	return leave(OK);
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	pthread_mutex_lock(&lock);
	struct context *c = context_named(hCtx);
	struct event *v = known(EVENT, hEvent);
	if (c == NULL || v == NULL)
		return leave(c ? HANDLE : CUDA_ERROR_INVALID_CONTEXT);
	if (v->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	c->behind = v->place; /* streams that are made from here on */
	for (struct object *o = objects[STREAM]; o; o = o->next) {
		struct stream *s = (struct stream *)o;
		if (s->ctx != c || s->o.gone || s->capture || v->place.stream == NULL)
			continue;
		struct task *t = new_task(NULL);
		wait_for(t, v->place.stream, v->place.ticket);
		put(s, t);
	}
	return leave(OK);
}

CUresult cuStreamGetId(CUstream hStream, uint64_t *streamId)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	uint64_t n = 0;
	for (struct object *o = &s->o; o; o = o->next)
		n++;
	if (streamId)
		*streamId = n;
	return leave(streamId ? OK : INVALID);
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	if (device)
		*device = s->ctx->device;
	return leave(device ? OK : INVALID);
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct stream *s;
	CUresult e = on_stream(src, &s);
	if (e)
		return e;
	struct stream *d = stream_of(current(), dst);
	if (d)
		d->priority = s->priority;
	return leave(d ? OK : HANDLE);
}

CUresult cuStreamGetAttribute(CUstream hStream, CUlaunchAttributeID attr, CUlaunchAttributeValue *value_out)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	if (value_out == NULL || attr != CU_LAUNCH_ATTRIBUTE_PRIORITY)
		return leave(value_out ? CUDA_ERROR_NOT_SUPPORTED : INVALID);
	value_out->priority = s->priority;
	return leave(OK);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, uint32_t count, CUstreamBatchMemOpParams *paramArray, uint32_t flags)
{
	if (paramArray == NULL || count == 0 || count > 256 || flags)
		return INVALID;
	CUresult e = OK;
	for (uint32_t i = 0; i < count && e == OK; i++) {
		const CUstreamBatchMemOpParams *p = &paramArray[i];
		bool wait = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
		switch ((int)p->operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
			e = value_task(stream, p->writeValue.address, p->writeValue.value, 4, p->writeValue.flags, wait);
			break;
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			e = value_task(stream, p->writeValue.address, p->writeValue.value64, 8, p->writeValue.flags, wait);
			break;
		case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		case CU_STREAM_MEM_OP_BARRIER:
			break;
		default:
			e = INVALID;
		}
	}
	return e;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (mode == NULL)
		return INVALID;
	*mode = CU_MODULE_EAGER_LOADING;
	return initialized ? OK : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult count_functions(uint32_t *count, const void *module)
{
	pthread_mutex_lock(&lock);
	struct module *m = module_of(module);
	uint32_t n = 0;
	for (struct function *f = m ? m->functions : NULL; f; f = f->sibling)
		n++;
	if (m && count)
		*count = n;
	return leave(m == NULL ? HANDLE : count ? OK : INVALID);
}
CUresult cuModuleGetFunctionCount(uint32_t *count, CUmodule mod) { return count_functions(count, mod); }
CUresult cuLibraryGetKernelCount(uint32_t *count, CUlibrary lib) { return count_functions(count, lib); }

static CUresult list_functions(void **out, uint32_t most, const void *module, bool as_kernel)
{
	pthread_mutex_lock(&lock);
	struct module *m = module_of(module);
	uint32_t n = 0;
	for (struct function *f = m && out ? m->functions : NULL; f && n < most; f = f->sibling)
		out[n++] = as_kernel ? loose(f) : f;
	return leave(m == NULL ? HANDLE : out ? OK : INVALID);
}
CUresult cuModuleEnumerateFunctions(CUfunction *functions, uint32_t numFunctions, CUmodule mod) { return list_functions((void **)functions, numFunctions, mod, false); }
CUresult cuLibraryEnumerateKernels(CUkernel *kernels, uint32_t numKernels, CUlibrary lib) { return list_functions((void **)kernels, numKernels, lib, true); }

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	pthread_mutex_lock(&lock);
	struct function *f = function_known(kernel, true);
	if (f && pLib)
		*pLib = (CUlibrary)f->module;
	return leave(f == NULL ? HANDLE : pLib ? OK : INVALID);
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	pthread_mutex_lock(&lock);
	struct function *f = function_known(hfunc, false);
	if (f && hmod)
		*hmod = (CUmodule)((uintptr_t)f->module | (f->module->library ? OF_LIBRARY : 0));
	return leave(f == NULL ? HANDLE : hmod ? OK : INVALID);
}

static CUresult function_name(const char **name, const void *h, bool as_kernel)
{
	pthread_mutex_lock(&lock);
	struct function *f = function_known(h, as_kernel);
	if (f && name)
		*name = f->name;
	return leave(f == NULL ? HANDLE : name ? OK : INVALID);
}
CUresult cuFuncGetName(const char **name, CUfunction hfunc) { return function_name(name, hfunc, false); }
CUresult cuKernelGetName(const char **name, CUkernel hfunc) { return function_name(name, hfunc, true); }

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	pthread_mutex_lock(&lock);
	bool there = function_known(function, false);
	if (there && state)
		*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return leave(!there ? HANDLE : state ? OK : INVALID);
}

CUresult cuFuncLoad(CUfunction function)
{
	pthread_mutex_lock(&lock);
	return leave(function_known(function, false) ? OK : HANDLE);
}
CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	(void)config;
	return cuFuncLoad(hfunc);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct function *f = function_known(kernel, true);
	pthread_mutex_unlock(&lock);
	return f ? cuFuncGetAttribute(pi, attrib, (CUfunction)f) : HANDLE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	DEVICE(dev);
	(void)attrib, (void)val;
	pthread_mutex_lock(&lock);
	return leave(function_known(kernel, true) ? OK : HANDLE);
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	(void)config;
	return cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0, kernel, dev);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	CUdeviceptr at = 0;
	CUresult e = variable_of(&at, bytes, library, name);
	if (e)
		return e;
	pthread_mutex_lock(&lock);
	bool managed = block_at(at, MANAGED);
	if (managed && dptr)
		*dptr = at;
	return leave(managed ? OK : CUDA_ERROR_NOT_FOUND);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, uint32_t flags)
{
	return flags > 1 ? INVALID : cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize, dynamicSMemSize);
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize shared, size_t dynamicSMemSize, int blockSizeLimit, uint32_t flags)
{
	return flags > 1 ? INVALID : cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func, shared, dynamicSMemSize, blockSizeLimit);
}
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
	if (dynamicSmemSize == NULL || numBlocks <= 0 || blockSize <= 0)
		return INVALID;
	pthread_mutex_lock(&lock);
	int most = device_attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] / numBlocks, one = device_attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK];
	*dynamicSmemSize = (size_t)(most < one ? most : one);
	return leave(function_known(func, false) ? OK : HANDLE);
}

static CUresult clusters(int *out, const void *func, const CUlaunchConfig *config, bool active)
{
	struct wishes w = {.cluster = {1, 1, 1}};
	if (out == NULL || config == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	CUresult e = launchable(func) ? attributes(config, false, &w) : HANDLE;
	int size = (int)(w.cluster[0] * w.cluster[1] * w.cluster[2]);
	*out = active ? device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] / size : 8;
	return leave(e);
}
CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config) { return clusters(clusterSize, func, config, false); }
CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config) { return clusters(numClusters, func, config, true); }

/* What is advised of managed memory can be asked for, and is of no effect. NULL where a range is none of it. */
static struct block *managed(CUdeviceptr at, size_t count)
{
	struct block *b = count ? holding(at, count) : NULL;
	return b && b->kind == MANAGED ? b : NULL;
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	struct block *b = managed(devPtr, count);
	if (b == NULL || (location.type == CU_MEM_LOCATION_TYPE_DEVICE && (location.id < 0 || location.id >= devices)))
		return leave(b ? CUDA_ERROR_INVALID_DEVICE : INVALID);
	switch ((int)advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		b->mostly_read = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		return leave(OK);
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		b->preferred = location;
		return leave(OK);
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		b->preferred = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_INVALID};
		return leave(OK);
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		return leave(OK);
	}
	return leave(INVALID);
}

/* A device, or the host by the number -1. */
static CUmemLocation device_location(CUdevice d) { return (CUmemLocation){d < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, d < 0 ? 0 : d}; }

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) { return cuMemAdvise_v2(devPtr, count, advice, device_location(device)); }

/* Nothing moves. */
static CUresult prefetch(CUdeviceptr at, size_t count, CUmemLocation to, CUstream h)
{
	struct stream *s;
	CUresult e = on_stream(h, &s);
	if (e)
		return e;
	struct block *b = managed(at, count);
	if (b == NULL || (to.type == CU_MEM_LOCATION_TYPE_DEVICE && (to.id < 0 || to.id >= devices)))
		return leave(b ? CUDA_ERROR_INVALID_DEVICE : INVALID);
	b->fetched = to;
	put(s, new_task(NULL));
	return leave(OK);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, uint32_t flags, CUstream hStream) { return flags ? INVALID : prefetch(devPtr, count, location, hStream); }
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) { return prefetch(devPtr, count, device_location(dstDevice), hStream); }

/* What is thrown away is lost. */
static void discard(struct task *t)
{
	uint8_t *p = reach(t, t->dst, t->width);
	if (p)
		memset(p, 0, t->width);
}

static CUresult ranges(const CUdeviceptr *at, const size_t *sizes, size_t count, const CUmemLocation *to, const size_t *from, size_t locations, uint64_t flags, bool lost, CUstream h)
{
	struct stream *s;
	bool located = to && from && locations && locations <= count && from[0] == 0;
	CUresult e = at == NULL || sizes == NULL || count == 0 || flags || h == NULL || (locations && !located) ? INVALID : on_stream(h, &s);
	if (e)
		return e;
	for (size_t i = 0; i < count; i++)
		if (managed(at[i], sizes[i]) == NULL)
			return leave(INVALID);
	for (size_t i = 0, k = 0; i < count; i++) {
		while (located && k + 1 < locations && from[k + 1] <= i)
			k++;
		struct task *t = new_task(lost ? discard : NULL);
		t->dst = at[i], t->width = sizes[i];
		put(s, t);
		if (located)
			managed(at[i], sizes[i])->fetched = to[k];
	}
	return leave(OK);
}
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags, CUstream hStream)
{
	return numPrefetchLocs ? ranges(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, false, hStream) : INVALID;
}
CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, uint64_t flags, CUstream hStream) { return ranges(dptrs, sizes, count, NULL, NULL, 0, flags, true, hStream); }
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags,
					   CUstream hStream)
{
	return numPrefetchLocs ? ranges(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, true, hStream) : INVALID;
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count)
{
	if (data == NULL || dataSize != 4)
		return INVALID;
	pthread_mutex_lock(&lock);
	struct block *b = managed(devPtr, count);
	if (b == NULL)
		return leave(INVALID);
	bool fetched = attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION || attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE ||
		attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID;
	CUmemLocation l = fetched ? b->fetched : b->preferred;
	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*(int *)data = b->mostly_read;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*(int *)data = l.type == CU_MEM_LOCATION_TYPE_DEVICE ? l.id : l.type == CU_MEM_LOCATION_TYPE_HOST ? -1 : -2;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*(int *)data = (int)l.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*(int *)data = l.id;
		break;
	default:
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	return leave(OK);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes_, size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	CUresult e = data && dataSizes && attributes_ && numAttributes ? OK : INVALID;
	for (size_t i = 0; i < numAttributes && e == OK; i++)
		e = cuMemRangeGetAttribute(data[i], dataSizes[i], attributes_[i], devPtr, count);
	return e;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, uint32_t flags)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	struct block *b = managed(dptr, 1);
	if (b == NULL || (length && length != b->size) || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE))
		return leave(INVALID);
	put(s, new_task(NULL));
	return leave(OK);
}

CUresult cuPointerGetAttributes(uint32_t numAttributes, CUpointer_attribute *attributes_, void **data, CUdeviceptr ptr)
{
	CUresult e = attributes_ && data && numAttributes ? OK : INVALID;
	for (uint32_t i = 0; i < numAttributes && e == OK; i++)
		/* Of an address that is none of the device's this does not fail: it is of no kind. */
		if ((e = cuPointerGetAttribute(data[i], attributes_[i], ptr)) == INVALID) {
			memset(data[i], 0, attributes_[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER || attributes_[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ? 8 : 4);
			e = OK;
		}
	return e;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct context *c;
	CUresult e = enter(&c);
	return e ? e : leave(value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && seen(ptr, 1) ? OK : INVALID);
}

CUresult cuMemGetAccess(uint64_t *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	pthread_mutex_lock(&lock);
	struct block *b = holding(ptr, 1);
	if (b == NULL || b->kind != MAPPED || flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 || location->id >= devices)
		return leave(INVALID);
	*flags = b->open >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return leave(OK);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	pthread_mutex_lock(&lock);
	struct physical *p = known(PHYSICAL, (void *)handle);
	if (p && prop)
		*prop = p->as;
	return leave(p && prop ? OK : INVALID);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	pthread_mutex_lock(&lock);
	struct block *b = holding((uint64_t)addr, 1);
	if (handle == NULL || b == NULL || b->kind != MAPPED)
		return leave(INVALID);
	b->of->retained = b->of->o.gone ? 0 : b->of->retained + 1;
	b->of->o.gone = false;
	*handle = (uint64_t)b->of;
	return leave(OK);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	(void)minBytesToKeep;
	pthread_mutex_lock(&lock);
	return leave(known(POOL, pool) ? OK : INVALID);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	pthread_mutex_lock(&lock);
	struct pool *p = known(POOL, pool);
	if (p == NULL || value == NULL)
		return leave(INVALID);
	uint64_t n = 0;
	for (size_t i = 0; i < blocks_count; i++)
		n += blocks[i].pool == p && blocks[i].kind == PLAIN ? blocks[i].size : 0;
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value = 1;
		return leave(OK);
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(uint64_t *)value = p->threshold;
		return leave(OK);
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(uint64_t *)value = n;
		return leave(OK);
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(uint64_t *)value = p->high;
		return leave(OK);
	}
	return leave(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	pthread_mutex_lock(&lock);
	struct pool *p = known(POOL, memPool);
	if (p == NULL || flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 || location->id >= devices)
		return leave(INVALID);
	*flags = location->id == p->device || p->open >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return leave(OK);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct pool *p = known(POOL, pool);
	if (p == NULL || p->from || p->device != dev)
		return leave(INVALID);
	chosen_pools[dev] = p;
	return leave(OK);
}
CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	return pool_out && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED ? cuDeviceGetDefaultMemPool(pool_out, location->id) : INVALID;
}
CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	return pool && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED ? cuDeviceGetMemPool(pool, location->id) : INVALID;
}
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	return location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED ? cuDeviceSetMemPool(location->id, pool) : INVALID;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	DEVICE(device);
	return OK;
}

/* Copies of one row with arrays at either end. */
static CUresult array_copy(CUarray to, CUdeviceptr dst, CUarray from, CUdeviceptr src, size_t dst_offset, size_t src_offset, size_t n, CUstream h, bool wait)
{
	uint64_t pitch = 0, rows = 0;
	uint64_t d = side(to ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE, NULL, dst, to, dst_offset, 0, 0, &pitch, &rows);
	uint64_t s = side(from ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE, NULL, src, from, src_offset, 0, 0, &pitch, &rows);
	return d && s ? put_copy(h, wait, line(d, s, n)) : INVALID;
}
CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) { return array_copy(dstArray, 0, NULL, srcDevice, dstOffset, 0, ByteCount, NULL, true); }
CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) { return array_copy(NULL, dstDevice, srcArray, 0, 0, srcOffset, ByteCount, NULL, true); }
CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return array_copy(dstArray, 0, srcArray, 0, dstOffset, srcOffset, ByteCount, NULL, true);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return array_copy(dstArray, 0, NULL, (CUdeviceptr)srcHost, dstOffset, 0, ByteCount, hStream, false);
}
CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)
{
	return array_copy(NULL, (CUdeviceptr)dstHost, srcArray, 0, 0, srcOffset, ByteCount, hStream, false);
}

/* The contexts, which it has besides, say nothing that addresses do not. */
static CUresult copy3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream h, bool wait)
{
	_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D) && offsetof(CUDA_MEMCPY3D_PEER, Depth) == offsetof(CUDA_MEMCPY3D, Depth) &&
		offsetof(CUDA_MEMCPY3D_PEER, dstPitch) == offsetof(CUDA_MEMCPY3D, dstPitch), "one is as the other");
	return copy3d((const CUDA_MEMCPY3D *)p, h, wait);
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy) { return copy3d_peer(pCopy, NULL, true); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream) { return copy3d_peer(pCopy, hStream, false); }

CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, uint16_t us, size_t Width, size_t Height, CUstream hStream)
{
	return put_fill(hStream, false, dstDevice, dstPitch, us, 2, Width, Height);
}

CUresult cuStreamBatchMemOp(CUstream stream, uint32_t count, CUstreamBatchMemOpParams *paramArray, uint32_t flags) { return cuStreamBatchMemOp_v2(stream, count, paramArray, flags); }

/* ---- what programs ask of graphs ---- */

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hGraph, false);
	if (g == NULL || numRootNodes == NULL)
		return leave(INVALID);
	size_t n = 0;
	for (struct task *t = g->tasks; t; t = t->next) {
		if (t->node->needs_count)
			continue;
		if (rootNodes && n < *numRootNodes)
			rootNodes[n] = (CUgraphNode)t->node;
		n++;
	}
	*numRootNodes = n;
	return leave(OK);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData, size_t *numEdges)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hGraph, false);
	if (g == NULL || numEdges == NULL || !from != !to)
		return leave(INVALID);
	size_t n = 0;
	for (struct task *t = g->tasks; t; t = t->next)
		for (size_t i = 0; i < t->node->needs_count; i++, n++)
			if (from && n < *numEdges) {
				from[n] = (CUgraphNode)t->node->needs[i], to[n] = (CUgraphNode)t->node;
				if (edgeData)
					edgeData[n] = (CUgraphEdgeData){0};
			}
	*numEdges = n;
	return leave(OK);
}
CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges) { return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges); }

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	pthread_mutex_lock(&lock);
	struct node *n = known(NODE, hNode);
	if (n == NULL || numDependencies == NULL)
		return leave(INVALID);
	for (size_t i = 0; dependencies && i < n->needs_count && i < *numDependencies; i++) {
		dependencies[i] = (CUgraphNode)n->needs[i];
		if (edgeData)
			edgeData[i] = (CUgraphEdgeData){0};
	}
	*numDependencies = n->needs_count;
	return leave(OK);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies) { return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies); }

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	pthread_mutex_lock(&lock);
	struct node *n = known(NODE, hNode);
	if (n == NULL || numDependentNodes == NULL)
		return leave(INVALID);
	size_t k = 0;
	for (struct task *t = n->graph->tasks; t; t = t->next)
		for (size_t i = 0; i < t->node->needs_count; i++)
			if (t->node->needs[i] == n) {
				if (dependentNodes && k < *numDependentNodes) {
					dependentNodes[k] = (CUgraphNode)t->node;
					if (edgeData)
						edgeData[k] = (CUgraphEdgeData){0};
				}
				k++;
			}
	*numDependentNodes = k;
	return leave(OK);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes) { return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes); }

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	(void)edgeData;
	return cuGraphAddDependencies(hGraph, from, to, numDependencies);
}

static bool forget_need(struct node *n, const struct node *need)
{
	for (size_t i = 0; i < n->needs_count; i++)
		if (n->needs[i] == need) {
			n->needs[i] = n->needs[--n->needs_count];
			return true;
		}
	return false;
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hGraph, false);
	for (size_t i = 0; i < numDependencies; i++) {
		struct node *a = known(NODE, from[i]), *b = known(NODE, to[i]);
		if (g == NULL || a == NULL || b == NULL || b->graph != g || !forget_need(b, a))
			return leave(INVALID);
	}
	return leave(g ? OK : INVALID);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	(void)edgeData;
	return cuGraphRemoveDependencies(hGraph, from, to, numDependencies);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
	pthread_mutex_lock(&lock);
	struct node *n = known(NODE, hNode);
	if (n == NULL || n->graph->executable)
		return leave(INVALID);
	for (struct task **t = &n->graph->tasks; *t;) {
		forget_need((*t)->node, n);
		if (*t != n->task) {
			t = &(*t)->next;
			continue;
		}
		*t = n->task->next;
		if (n->graph->last == &n->task->next)
			n->graph->last = t;
	}
	n->graph->count--;
	n->o.gone = true;
	return leave(OK);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, uint32_t *isEnabled)
{
	pthread_mutex_lock(&lock);
	struct graph *x = graph_of(hGraphExec, true);
	struct node *n = x ? copy_of(x, (struct node *)hNode) : NULL;
	if (n && isEnabled)
		*isEnabled = !n->disabled;
	return leave(n && isEnabled ? OK : INVALID);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	pthread_mutex_lock(&lock);
	struct node *n = node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	if (n == NULL || nodeParams == NULL)
		return leave(INVALID);
	const struct fakecuda_launch *l = &n->task->launch;
	*nodeParams = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)n->task->function, .gridDimX = l->grid[0], .gridDimY = l->grid[1], .gridDimZ = l->grid[2], .blockDimX = l->block[0],
		.blockDimY = l->block[1], .blockDimZ = l->block[2], .sharedMemBytes = l->shared, .kernelParams = (void **)n->task->params};
	return leave(OK);
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUresult e = nodeParams ? cuGraphKernelNodeGetParams_v2(hNode, &p) : INVALID;
	if (e == OK)
		memcpy(nodeParams, &p, sizeof *nodeParams);
	return e;
}

/* ---- contexts with a part of a device ---- */

enum { SMS = 1, LEAST_SMS = 2 }; /* a type of resources, and how many processors are given out at least and at once */

/* What is in a resource besides its count: which processors of which device, and that it is this library's, of this run. */
struct share { uint64_t secret; uint32_t device, first; };
_Static_assert(sizeof(struct share) <= sizeof(((CUdevResource *)0)->_internal_padding) - 4, "a resource holds it");

struct resource { struct object o; int device; uint32_t count; };
struct green {
	struct object o;
	struct context *ctx;
	uint32_t count;
};

static struct share share_of(uint32_t device, uint32_t first) { return (struct share){base ^ (uint64_t)process << 48, device, first}; }

static CUdevResource resource_of(uint32_t device, uint32_t first, uint32_t count)
{
	CUdevResource r = {.type = SMS, .sm = {.smCount = count, .minSmPartitionSize = LEAST_SMS, .smCoscheduledAlignment = LEAST_SMS}};
	struct share s = share_of(device, first);
	memcpy(r._internal_padding + 4, &s, sizeof s);
	return r;
}

static bool right(const CUdevResource *r, struct share *s)
{
	if (r == NULL || r->type != SMS)
		return false;
	memcpy(s, r->_internal_padding + 4, sizeof *s);
	return s->secret == share_of(0, 0).secret && s->device < (uint32_t)devices;
}

static uint32_t processors(void) { return (uint32_t)device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]; }

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	DEVICE(device);
	if (resource == NULL || type != SMS)
		return INVALID;
	*resource = resource_of((uint32_t)device, 0, processors());
	return OK;
}

/* Groups of at least so many processors, as many as there are or are asked for, and what is left. */
CUresult cuDevSmResourceSplitByCount(CUdevResource *result, uint32_t *nbGroups, const CUdevResource *input, CUdevResource *remaining, uint32_t useFlags, uint32_t minCount)
{
	struct share s;
	(void)useFlags;
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (nbGroups == NULL || !right(input, &s) || minCount > input->sm.smCount)
		return INVALID;
	uint32_t size = minCount < LEAST_SMS ? LEAST_SMS : (minCount + LEAST_SMS - 1) / LEAST_SMS * LEAST_SMS, most = input->sm.smCount / size;
	if (result && *nbGroups < most)
		most = *nbGroups;
	for (uint32_t i = 0; result && i < most; i++)
		result[i] = resource_of(s.device, s.first + i * size, size);
	if (remaining && result)
		*remaining = resource_of(s.device, s.first + most * size, input->sm.smCount - most * size);
	*nbGroups = most;
	return OK;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, uint32_t nbResources)
{
	struct share s, first = {0};
	uint32_t count = 0;
	if (phDesc == NULL || resources == NULL || nbResources == 0)
		return INVALID;
	for (uint32_t i = 0; i < nbResources; i++) {
		if (!right(&resources[i], &s) || (i && s.device != first.device) || resources[i].sm.smCount == 0)
			return INVALID;
		first = s;
		count += resources[i].sm.smCount;
	}
	pthread_mutex_lock(&lock);
	struct resource *r = make(RESOURCE, sizeof *r);
	r->device = (int)first.device;
	r->count = count;
	*phDesc = (CUdevResourceDesc)r;
	return leave(OK);
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, uint32_t flags)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct resource *r = known(RESOURCE, desc);
	if (phCtx == NULL || r == NULL || r->device != dev || flags != 1 /* with a default stream */)
		return leave(INVALID);
	struct green *g = make(GREEN, sizeof *g);
	g->ctx = new_context(dev, 0);
	g->count = r->count;
	*phCtx = (CUgreenCtx)g;
	return leave(OK);
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	pthread_mutex_lock(&lock);
	struct green *g = known(GREEN, hCtx);
	if (g == NULL)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	all_done(g->ctx);
	g->o.gone = g->ctx->o.gone = true;
	return leave(OK);
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	pthread_mutex_lock(&lock);
	struct green *g = known(GREEN, hCtx);
	if (g && pContext)
		*pContext = (CUcontext)g->ctx;
	return leave(g == NULL ? CUDA_ERROR_INVALID_CONTEXT : pContext ? OK : INVALID);
}

static struct green *green_of(const struct context *c)
{
	for (struct object *o = objects[GREEN]; o; o = o->next)
		if (((struct green *)o)->ctx == c)
			return (struct green *)o;
	return NULL;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	pthread_mutex_lock(&lock);
	struct green *g = known(GREEN, hCtx);
	if (g == NULL || resource == NULL || type != SMS)
		return leave(g ? INVALID : CUDA_ERROR_INVALID_CONTEXT);
	*resource = resource_of((uint32_t)g->ctx->device, 0, g->count);
	return leave(OK);
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	pthread_mutex_lock(&lock);
	struct context *c = context_named(hCtx);
	if (c == NULL || resource == NULL || type != SMS)
		return leave(c ? INVALID : CUDA_ERROR_INVALID_CONTEXT);
	struct green *g = green_of(c);
	*resource = resource_of((uint32_t)c->device, 0, g ? g->count : processors());
	return leave(OK);
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, uint32_t flags, int priority)
{
	pthread_mutex_lock(&lock);
	struct green *g = known(GREEN, greenCtx);
	if (g == NULL || phStream == NULL || flags != CU_STREAM_NON_BLOCKING)
		return leave(g ? INVALID : CUDA_ERROR_INVALID_CONTEXT);
	*phStream = (CUstream)new_stream(g->ctx, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
	return leave(OK);
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	if (phCtx)
		*phCtx = (CUgreenCtx)green_of(s->ctx);
	return leave(phCtx ? OK : INVALID);
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct stream *s;
	CUresult e = on_stream(hStream, &s);
	if (e)
		return e;
	if (pctx)
		*pctx = (CUcontext)s->ctx;
	return leave(pctx ? OK : INVALID);
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	CUcontext c;
	CUresult e = cuCtxFromGreenCtx(&c, hCtx);
	return e ? e : cuCtxRecordEvent(c, hEvent);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	CUcontext c;
	CUresult e = cuCtxFromGreenCtx(&c, hCtx);
	return e ? e : cuCtxWaitEvent(c, hEvent);
}

/* ---- memory of several devices that one address reaches ---- */

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop, CUmulticastGranularity_flags option)
{
	(void)option;
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (granularity == NULL || prop == NULL)
		return INVALID;
	*granularity = GRANULARITY;
	return OK;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
	if (!initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (mcHandle == NULL || prop == NULL || prop->numDevices == 0 || prop->numDevices > (uint32_t)devices || prop->size == 0 || prop->size % GRANULARITY || prop->flags)
		return INVALID;
	pthread_mutex_lock(&lock);
	struct physical *p = make(PHYSICAL, sizeof *p);
	p->size = prop->size;
	p->wanted = prop->numDevices;
	*mcHandle = (uint64_t)p;
	return leave(OK);
}

static struct physical *multicast_known(CUmemGenericAllocationHandle h)
{
	struct physical *p = known(PHYSICAL, (void *)h);
	return p && p->wanted ? p : NULL;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct physical *p = multicast_known(mcHandle);
	if (p == NULL || p->added >> dev & 1 || (uint32_t)__builtin_popcount(p->added) == p->wanted)
		return leave(INVALID);
	p->added |= 1U << dev;
	return leave(OK);
}

/* Once all devices are there each may give memory. The lock is held. */
static CUresult bind_multicast(CUmemGenericAllocationHandle h, size_t offset, int device, uint8_t *at, size_t size, uint64_t flags)
{
	struct physical *p = multicast_known(h);
	if (p == NULL || (uint32_t)__builtin_popcount(p->added) != p->wanted || !(p->added >> device & 1) || offset % GRANULARITY || size == 0 || size % GRANULARITY || offset + size > p->size || flags)
		return INVALID;
	for (struct binding *k = p->bindings; k; k = k->next)
		if (k->device == device && offset < k->offset + k->size && k->offset < offset + size)
			return INVALID;
	struct binding *k = calloc(1, sizeof *k);
	*k = (struct binding){device, offset, size, at, p->bindings};
	p->bindings = k;
	return OK;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size, uint64_t flags)
{
	pthread_mutex_lock(&lock);
	struct physical *m = known(PHYSICAL, (void *)memHandle);
	if (m == NULL || m->wanted || m->from || memOffset % GRANULARITY || memOffset + size > m->size)
		return leave(INVALID);
	return leave(bind_multicast(mcHandle, mcOffset, m->device, arena + (m->at - base) + memOffset, size, flags));
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size, uint64_t flags)
{
	pthread_mutex_lock(&lock);
	struct block *b = holding(memptr, size);
	return leave(b && b->kind == MAPPED ? bind_multicast(mcHandle, mcOffset, b->device, arena + (memptr - base), size, flags) : INVALID);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size)
{
	DEVICE(dev);
	pthread_mutex_lock(&lock);
	struct physical *p = multicast_known(mcHandle);
	for (struct binding **k = p ? &p->bindings : NULL; k && *k; k = &(*k)->next)
		if ((*k)->device == dev && (*k)->offset == mcOffset && (*k)->size == size) {
			struct binding *gone = *k;
			*k = gone->next;
			free(gone);
			return leave(OK);
		}
	return leave(INVALID);
}
