#define _GNU_SOURCE
#include "face.h"

#include "alone.h"
#include "engine.h"
#include "guest.h"
#include "include/aclsim/clock.h"
#include "include/aclsim/late.h"
#include "include/aclsim/place.h"
#include "include/aclsim/unknown.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENGINE "libaclsim.so"
#define SHIM "libacltrace.so"

/* Identifies the simulator. The vendor's library has no such symbol. */
FACE_EXPORT const int aclsim_simulated = 1;

static struct {
	uint64_t (*call)(uint64_t thread, uint32_t fn, uint64_t *words);
	uint64_t (*thread_begin)(uint64_t *told, int64_t *late, int *own, uint64_t *wish, uint32_t *doubt, volatile int *where, uint64_t *number);
	void (*thread_end)(uint64_t thread);
	int (*unknown)(uint64_t addr, uint64_t size, char *kernel, uint64_t n);
	void (*mark)(uint64_t addr, uint64_t size, int reason);
	int64_t (*clock)(uint64_t thread, int64_t work);
	int (*own_thread)(void);
} engine;

static char library[PATH_MAX]; /* path of this library */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static atomic_int opening, ready, forked;

#define TOLD (1ULL << 32)

static __thread struct thread {
	uint64_t id;         /* 0 before the first call */
	volatile int where;  /* see engine.h; a signal handler may read it at any moment */
	int visits;          /* of the engine, up to UNSURE */
	struct guest_stack stack;
	uint64_t told;       /* id of the previous call's task, with TOLD set; 0 for none */
	int64_t late;
	int own;
	uint64_t wish;       /* wanted address of the thread's next allocation, 0 for any */
	uint32_t doubt;      /* reason for marks on all that the thread's tasks write, 0 for none */
	uint64_t number;     /* 1 + the number of the call in the replayed trace, 0 outside a replay */
	int64_t last_time;   /* last result of engine_clock */
} thread;

/*
 * The number of a thread's visits that begin with a look at its signal stack. If a signal handler makes the thread's first call, the kernel takes the stack
 * away again when the handler returns.
 */
enum { UNSURE = 256 };

/* The address is computed once: in a library each access to a thread variable is a call. */
static inline struct thread *self(void)
{
	struct thread *t = &thread;

	__asm__("" : "+r"(t));
	return t;
}

/* The path is taken at load time: it may be relative, and the program may change its directory. */
__attribute__((constructor)) static void find_library(void)
{
	Dl_info info;

	if (!dladdr((const void *)&aclsim_simulated, &info) || !info.dli_fname || !realpath(info.dli_fname, library))
		library[0] = 0;
}

/* In a forked child the engine's threads are gone, and its locks may be held for ever. */
static void after_fork(void)
{
	if (atomic_load(&opening)) {
		atomic_store(&forked, 1);
		guest_in_child();
	}
}

/* Prints once that a call was refused because its thread is in the engine. The caller may be a signal handler. */
static void refused(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	static const char line[] = "aclsim: refuse call: a signal handler or a kernel made it, and its thread is inside the simulator; returns 507899; "
				   "make the call on another thread\n";

	if (!atomic_flag_test_and_set(&said) && write(STDERR_FILENO, line, sizeof line - 1) < 0)
		return;
}

/* A visit is one entry of the engine by a thread. */
struct visit {
	int from;      /* where the thread was */
	int blocked;   /* signals are blocked meanwhile, and mask is to be set again */
	sigset_t mask;
};

