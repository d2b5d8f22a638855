/*
 * A program with named ranges. -DIMPLEMENTATION: the range functions, which look for a tool at the first call, as a library or, with
 * -DPROGRAM, inside the program. -DTOOL: a tool, which counts. -DASKS: the program gets its functions by dlsym.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#include "mstx_gen.h"

typedef void function(void);
typedef int tables(int module, function ***table, unsigned *size);

#ifdef IMPLEMENTATION

#ifdef PROGRAM
#define PART __attribute__((visibility("hidden")))
#else
#define PART
#endif

static void first(void);
static void mark_first(const char *m, aclrtStream s) { first(), mstxMarkA(m, s); }
static mstxRangeId start_first(const char *m, aclrtStream s) { return first(), mstxRangeStartA(m, s); }
static void end_first(mstxRangeId id) { first(), mstxRangeEnd(id); }
static mstxDomainHandle_t create_first(const char *n) { return first(), mstxDomainCreateA(n); }
static mstxRangeId domain_start_first(mstxDomainHandle_t d, const char *m, aclrtStream s) { return first(), mstxDomainRangeStartA(d, m, s); }
static void domain_end_first(mstxDomainHandle_t d, mstxRangeId id) { first(), mstxDomainRangeEnd(d, id); }

static mstxMemHeapHandle_t heap_first(mstxDomainHandle_t d, const mstxMemHeapDesc_t *h) { return first(), mstxMemHeapRegister(d, h); }
static void heap_end_first(mstxDomainHandle_t d, mstxMemHeapHandle_t h) { first(), mstxMemHeapUnregister(d, h); }
static void regions_first(mstxDomainHandle_t d, const mstxMemRegionsRegisterBatch_t *r) { first(), mstxMemRegionsRegister(d, r); }
static void regions_end_first(mstxDomainHandle_t d, const mstxMemRegionsUnregisterBatch_t *r) { first(), mstxMemRegionsUnregister(d, r); }

static void (*mark)(const char *, aclrtStream) = mark_first;
static mstxRangeId (*start)(const char *, aclrtStream) = start_first;
static void (*end)(mstxRangeId) = end_first;
static mstxDomainHandle_t (*create)(const char *) = create_first;
static mstxRangeId (*domain_start)(mstxDomainHandle_t, const char *, aclrtStream) = domain_start_first;
static void (*domain_end)(mstxDomainHandle_t, mstxRangeId) = domain_end_first;

static mstxMemHeapHandle_t (*heap)(mstxDomainHandle_t, const mstxMemHeapDesc_t *) = heap_first;
static void (*heap_end)(mstxDomainHandle_t, mstxMemHeapHandle_t) = heap_end_first;
static void (*regions)(mstxDomainHandle_t, const mstxMemRegionsRegisterBatch_t *) = regions_first;
static void (*regions_end)(mstxDomainHandle_t, const mstxMemRegionsUnregisterBatch_t *) = regions_end_first;

static function **core[] = {NULL, (function **)&mark, (function **)&start, (function **)&end, NULL};
static function **domains[] = {NULL, (function **)&create, NULL, NULL, (function **)&domain_start, (function **)&domain_end, NULL};
static function **memory[] = {NULL, (function **)&heap, (function **)&heap_end, (function **)&regions, (function **)&regions_end, NULL};

static int get(int module, function ***table, unsigned *size)
{
	static function **const *const tables_of[] = {core, domains, memory};
	static const unsigned sizes[] = {sizeof core, sizeof domains, sizeof memory};
	if (module < 1 || module > 3)
		return 1;
	*table = (function **)tables_of[module - 1];
	*size = (unsigned)(sizes[module - 1] / sizeof *core) - 1;
	return 0;
}

static void first(void)
{
	static int done;
	const char *path = getenv("MSTX_INJECTION_PATH");
	void *handle = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
	int (*init)(tables *);
	if (done++)
		return;
	*(void **)&init = dlsym(handle, "InitInjectionMstx");
	if (init != NULL && init(get) == 0) {
		/* A function that no tool has replaced returns nothing. */
		if (mark == mark_first)
			mark = NULL;
		return;
	}
	mark = NULL, start = NULL, end = NULL, create = NULL, domain_start = NULL, domain_end = NULL;
	heap = NULL, heap_end = NULL, regions = NULL, regions_end = NULL;
}

PART void mstxMarkA(const char *m, aclrtStream s) { if (mark) mark(m, s); }
PART mstxRangeId mstxRangeStartA(const char *m, aclrtStream s) { return start ? start(m, s) : 0; }
PART void mstxRangeEnd(mstxRangeId id) { if (end) end(id); }
PART mstxDomainHandle_t mstxDomainCreateA(const char *n) { return create ? create(n) : NULL; }
PART mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t d, const char *m, aclrtStream s) { return domain_start ? domain_start(d, m, s) : 0; }
PART void mstxDomainRangeEnd(mstxDomainHandle_t d, mstxRangeId id) { if (domain_end) domain_end(d, id); }
PART mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t d, const mstxMemHeapDesc_t *h) { return heap ? heap(d, h) : NULL; }
PART void mstxMemHeapUnregister(mstxDomainHandle_t d, mstxMemHeapHandle_t h) { if (heap_end) heap_end(d, h); }
PART void mstxMemRegionsRegister(mstxDomainHandle_t d, const mstxMemRegionsRegisterBatch_t *r) { if (regions) regions(d, r); }
PART void mstxMemRegionsUnregister(mstxDomainHandle_t d, const mstxMemRegionsUnregisterBatch_t *r) { if (regions_end) regions_end(d, r); }

