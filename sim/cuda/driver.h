/*
 * Declarations shared by the fake driver's files. One lock guards all state: call with it held unless a comment says otherwise.
 */
#ifndef FAKECUDA_DRIVER_H
#define FAKECUDA_DRIVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define FAKECUDA_DRIVER
#include "fakecuda.h"
#include "ptx.h"

#pragma GCC visibility push(hidden)

/* ---- driver.c ---- */

#define OK CUDA_SUCCESS

#define INVALID CUDA_ERROR_INVALID_VALUE

#define HANDLE CUDA_ERROR_INVALID_HANDLE

/* Every object behind a handle begins with its kind, and is in the list of its kind. */
enum kind { CONTEXT, STREAM, EVENT, MODULE, FUNCTION, GRAPH, NODE, POOL, PHYSICAL, CONDITION, LINK, ARRAY, LEVELS, RESOURCE, GREEN, KINDS };

struct object {
	enum kind kind;
	bool gone;
	struct object *next;
};

extern _Atomic(const char *) missing_kernel;
extern pthread_mutex_t lock;
extern pthread_cond_t moved;
extern bool initialized;
extern pid_t process;
extern struct object *objects[KINDS];
void *make(enum kind kind, size_t size);
void *known(enum kind kind, const void *handle);

/* Visits all objects of a kind, also those that are gone. */
#define EACH(type, x, kind) for (struct type *x = (struct type *)objects[kind]; x; x = (struct type *)x->o.next)

/* Takes the lock and declares x, the object found. Returns error from the function if there is none. */
#define FIND(type, x, found, error) \
	pthread_mutex_lock(&lock); \
	struct type *x = found; \
	if (x == NULL) \
		return leave(error)

/* Releases the lock after a result was stored. A missing output is an error. */
#define STORE(out, value) leave((out) ? (*(out) = (value), OK) : INVALID)


/* ---- memory.c ---- */

enum { UNIT = 512, PAGE = 4096, GRANULARITY = 2 << 20 };

#define GIB (1ULL << 30)

#define TOTAL (8 * GIB)             /* for all devices */

#define GRAPHS_AT (12 * GIB)        /* memory that graph nodes allocate; its addresses can't be chosen */

#define RESERVE_AT (16 * GIB)       /* reserved addresses */

#define IMPORTS_AT (22 * GIB)       /* memory of other processes */

#define PHYSICAL_AT (24 * GIB)      /* physical memory, mapped at reserved addresses */

#define ARENA (32 * GIB)

#define LEAD 0x1200000              /* before the first allocation in each part, so that pairs of small numbers equal no address */

enum { RECORDS = 1 << 14 };         /* stored after the memory in the file */

enum { MOST_DEVICES = 8 };

/* State shared with other processes: memory offsets in the file, pools, event progress. */
struct record {
	enum kind kind;
	int device;
	uint64_t at, size;
	_Atomic uint64_t issued, done; /* for an event: number of records so far, and of completed ones */
	uint64_t unused[3];
};

struct block {
	uint64_t at, size;
	enum { PLAIN, MANAGED, RESERVED, MAPPED, BACKING, IMPORTED, MULTICAST } kind;
	int device;
	uint32_t open;     /* also accessible to kernels on these devices, one bit each */
	struct pool *pool; /* owner, with the same access rights; imported memory of a pool belongs to the pool */
	bool going;        /* to be freed when a stream reaches the free */
	struct context *by; /* owner if there is no pool */
	struct physical *of;
	uint64_t offset; /* in a multicast object */
	bool mostly_read;   /* advice for managed memory, and its last prefetch target */
	CUmemLocation preferred, fetched;
};

/* Host memory that the device may access. */
struct host { uint8_t *at; size_t size; unsigned flags; bool own; struct host *next; };

struct pool {
	struct object o;
	int device;
	uint32_t open;
	uint64_t threshold, high;
	bool shareable;
	struct record *record; /* NULL before the export */
	int from;              /* for memory of another process: descriptor of its file, positioned at the record; 0 for this process */
};

extern int devices;
extern uint64_t base;
extern uint8_t *arena;
extern int file;
extern struct record *records;
extern struct block *blocks;
extern size_t blocks_count;
extern uint64_t used[MOST_DEVICES];
bool open_arena(void);
struct record *new_record(enum kind kind, int device, uint64_t at, uint64_t size);
uint64_t record_at(const struct record *r);
int open_file(int pid, int fd);
CUresult give_descriptor(void *out, const struct record *r);
int take_descriptor(const void *handle, enum kind kind, struct record *r);
void insert(struct block b);
struct block *block_at(uint64_t at, int kind);
void erase(struct block *b);
uint64_t placed(void);
uint64_t find_room(uint64_t from, uint64_t to, uint64_t size, uint64_t align, uint64_t wish);
uint64_t room(int device);
CUresult allocate_in(int device, CUdeviceptr *p, size_t size, int kind, uint64_t wish, uint64_t from, uint64_t to);
CUresult allocate(int device, CUdeviceptr *p, size_t size, int kind, uint64_t wish);
struct block *owned_block(CUdeviceptr p);
void leave_block(struct block *b);
CUresult release_block(CUdeviceptr p);
struct block *holding(uint64_t at, uint64_t size);
uint8_t *seen(uint64_t at, uint64_t size);
bool device_address(uint64_t at);
extern struct host *hosts;
struct host *host_of(const void *p);