/* Begins a visit. Returns 0 if the engine can't be entered where the thread is. */
static inline int enter(struct thread *t, struct visit *v)
{
	v->from = t->where;
	v->blocked = 0;
	if (__builtin_expect(v->from == IN_ENGINE, 0))
		return 0;
	guest_bind();
	if (__builtin_expect(t->visits < UNSURE, 0)) {
		if (t->visits == 0) {
			if (engine.own_thread())
				return 0;
			/* Entering Go for the first time unblocks signals: the mask is set again. */
			guest_block(&v->mask);
			v->blocked = 1;
			guest_handlers();
			pthread_setspecific(thread_key, &engine);
		}
		t->visits++;
		guest_set_stack(&t->stack);
	}
	if (__builtin_expect(guest_on_signal_stack(&t->stack), 0)) {
		if (!v->blocked)
			guest_block(&v->mask); /* a signal that interrupts the engine would overwrite the handler's frames */
		v->blocked = 1;
		/* The engine can't be entered again from another stack than the one that it was left on. */
		if (v->from == IN_FUNCTION || !guest_has_room(&t->stack)) {
			guest_unblock(&v->mask);
			return 0;
		}
	}
	t->where = IN_ENGINE;
	return 1;
}

static inline void leave(struct thread *t, const struct visit *v)
{
	t->where = v->from;
	if (__builtin_expect(v->blocked, 0))
		guest_unblock(&v->mask);
}

void face_changed_stack(void)
{
	struct thread *t = self();

	if (t->visits)
		guest_set_stack(&t->stack);
}

static void end_thread(void *unused)
{
	struct thread *t = self();
	struct visit v;

	(void)unused;
	if (atomic_load(&forked) || !enter(t, &v)) /* a signal handler has ended the thread in the middle of a call */
		return;
	if (t->id)
		engine.thread_end(t->id);
	t->id = 0; /* a destructor that runs later may call again */
	leave(t, &v);
	t->visits = 0;
	guest_end_thread(&t->stack);
}

/* Marks that were set before the engine is open, which they do not open: the process may still fork. */
static struct {
	pthread_mutex_t lock;
	int count;
	struct {
		uint64_t addr, size;
		int reason;
	} marks[16];
} early = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Keeps a mark for later. Returns 0 if the engine is open or being opened, or if there are too many. */
static int keep_mark(uint64_t addr, uint64_t size, int reason)
{
	int kept;

	pthread_mutex_lock(&early.lock);
	kept = !atomic_load(&opening) && early.count < (int)(sizeof early.marks / sizeof *early.marks);
	if (kept) {
		early.marks[early.count].addr = addr;
		early.marks[early.count].size = size;
		early.marks[early.count++].reason = reason;
	}
	pthread_mutex_unlock(&early.lock);
	return kept;
}

/* Loads the engine and returns whether it can be used. */
static int load_engine(void)
{
	struct thread *t = self();
	struct visit v;
	char path[PATH_MAX + sizeof ENGINE];
	char *slash;
	void *h;

	strcpy(path, library);
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, ENGINE);
	h = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!h) {
		const char *why = dlerror();

		fprintf(stderr, "aclsim: open the simulator's engine: %s; copy " ENGINE " to the folder of libascendcl.so (`make build` builds both)\n",
			why ? why : path);
		guest_after_engine(NULL, NULL);
		return 0;
	}
	*(void **)&engine.call = dlsym(h, "aclsim_call");
	*(void **)&engine.thread_begin = dlsym(h, "aclsim_thread_begin");
	*(void **)&engine.thread_end = dlsym(h, "aclsim_thread_end");
	*(void **)&engine.unknown = dlsym(h, "aclsim_unknown");
	*(void **)&engine.mark = dlsym(h, "aclsim_mark");
	*(void **)&engine.clock = dlsym(h, "aclsim_clock");
	*(void **)&engine.own_thread = dlsym(h, "aclsim_own_thread");

	void (*crashed)(int, siginfo_t *, void *);
	*(void **)&crashed = dlsym(h, "aclsim_crashed");
	const _Atomic uint64_t *kept = dlsym(h, "aclsim_kept");
	if (!engine.call || !engine.thread_begin || !engine.thread_end || !engine.unknown || !engine.mark || !engine.clock || !engine.own_thread ||
	    !crashed || !kept) {
		fprintf(stderr, "aclsim: open the simulator's engine %s: it is of another version; use libascendcl.so and " ENGINE " of the same build\n", path);
		return 0;
	}
	if (pthread_key_create(&thread_key, end_thread)) {
		fprintf(stderr, "aclsim: start the simulator: the program uses all keys of thread-specific data; all calls fail\n");
		return 0;
	}
	if (enter(t, &v)) {
		engine.clock(0, 0); /* returns when Go has set its signal handlers */
		pthread_mutex_lock(&early.lock);
		for (int i = 0; i < early.count; i++)
			engine.mark(early.marks[i].addr, early.marks[i].size, early.marks[i].reason);
		pthread_mutex_unlock(&early.lock);
		leave(t, &v);
	}
	guest_after_engine(crashed, kept);
	return 1;
}