#endif

#ifdef TOOL

static int marks, starts, ends;
static void tool_mark(const char *m, aclrtStream s) { (void)m, (void)s, marks++; }
static mstxRangeId tool_start(const char *m, aclrtStream s) { (void)m, (void)s; return 100 + (mstxRangeId)starts++; }
static void tool_end(mstxRangeId id) { ends += id >= 100; }

__attribute__((destructor)) static void tell(void) { fprintf(stderr, "tool: %d %d %d\n", marks, starts, ends); }

int InitInjectionMstx(tables *get)
{
	function ***t;
	unsigned n;
	if (get(1, (function ***)&t, &n) != 0 || n < 4)
		return 1;
	*t[1] = (function *)tool_mark, *t[2] = (function *)tool_start, *t[3] = (function *)tool_end;
	return 0;
}

#endif

#ifdef PROGRAM

#ifdef ASKS
#define mstxMarkA ((void (*)(const char *, aclrtStream))dlsym(library, "mstxMarkA"))
#define mstxRangeStartA ((mstxRangeId(*)(const char *, aclrtStream))dlsym(library, "mstxRangeStartA"))
#define mstxRangeEnd ((void (*)(mstxRangeId))dlsym(library, "mstxRangeEnd"))
#define mstxDomainCreateA ((mstxDomainHandle_t(*)(const char *))dlsym(library, "mstxDomainCreateA"))
#define mstxDomainRangeStartA ((mstxRangeId(*)(mstxDomainHandle_t, const char *, aclrtStream))dlsym(library, "mstxDomainRangeStartA"))
#define mstxDomainRangeEnd ((void (*)(mstxDomainHandle_t, mstxRangeId))dlsym(library, "mstxDomainRangeEnd"))
#define mstxMemHeapRegister ((mstxMemHeapHandle_t(*)(mstxDomainHandle_t, const mstxMemHeapDesc_t *))dlsym(library, "mstxMemHeapRegister"))
#define mstxMemHeapUnregister ((void (*)(mstxDomainHandle_t, mstxMemHeapHandle_t))dlsym(library, "mstxMemHeapUnregister"))
#define mstxMemRegionsRegister ((void (*)(mstxDomainHandle_t, const mstxMemRegionsRegisterBatch_t *))dlsym(library, "mstxMemRegionsRegister"))
#define mstxMemRegionsUnregister ((void (*)(mstxDomainHandle_t, const mstxMemRegionsUnregisterBatch_t *))dlsym(library, "mstxMemRegionsUnregister"))
static void *library;
#endif

/* The program's own allocator, which allocates and frees two parts of its memory. Returns false if no tool answers. */
static int allocator(mstxDomainHandle_t d)
{
	mstxMemVirtualRangeDesc_t whole = {.ptr = (void *)0x1000, .size = 4096}, parts[2] = {{.ptr = (void *)0x1000, .size = 64}, {.ptr = (void *)0x1800, .size = 32}};
	mstxMemHeapDesc_t desc = {.typeSpecificDesc = &whole};
	void *handles[2] = {NULL, NULL};
	mstxMemHeapHandle_t h = mstxMemHeapRegister(d, &desc);
	mstxMemRegionsRegisterBatch_t out = {.heap = h, .regionCount = 2, .regionDescArray = parts, .regionHandleArrayOut = handles};
	mstxMemRegionsRegister(d, &out);
	mstxMemRegionRef_t refs[2] = {{.refType = MSTX_MEM_REGION_REF_TYPE_HANDLE, .pointer = handles[0]}, {.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = parts[1].ptr}};
	mstxMemRegionsUnregisterBatch_t back = {.refCount = 2, .refArray = refs};
	mstxMemRegionsUnregister(d, &back);
	mstxMemHeapUnregister(d, h);
	return h != NULL && handles[0] != NULL && handles[1] != NULL && handles[0] != handles[1];
}

static void *end_it(void *id)
{
	mstxRangeEnd((mstxRangeId)(uintptr_t)id);
	return NULL;
}

int main(int argc, char **argv)
{
	aclrtStream stream;
	pthread_t t;
#ifdef ASKS
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		return 1;
#endif
	(void)argc, (void)argv;
	if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream))
		return 1;
	mstxRangeId step = mstxRangeStartA("step 1", stream);
	mstxDomainHandle_t d = mstxDomainCreateA("data");
	mstxRangeId load = mstxDomainRangeStartA(d, "load", NULL);
	mstxMarkA("half", NULL);
	mstxDomainRangeEnd(d, load);
	if (pthread_create(&t, NULL, end_it, (void *)(uintptr_t)step) || pthread_join(t, NULL))
		return 1;
	mstxRangeStartA("step 2", NULL);
	if (!allocator(d))
		return 1;
	return aclFinalize();
}

#endif