/* ---- tasks.c ---- */

struct place { struct stream *stream; uint64_t ticket; };

struct context {
	struct object o;
	int device;
	uint32_t peers; /* devices whose memory its kernels access, one bit each */
	unsigned flags;
	CUfunc_cache cache;
	size_t limits[CU_LIMIT_MAX];
	int references; /* references to the primary context */
	CUresult error; /* first device error */
	CUsharedconfig banks;
	struct stream *legacy, *watcher; /* default stream; stream that waits for all others before an event */
	struct place behind;             /* future streams start after this place */
};

struct task {
	struct task *next;
	struct context *ctx;
	void (*run)(struct task *);
	struct place waits[64];
	unsigned waits_count;
	uint64_t ticket;
	struct event *event;
	struct record *reaches, *awaits; /* events shared between processes: the task advances one to a mark, or waits for a mark */
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
	struct condition *condition; /* selects the bodies to run, and their number of turns */
	CUgraphConditionalNodeType how;
	CUgraph *bodies;
	uint32_t bodies_count;
	bool wait; /* must hold: value reached */
	unsigned flags;
	uint64_t wanted;
};

/* The next captured node depends on these nodes. */
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
	struct tails tails; /* in the captured graph */
	bool began; /* the capture began on it */
};

struct event {
	struct object o;
	unsigned flags;
	struct place place; /* of the latest record */
	uint64_t ns;
	struct graph *capture;
	struct tails tails;
	struct record *record; /* shared with other processes */
};

struct graph {
	struct object o;
	bool executable;
	struct task *tasks;
	struct task **last;
	size_t count;
	struct place ran; /* end of the latest run of an executable graph; the next run and node changes wait for it */
};

/* A value that kernels set to select the parts of a graph to run. */
struct condition {
	struct object o;
	bool assigned; /* reset at each launch */
	uint32_t value, first;
};

/* A task in a graph, run after all its dependencies. */
struct node {
	struct object o;
	CUgraphNodeType type;
	struct graph *graph;
	struct task *task;
	struct node *origin; /* the node in the original graph, for a node of a copy */
	struct node **needs;
	size_t needs_count;
	bool disabled, ran;
};

extern struct context *primary[MOST_DEVICES];
extern __thread struct context *stack[32];
extern __thread unsigned depth;
extern __thread bool in_callback;
extern __thread struct stream *own[8];
uint64_t now(void);
struct context *current(void);
CUresult enter(struct context **ctx);
CUresult leave(CUresult e);

/* Declares c, the current context, and takes the lock. Returns from the function on an error. */
#define ENTER(c) \
	struct context *c; \
	do { \
		CUresult failed_ = enter(&c); \
		if (failed_) \
			return failed_; \
	} while (0)

extern bool abroad;
void pause_here(void);
void drop(struct task *t);
struct stream *new_stream(struct context *c, unsigned flags, int priority);
struct stream *stream_of(struct context *c, CUstream h);
void wait_for(struct task *t, struct stream *s, uint64_t ticket);
struct place put(struct stream *s, struct task *t);
CUresult await(struct place p);

/* ---- context.c ---- */

/* Return from the function unless the driver is initialized, or the device exists. */
#define INITIALIZED do { if (!initialized) return CUDA_ERROR_NOT_INITIALIZED; } while (0)
#define DEVICE(d) do { INITIALIZED; if ((d) < 0 || (d) >= devices) return CUDA_ERROR_INVALID_DEVICE; } while (0)

extern const int device_attributes[CU_DEVICE_ATTRIBUTE_MAX];
struct context *new_context(int device, unsigned flags);
CUresult all_done(struct context *c);

/* ---- module.c ---- */