/* Reports whether acltrace's shim is in this process, in any namespace of the loader. */
static int has_shim(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t size = 0;
	int found = !maps; /* without /proc nobody can say */

	while (!found && getline(&line, &size, maps) > 0)
		found = strstr(line, "/" SHIM) != NULL;
	free(line);
	if (maps)
		fclose(maps);
	return found;
}

/*
 * Leaves a note for the recorder whose session this process has inherited without the shim, for example because a parent has cleared LD_PRELOAD. The
 * recorder looks at processes from outside only now and then, and misses short ones. It reads the note in record/watch. The folder of a shared session
 * outlives its recordings, and takes no notes.
 */
static void note_bare(void)
{
	const char *session = getenv("ACLTRACE_SESSION");
	char path[PATH_MAX], exe[PATH_MAX];
	ssize_t n;
	int fd;

	if (!session || has_shim() || (n = readlink("/proc/self/exe", exe, sizeof exe)) < 0)
		return;
	if (snprintf(path, sizeof path, "%s/shared", session) >= (int)sizeof path || !access(path, F_OK) ||
	    snprintf(path, sizeof path, "%s/bare.%d", session, (int)getpid()) >= (int)sizeof path)
		return;
	if ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
		return; /* the recorder has ended, or is another user's */
	dprintf(fd, "%.*s\n%s", (int)n, exe, library);
	close(fd);
}

/* A program may load the runtime with RTLD_LOCAL, as Python does with extensions. Wrappers in LD_PRELOAD look up its functions by RTLD_NEXT,
 * which searches the global scope only. A namespace that dlmopen made has none: the loader crashes when it is extended. The library stays
 * loaded, as its engine does. */
static void join_global_scope(void)
{
	void *h = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	Lmid_t namespace;

	if (h && !dlinfo(h, RTLD_DI_LMID, &namespace) && namespace == LM_ID_BASE)
		dlopen(library, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

static void open_once(void)
{
	pthread_atfork(NULL, NULL, after_fork);
	join_global_scope();
	atomic_store(&opening, 1);
	guest_bind();
	guest_before_engine();
	note_bare();
	atomic_store(&ready, load_engine());
}

/* Opens the engine at the first call, and returns whether it can be used. A signal handler must not wait here for the thread that it has
 * interrupted, and the engine's threads inherit the mask: no timer's signal is to meet a goroutine's stack. Go unblocks SIGURG, which it uses. */
static int open_engine(void)
{
	sigset_t mask;

	if (atomic_load(&ready))
		return 1;
	guest_block(&mask);
	pthread_once(&once, open_once);
	guest_unblock(&mask);
	return atomic_load(&ready);
}

static int is_set(const char *name, const char *value)
{
	const char *s = getenv(name);

	return s && (value ? !strcmp(s, value) : *s != 0);
}

int face_is_alone(void)
{
	return !atomic_load_explicit(&opening, memory_order_relaxed) && !is_set("ACLSIM_FAULTS", NULL) && !is_set("ACLSIM_ANSWERS", "documents");
}

/* Makes the thread known to the engine, and returns whether there is one. */
static int begin_thread(struct thread *t)
{
	struct visit v;

	if (!open_engine())
		return 0;
	if (!enter(t, &v))
		return 1;
	t->id = engine.thread_begin(&t->told, &t->late, &t->own, &t->wish, &t->doubt, &t->where, &t->number);
	leave(t, &v);
	return 1;
}

static void in_child(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		fprintf(stderr, "aclsim: process %d was forked after its parent had called the runtime: its calls fail; fork before the first call\n",
			(int)getpid());
}

/* Calls the engine. If it can't be called, the result is the given one: for a call without it, or in a forked child and inside it. */
static inline uint64_t call(uint32_t fn, uint64_t *words, uint64_t without, uint64_t child)
{
	struct thread *t = self();
	struct visit v;
	uint64_t r;

	if (__builtin_expect(atomic_load_explicit(&forked, memory_order_relaxed), 0)) {
		in_child();
		return child;
	}
	if (__builtin_expect(!t->id && t->where != IN_ENGINE && !begin_thread(t), 0))
		return without;
	if (__builtin_expect(!enter(t, &v), 0)) {
		refused();
		return child;
	}
	t->told = 0;
	r = engine.call(t->id, fn, words);
	leave(t, &v);
	return r;
}

uint64_t face_call(uint32_t fn, uint64_t *words)
{
	return call(fn, words, ACL_ERROR_INTERNAL_ERROR, ACL_ERROR_RT_DRV_INTERNAL_ERROR);
}

/* Recorders call this after every task. A call of the engine would cost a fifth of a launch. */
int face_last_task(uint32_t *id)
{
	if (!(self()->told & TOLD) || id == NULL || atomic_load_explicit(&forked, memory_order_relaxed))
		return 0;
	*id = (uint32_t)self()->told;
	return 1;
}

uint64_t face_ask(uint32_t fn, uint64_t *words)
{
	return call(fn, words, 0, 0);
}

FACE_EXPORT void aclsim_late(int64_t ns)
{
	self()->late = ns;
}

FACE_EXPORT void aclsim_number(uint64_t call)
{
	self()->number = call + 1;
}

static int64_t engine_clock(int64_t work)
{
	struct thread *t = self();
	struct visit v;

	if (!atomic_load(&ready) || atomic_load(&forked) || !enter(t, &v))
		return t->last_time;
	t->last_time = engine.clock(t->id, work);
	leave(t, &v);
	return t->last_time;
}

FACE_EXPORT int64_t aclsim_now(void) { return engine_clock(0); }

FACE_EXPORT void aclsim_work(int64_t ns) { engine_clock(ns); }

FACE_EXPORT void aclsim_own(int on)
{
	self()->own = on;
}

FACE_EXPORT void aclsim_place(uint64_t addr)
{
	self()->wish = addr;
}

FACE_EXPORT int aclsim_unknown(const void *addr, size_t size, char *kernel, size_t n)
{
	struct thread *t = self();
	struct visit v;
	int r;

	if (!atomic_load(&ready) || atomic_load(&forked) || !enter(t, &v))
		return 0;
	r = engine.unknown((uint64_t)(uintptr_t)addr, size, kernel, n);
	leave(t, &v);
	return r;
}

FACE_EXPORT void aclsim_mark(const void *addr, size_t size, int reason)
{
	struct thread *t = self();
	struct visit v;

	if (atomic_load(&forked))
		return;
	if (addr == NULL) {
		t->doubt = (uint32_t)reason;
		return;
	}
	if (!atomic_load(&ready) && keep_mark((uint64_t)(uintptr_t)addr, size, reason))
		return;
	if (!open_engine() || !enter(t, &v))
		return;
	engine.mark((uint64_t)(uintptr_t)addr, size, reason);
	leave(t, &v);
}

/* Prints once that a function is not simulated. */
static void say_unsupported(const char *name, const char *does)
{
	enum { MAX_NAMES = 1024 };
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static const char *said[MAX_NAMES]; /* the names are literals of the exports: one address each */
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < MAX_NAMES && said[i] && said[i] != name; i++)
		;
	if (i < MAX_NAMES && !said[i]) {
		said[i] = name;
		fprintf(stderr, "aclsim: %s is not simulated and %s\n", name, does);
	}
	pthread_mutex_unlock(&lock);
}

#define TEXT(x) #x
#define DIGITS(x) TEXT(x)

aclError face_unsupported(const char *name)
{
	say_unsupported(name, "returns " DIGITS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT));
	return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

void face_does_nothing(const char *name)
{
	say_unsupported(name, "does nothing");
}