struct function {
	struct object o;
	struct module *module;
	const char *name;
	const struct ptx_param *params;
	size_t count, size;
	fakecuda_kernel *run;
	bool told; /* the missing library was reported */
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

/* The module of a library has a handle of its own. */
enum { OF_LIBRARY = 1 };

void report(char kind, const char *what);
struct variable *variable_named(const struct module *m, const char *name, int unit);
CUresult text_of(const uint8_t *image, const char **text);
char *file_bytes(const char *name, size_t *size);
void *contextless(struct function *f);
struct function *launchable(const void *h);
struct function *function_known(const void *h, bool wants_contextless);
struct module *module_of(const void *handle);
CUresult variable_of(CUdeviceptr *dptr, size_t *bytes, const void *module, const char *name);

/* ---- alloc.c ---- */

/* Physical memory, which has no address of its own, or a multicast object. */
struct physical {
	struct object o;
	uint64_t at, size;
	int device, from; /* see struct pool */
	unsigned retained; /* references after the first */
	CUmemAllocationProp as;
	uint32_t wanted, added; /* for a multicast object: number of devices, 0 for other memory; one bit for each added device */
	struct binding *bindings;
};

/* A part of a multicast object that is backed by a device's memory. */
struct binding { int device; uint64_t offset, size; uint8_t *at; struct binding *next; };

/* The content of a key for another process. */
struct ipc {
	char magic[8];
	int process, file, device;
	uint64_t offset, size;
	uint64_t record; /* of the pool or the event */
};

extern const char event_magic[8];
extern const char pool_magic[8];
void give_key(void *out, const char magic[8], struct ipc key);
CUresult take_memory(CUdeviceptr *out, int from, const struct ipc *key, struct pool *pool);
CUresult opened(uint32_t *open, const CUmemAccessDesc *desc, size_t count);

/* ---- stream.c ---- */

CUresult on_stream(CUstream h, struct stream **s);

/* Like ENTER, for the stream of a handle. */
#define ON_STREAM(s, h) \
	struct stream *s; \
	do { \
		CUresult failed_ = on_stream(h, &s); \
		if (failed_) \
			return failed_; \
	} while (0)

struct task *new_task(void (*run)(struct task *));
void add_tails(struct tails *t, struct node *const *nodes, size_t count);
void record_on(struct stream *s, struct event *v);

/* ---- copy.c ---- */

/* An array has its own memory, in rows without gaps. */
struct array {
	struct object o;
	CUdeviceptr at;
	size_t pitch, rows, size;
	CUDA_ARRAY3D_DESCRIPTOR as;
	bool level; /* a level of another array */
};

uint8_t *reach(struct task *t, uint64_t at, uint64_t size);
void copy(struct task *t);
void fill(struct task *t);
bool there(uint64_t at, uint64_t size);
CUresult put_copy(CUstream h, bool wait, struct task shape);
struct task line(uint64_t dst, uint64_t src, uint64_t n);
uint64_t side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t x, size_t y, size_t z, uint64_t *pitch, uint64_t *rows);
bool shape_of(const CUDA_MEMCPY3D *p, struct task *out);
CUresult copy3d(const CUDA_MEMCPY3D *p, CUstream h, bool wait);
CUresult put_fill(CUstream h, bool wait, CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t unit, size_t width, size_t height);
CUresult value_task(CUstream h, CUdeviceptr addr, uint64_t value, uint32_t unit, unsigned flags, bool wait);
extern struct pool *chosen_pools[MOST_DEVICES];

/* ---- array.c ---- */

/*
 * Textures and surfaces are small numbers, the least that is free, like a driver's table positions. If device memory is placed elsewhere, the
 * numbers differ too, as they may in any other run.
 */
struct image { bool used, surface; CUDA_RESOURCE_DESC of; };

size_t element(CUarray_format format, unsigned channels);
struct image *image_known(uint64_t number, bool surface);
bool image_memory(const CUDA_RESOURCE_DESC *of, CUdeviceptr *at, struct fakecuda_image *m);

/* ---- launch.c ---- */

/* Launch attributes. */
struct wishes { uint32_t cluster[3]; CUevent events[2]; };

void *memory(uint64_t addr, size_t bytes);
void *variable(const char *name, size_t bytes);
void run_kernel(struct task *t);
CUresult attributes(const CUlaunchConfig *c, bool captured, struct wishes *w);
CUresult kernel_task(const CUlaunchConfig *c, bool captured, const void *func, void **kernelParams, void **extra, struct wishes *w, struct task **out);
CUresult launch(const CUlaunchConfig *c, const void *func, void **kernelParams, void **extra);
void call(struct task *t);

/* ---- graph.c ---- */

struct graph *new_graph(bool executable);
struct graph *graph_of(const void *h, bool executable);
bool nodes_of(const struct graph *g, const CUgraphNode *nodes, size_t count);
CUgraphNodeType node_type(const struct task *t);
struct node *add_node(struct graph *g, struct task *t, CUgraphNodeType type);
void *same(const void *p, size_t n);
struct node *copy_of(const struct graph *g, const struct node *origin);
struct graph *copy_graph(const struct graph *g, bool executable);
void await_run(const struct graph *x);
void run_graph(struct task *t);

/* ---- node.c ---- */

struct node *node_of(CUgraphNode h, CUgraphNodeType type);
CUresult put_node(CUgraphNode *out, CUgraph h, const CUgraphNode *needs, size_t count, struct task *t, CUgraphNodeType type);
CUresult set_node(CUgraphExec exec, CUgraphNode h, struct task *t, CUgraphNodeType type);
CUresult add_task(CUgraphNode *out, CUgraph h, const CUgraphNode *needs, size_t count, struct task *t, CUgraphNodeType type);
CUresult set_task(CUgraphExec exec, CUgraphNode h, struct task *t, CUgraphNodeType type);
CUresult set_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p, const void *kernel);
struct task *new_call(const CUDA_HOST_NODE_PARAMS *p);
CUresult set_event(CUgraphExec x, CUgraphNode n, CUevent h, CUgraphNodeType type);

/* ---- node_tagged.c ---- */

void write_values(struct task *t);

/* ---- query.c ---- */

struct context *context_named(CUcontext ctx);
struct block *managed(CUdeviceptr at, size_t count);

#pragma GCC visibility pop

#endif
