/*
 * The player: runs a plan against a runtime library, one thread for each captured one, and a process of its own for each
 * captured one where there are several. It decides nothing; plan.h says what the instructions are and package replay why
 * they are there. What happened goes into a shared mapping, so that it is known even when the runtime takes this process
 * down.
 *
 *	acltrace-player [--sandbox] [--partial] [--read PATH]... PLAN LIBRARY RESULTS
 *
 * --sandbox plays the plan in the sandbox of sandbox.c, where it may read and write in the folder of RESULTS (without, of PLAN), and read
 * the library's folder and each --read PATH. The player refuses a kernel that lacks a layer, unless --partial allows that.
 * "acltrace-player --sandbox" alone prints the layers that the kernel has, as a number.
 *
 * LIBRARY "null" is none: every function returns 0 at once, for a plan that expects no more.
 *
 * Without RESULTS it judges by itself: it runs the plan in a child and prints the verdict, by the rule of package verify. Exit
 * codes: 0 identical, 3 different, 4 unproved, 1 the plan could not be run or did not come to its end.
 *
 * A plan is trusted once its checksums are right.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* everywhere */
#endif

#include "call_gen.h"
#include "place_gen.h"
#include "plan.h"
#include "sandbox.h"

/* A function of the runtime, and how it is called. */
struct target {
	void *fn;
	uint32_t how;
};

/* Constant once the threads run, but for what the pointers lead to. */
static struct {
	const struct plan_header *plan;
	uint8_t *index; /* of the plan */
	uint8_t *data;  /* a private copy */
	const char *names;
	const struct plan_function *functions;
	const struct plan_process *processes;
	const struct plan_thread *threads;
	const struct plan_instruction *instructions;
	const struct plan_rest *rest;
	const struct plan_operand *operands;
	const struct plan_reloc *relocs;
	struct target *targets; /* by number of the function */
	uint64_t first_threads; /* those of processes that are there from the beginning */
	bool forked; /* this process was made by OP_FORK */
	const char *own; /* in the sandbox, the folder that it may write to */
	struct result_header *result;
	struct result_thread *progress;
	struct result_instruction *results;
	struct result_detail *details;
	char (*kernels)[KERNEL_NAME];
	uint64_t *slots;
	double counts_per_ns;
	int64_t spin_ns; /* before a call is due: sleeps are not that exact */
	void (*late)(int64_t ns); /* of a simulator: by how much the thread is, so that its device need not be; NULL elsewhere */
	void (*mark)(const void *addr, size_t size, int reason); /* of a simulator, as unknown */
	void (*place)(uint64_t addr); /* of a simulator: see aclsim/place.h; NULL elsewhere */
	int (*unknown)(const void *addr, size_t size, char *kernel, size_t n); /* of a simulator: see aclsim/unknown.h; NULL elsewhere */
} P;

static uint64_t nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return nanoseconds();
#endif
}

/* Both clocks at one moment: of some tries the one that took least, so that it matters little when the thread is preempted. */
static void read_clocks(uint64_t *count, uint64_t *ns)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 20; i++) {
		uint64_t before = counter(), n = nanoseconds(), after = counter();
		if (after - before < least) {
			least = after - before;
			*count = before + least / 2;
			*ns = n;
		}
	}
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Ends the process with a reason that the results hold. */
__attribute__((format(printf, 1, 2), noreturn)) static void refuse(const char *format, ...)
{
	va_list a;
	va_start(a, format);
	if (P.result != NULL) {
		vsnprintf(P.result->error, sizeof P.result->error, format, a);
		__atomic_store_n(&P.result->status, RUN_REFUSED, __ATOMIC_RELEASE);
	} else {
		vfprintf(stderr, format, a);
		fputc('\n', stderr);
	}
	_exit(1);
}

static uint32_t crc_table[8][256];

static void crc_init(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
		crc_table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 255];
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_fast(uint32_t crc, const uint8_t *p, uint64_t n)
{
	uint64_t c = ~crc;
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t w;
		memcpy(&w, p, 8);
		c = __builtin_ia32_crc32di(c, w);
	}
	while (n--)
		c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
	return ~(uint32_t)c;
}
#endif

static uint32_t crc32c(uint32_t crc, const uint8_t *p, uint64_t n)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return crc32c_fast(crc, p, n);
#endif
	crc = ~crc;
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t w;
		memcpy(&w, p, 8);
		w ^= crc;
		crc = 0;
		for (int k = 0; k < 8; k++)
			crc ^= crc_table[7 - k][w >> 8 * k & 255];
	}
	while (n--)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 255];
	return ~crc;
}

static int open_file(const char *path, int flags, uint64_t *size)
{
	int fd = open(path, flags | O_CLOEXEC);
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (end < 0)
		refuse("%s: %s", path, strerror(errno));
	*size = (uint64_t)end;
	return fd;
}

static void *map(const char *path, int fd, uint64_t offset, uint64_t size, int prot, int flags)
{
	void *p = size ? mmap(NULL, size, prot, flags, fd, (off_t)offset) : MAP_FAILED;
	if (p == MAP_FAILED)
		refuse("%s: can't be mapped: %s", path, size ? strerror(errno) : "it is empty");
	return p;
}

/*
 * The data is a private copy: the player writes its relocations and spoils. In a long plan it gives back the pages of the copy that all threads
 * of the process have passed, so that the copy does not grow with the plan. A page stays if a relocation in it outlives its call, since
 * the runtime may still read that. A page that is given back has its content of the file again.
 */
enum { WINDOW = 64 << 20, WINDOW_STEP = 4 << 20, PAGE = 4096 };

static struct {
	uint8_t *lasting;    /* by page: 1 if it stays; NULL in a short plan, which keeps all */
	uint64_t *passed;    /* by thread: offset of the relocation that it stored last */
	uint64_t first, end; /* threads of this process */
	uint64_t released;   /* the pages before this offset were given back */
} window;

static bool long_plan(void) { return P.plan->data > WINDOW; }

static void release_data(void)
{
	uint64_t to = UINT64_MAX, from = __atomic_load_n(&window.released, __ATOMIC_RELAXED);
	for (uint64_t t = window.first; t < window.end; t++) {
		uint64_t passed = __atomic_load_n(&window.passed[t], __ATOMIC_ACQUIRE);
		to = passed < to ? passed : to;
	}
	to = to < WINDOW ? 0 : (to - WINDOW) / PAGE;
	do {
		if (from >= to)
			return;
	} while (!__atomic_compare_exchange_n(&window.released, &from, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	for (uint64_t end; from < to; from = end) {
		bool lasting = window.lasting[from] != 0;
		for (end = from + 1; end < to && (window.lasting[end] != 0) == lasting; end++)
			;
		if (!lasting)
			madvise(P.data + from * PAGE, (end - from) * PAGE, MADV_DONTNEED);
	}
}

/* Notes the relocations that an instruction has stored. They end with the call if spoils cover them. */
static __attribute__((noinline)) void pass_data(uint64_t thread, const struct plan_instruction *in)
{
	const struct plan_reloc *l = &P.relocs[in->relocs], *spoils = in->flags & INST_SPOIL ? l + in->relocs_count : NULL;
	for (uint32_t k = 0; k < in->relocs_count; k++) {
		bool covered = false;
		for (const struct plan_reloc *s = spoils; s != NULL && !covered; s = s->slot ? s + 1 : NULL)
			covered = l[k].at - s->at < s->addend;
		if (!covered)
			window.lasting[l[k].at / PAGE] = 1;
	}
	uint64_t before = window.passed[thread];
	if (l->at <= before)
		return; /* data of an earlier call, which is compared now */
	__atomic_store_n(&window.passed[thread], l->at, __ATOMIC_RELEASE);
	if (l->at / WINDOW_STEP != before / WINDOW_STEP)
		release_data();
}

static void *zeroed(uint64_t n, size_t size)
{
	void *p = calloc(n, size);
	if (p == NULL)
		refuse("no memory for %llu bytes", (unsigned long long)(n * size));
	return p;
}

/* Prepares the data for the threads of this process. */
static void open_window(const struct plan_process *p)
{
	window.first = p->first;
	window.end = p->first + p->count;
	if (!long_plan() || window.lasting != NULL)
		return;
	window.lasting = zeroed(P.plan->data / PAGE + 1, 1);
	window.passed = zeroed(P.plan->threads.count, sizeof *window.passed);
}

static const void *table(const struct plan_table *t) { return P.index + t->offset; }

/* Maps the extents of a list one behind the other. Those of a long plan are read into memory when they are used. */
static void *map_list(const char *path, int fd, const struct plan_table *list, int prot, int flags)
{
	const struct plan_extent *e = table(list);
	uint64_t size = 0;
	for (uint64_t i = 0; i < list->count; i++)
		size += e[i].size;
	uint8_t *all = size ? map(path, -1, 0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE) : NULL, *at = all;
	for (uint64_t i = 0; i < list->count; at += e[i++].size) {
		if (e[i].size > P.plan->index || e[i].offset > P.plan->index - e[i].size)
			refuse("%s: a part of it is outside", path);
		if (mmap(at, e[i].size, prot, flags | MAP_FIXED | (flags & MAP_SHARED && !long_plan() ? MAP_POPULATE : 0), fd, (off_t)e[i].offset) == MAP_FAILED)
			refuse("%s: can't be mapped: %s", path, strerror(errno));
		if (crc32c(0, at, e[i].size) != e[i].checksum)
			refuse("%s: checksum of the plan is wrong", path);
		if (long_plan())
			madvise(at, e[i].size, MADV_DONTNEED);
	}
	return all;
}

static void open_plan(const char *path, const char *results)
{
	uint64_t size, result_size;
	int fd = open_file(path, O_RDONLY, &size), result_fd = -1;
	const struct plan_header *h = map(path, fd, 0, size < PLAN_HEADER ? size : PLAN_HEADER, PROT_READ, MAP_PRIVATE);
	P.plan = h;
	if (size < PLAN_HEADER || memcmp(h->magic, PLAN_MAGIC, 8) != 0)
		refuse("%s: not a plan", path);
	if (h->version != PLAN_VERSION)
		refuse("%s: plan of version %u, this player knows %u", path, h->version, PLAN_VERSION);
	if (results != NULL) {
		result_fd = open_file(results, O_RDWR, &result_size);
	} else {
		results = "results";
		result_size = h->result_size;
	}
	/* What is left to do here costs no page fault while the program runs. A mapping that is shared is made ready for reading only. */
	uint8_t *r = map(results, result_fd, 0, result_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | (result_fd < 0 ? MAP_ANONYMOUS : 0));
	P.result = (struct result_header *)r;
	for (uint64_t i = 0; i < result_size; i += 4096)
		((volatile uint8_t *)r)[i] = 0;
	crc_init();
	uint8_t page[PLAN_HEADER];
	memcpy(page, h, sizeof page);
	memset(page + offsetof(struct plan_header, checksum), 0, 4);
	if (h->size != size || h->index > size || h->index % 4096 != 0)
		refuse("%s: it is cut", path);
	P.index = map(path, fd, h->index, size - h->index, PROT_READ, MAP_PRIVATE);
	if (crc32c(crc32c(0, P.index, size - h->index), page, sizeof page) != h->checksum)
		refuse("%s: checksum of the plan is wrong", path);
	if (result_size != h->result_size)
		refuse("%s: %llu bytes for results, the plan needs %llu", results, (unsigned long long)result_size, (unsigned long long)h->result_size);
	P.names = table(&h->names);
	P.functions = table(&h->functions);
	P.processes = table(&h->processes);
	P.threads = table(&h->threads);
	P.data = map_list(path, fd, &h->data_extents, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	P.instructions = map_list(path, fd, &h->instructions_extents, PROT_READ, MAP_SHARED);
	P.rest = map_list(path, fd, &h->rest_extents, PROT_READ, MAP_SHARED);
	P.operands = map_list(path, fd, &h->operands_extents, PROT_READ, MAP_SHARED);
	P.relocs = map_list(path, fd, &h->relocs_extents, PROT_READ, MAP_SHARED);
	close(fd);
	if (result_fd >= 0)
		close(result_fd);
	P.progress = (struct result_thread *)(r + h->result_threads);
	P.slots = (uint64_t *)(r + h->result_slots);
	P.results = (struct result_instruction *)(r + h->result_instructions);
	P.details = (struct result_detail *)(r + h->result_details);
	P.kernels = (char (*)[KERNEL_NAME])(r + h->result_kernels);
	for (uint64_t i = 0; i < h->relocs_count && !long_plan(); i++) {
		volatile uint8_t *data = P.data + P.relocs[i].at;
		*data = *data;
	}
	memcpy(P.result->magic, RESULT_MAGIC, 8);
	P.result->version = PLAN_VERSION;
}

/* Stands for functions that do nothing: those of the program's that the runtime may call, and all of a library that is "null". */
static uint64_t nothing(void) { return 0; }

static void *placed(void *library, const char *name, void *real)
{
	for (place_function *const *place = places; *place; place++)
		real = (*place)(library, name, real);
	return real;
}

/* Finds every function of the plan, or names those that the library lacks. */
static void open_library(const char *path)
{
	const bool null = strcmp(path, "null") == 0;
	void *lib = null ? NULL : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (lib == NULL && !null)
		refuse("%s", dlerror());
	uint64_t n = P.plan->functions.count;
	P.targets = calloc(n ? n : 1, sizeof *P.targets);
	if (P.targets == NULL)
		refuse("no memory for %llu functions", (unsigned long long)n);
	char missing[3072] = "";
	size_t used = 0;
	for (uint64_t i = 0; i < n; i++) {
		const char *name = P.names + P.functions[i].name;
		P.targets[i] = (struct target){null ? (void *)&nothing : placed(lib, name, dlsym(lib, name)), P.functions[i].how};
		if (P.targets[i].fn == NULL && used + strlen(name) + 2 < sizeof missing)
			used += (size_t)sprintf(missing + used, "\n%s", name);
	}
	if (used)
		refuse("%.512s lacks functions of the plan%s", path, missing);
	if (null)
		return;
	if (P.plan->paced)
		*(void **)&P.late = dlsym(lib, "aclsim_late");
	*(void **)&P.place = dlsym(lib, "aclsim_place");
	*(void **)&P.unknown = dlsym(lib, "aclsim_unknown");
	*(void **)&P.mark = dlsym(lib, "aclsim_mark");
	if (P.unknown)
		__atomic_store_n(&P.result->reports, 1, __ATOMIC_RELAXED);
}

static void pause_ns(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	nanosleep(&t, NULL);
}

static inline const struct plan_rest *rest(const struct plan_instruction *in) { return &P.rest[in - P.instructions]; }

static __thread uint32_t my_number; /* 1 + that of the thread's program */

/* What the thread plays inside the function that the call it is in will run. */
static __thread struct {
	uint64_t from, to;
	bool played;
} enclosed;

static bool play_some(uint64_t thread, uint64_t i, uint64_t end, uint64_t progress);

/* Has what a call encloses, by its number of instructions, played when the call runs a function of the program's. */
static uint64_t enclose(const struct plan_instruction *in, uint64_t i)
{
	uint64_t n = rest(in)->width ? 0 : rest(in)->len;
	enclosed.from = i + 1;
	enclosed.to = i + 1 + n;
	enclosed.played = false;
	return n;
}

static void play_enclosed(void)
{
	uint64_t from = enclosed.from, to = enclosed.to;
	struct result_thread *me = my_number ? &P.progress[my_number - 1] : NULL;
	if (me == NULL || from >= to)
		return;
	enclosed.from = to;
	/* Who waits for the last of them waits for the call too. */
	bool ended = play_some(my_number - 1, from, to, to - 1);
	__atomic_store_n(&me->inside, from, __ATOMIC_RELAXED);
	enclosed.to = enclosed.from = to;
	enclosed.played = ended;
}

/* Stands for the program's own functions that a stream calls: makes the calls that they made, and takes as long as they did. */
static void host_function(void *arg)
{
	uint64_t start = nanoseconds();
	struct plan_runs *runs = arg;
	play_enclosed();
	if (runs == NULL)
		return;
	uint64_t run = __atomic_fetch_add(&runs->next, 1, __ATOMIC_RELAXED), end = start + (run < runs->count ? runs->ns[run] : 0);
	for (uint64_t now; (now = nanoseconds()) < end;) {
		if (end - now > 200000)
			pause_ns(end - now - 100000);
		else
			relax();
	}
}

static void stream_function(void *stream, int status, void *arg)
{
	(void)stream, (void)status;
	host_function(arg);
}

/* Memory of zeros; what is shared has the same address in all processes. */
static uint64_t zeros(uint64_t n, int flags)
{
	void *p = mmap(NULL, n ? n : 1, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		refuse("no %llu bytes of scratch memory: %s", (unsigned long long)n, strerror(errno));
	return (uint64_t)(uintptr_t)p;
}

static void make_slots(void)
{
	const struct plan_header *h = P.plan;
	P.slots[SLOT_DATA] = (uint64_t)(uintptr_t)P.data;
	P.slots[SLOT_SCRATCH] = zeros(h->scratch, MAP_PRIVATE);
	P.slots[SLOT_SLOTS] = (uint64_t)(uintptr_t)P.slots;
	P.slots[SLOT_SHARED] = zeros(h->shared, MAP_SHARED);
	P.slots[SLOT_HOST_FUNCTION] = (uint64_t)(uintptr_t)&host_function;
	P.slots[SLOT_STREAM_FUNCTION] = (uint64_t)(uintptr_t)&stream_function;
	P.slots[SLOT_CALLBACK] = (uint64_t)(uintptr_t)&nothing;
	P.slots[SLOT_POISON] = P.result->poison;
	P.slots[SLOT_ZEROS] = zeros(h->zeros, MAP_PRIVATE);
	for (uint64_t t = 0; t < h->threads.count; t++)
		P.slots[SLOT_THREADS + t] = P.slots[SLOT_SCRATCH] + P.threads[t].scratch;
}

static inline uint64_t operand(uint64_t i) { return plan_value(&P.operands[i], P.slots); }

static inline bool stopped(void) { return __atomic_load_n(&P.result->stopped, __ATOMIC_RELAXED) != 0; }

/* Spins, then sleeps, until another thread has come far enough. */
static void wait_for(const struct plan_instruction *in)
{
	const uint64_t *progress = &P.progress[in->fn].progress;
	for (uint64_t n = 0; __atomic_load_n(progress, __ATOMIC_ACQUIRE) < in->want && !stopped(); n++) {
		if (n < 2000)
			relax();
		else if (n < 2100)
			sched_yield();
		else
			pause_ns(20000);
	}
}

static void store(const struct plan_instruction *in)
{
	uint8_t *to = (uint8_t *)(uintptr_t)operand(in->operands);
	const uint8_t *from = (const uint8_t *)(uintptr_t)operand(in->operands + 1);
	uint64_t pitch = operand(in->operands + 2);
	uint64_t len = rest(in)->len, width = rest(in)->width;
	for (uint64_t done = 0; done < len; done += width, to += pitch)
		memcpy(to, from + done, width);
}

static double number(uint32_t type, const uint8_t *p)
{
	uint16_t h;
	uint32_t w;
	float f;
	double d;
	switch (type) {
	case TYPE_F16: {
		memcpy(&h, p, 2);
		uint32_t e = h >> 10 & 31, m = h & 1023;
		if (e == 0) {
			d = m * 0x1p-24;
			return h >> 15 ? -d : d;
		}
		w = (uint32_t)(h >> 15) << 31 | (e == 31 ? 255 : e + 112) << 23 | m << 13;
		break;
	}
	case TYPE_BF16:
		memcpy(&h, p, 2);
		w = (uint32_t)h << 16;
		break;
	case TYPE_F32:
		memcpy(&w, p, 4);
		break;
	default:
		memcpy(&d, p, 8);
		return d;
	}
	memcpy(&f, &w, 4);
	return f;
}

/* Infinities are near nothing but themselves: their distance is infinite, or no number. */
static bool near(const uint8_t *got, const uint8_t *want)
{
	double a = number(P.plan->tolerance, got), b = number(P.plan->tolerance, want);
	double distance = a < b ? b - a : a - b;
	return a == b || (a != a && b != b) || (distance - distance == 0 && distance <= P.plan->relative * (b < 0 ? -b : b) + P.plan->absolute);
}

/* Takes note of the bytes of one row that differ, where that is not tolerated. */
static void compare(const struct plan_instruction *in, struct result_instruction *r, const uint8_t *got, const uint8_t *want, uint64_t done)
{
	static const uint8_t size[] = {0, 2, 2, 4, 8};
	const bool output = in->want != CHECK_RESULT;
	uint64_t unit = output ? 0 : size[P.plan->tolerance], width = rest(in)->width;
	for (uint64_t i = 0; i < width; i++) {
		if (got[i] == want[i])
			continue;
		uint64_t at = unit ? i - i % unit : i;
		if (unit && at + unit <= width && near(got + at, want + at)) {
			r->flags |= RESULT_TOLERATED;
			i = at + unit - 1;
			continue;
		}
		if (r->detail == 0) {
			r->flags |= RESULT_DIFFERS;
			r->detail = __atomic_add_fetch(&P.result->details, 1, __ATOMIC_RELAXED);
			struct result_detail *d = &P.details[r->detail - 1];
			uint64_t from = output && width <= 8 ? 0 : i; /* a number is shown as a whole */
			d->first = done + from;
			d->shown = width - from < 16 ? width - from : 16;
			memcpy(d->got, got + from, d->shown);
			memcpy(d->want, want + from, d->shown);
		}
		P.details[r->detail - 1].count++;
	}
}

/* Returns 1 + the number of a kernel's name in the results, 0 if there is no room for it. */
static uint32_t kernel_number(const char *name)
{
	uint32_t *lock = &P.result->kernels_lock, i;
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		relax();
	for (i = 0; i < P.result->kernels && strcmp(P.kernels[i], name) != 0; i++)
		;
	if (i < KERNEL_NAMES && i == P.result->kernels) {
		strcpy(P.kernels[i], name);
		P.result->kernels++;
	}
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	return i < KERNEL_NAMES ? i + 1 : 0;
}

/* Asks the library whether it vouches for the bytes of a result, and stores the answer in r->flags. */
static void vouch(const uint8_t *bytes, uint64_t size, struct result_instruction *r)
{
	char kernel[KERNEL_NAME] = "";
	int answer = P.unknown(bytes, size, kernel, sizeof kernel);
	if (answer == 0 || r->flags >> RESULT_REASON_SHIFT)
		return;
	uint32_t reason = answer == 1 ? REASON_KERNEL : answer == 2 ? REASON_UNINITIALISED : answer == 3 ? REASON_RACE : answer == 4 ? REASON_CRASH : (uint32_t)answer & 0xff;
	r->flags |= reason << RESULT_REASON_SHIFT | (reason == REASON_KERNEL ? kernel_number(kernel) << RESULT_KERNEL_SHIFT : 0);
}

/* Whether the program may have stored all bytes of a row that differ. */
static bool excused(const struct plan_instruction *in, const uint8_t *got, const uint8_t *want, uint64_t done)
{
	if (in->want != CHECK_RESULT || !(in->flags & (INST_EXCUSED | INST_SINCE)))
		return false;
	if (in->flags & INST_EXCUSED)
		return true;
	enum { STORED_UNIT = 4 }; /* a task changes a number as a whole, though some of its bytes may come out as they were */
	const uint8_t *before = (const uint8_t *)(uintptr_t)operand(in->operands + 3) + done;
	for (uint64_t i = 0, n; i < rest(in)->width; i += n) {
		n = rest(in)->width - i < STORED_UNIT ? rest(in)->width - i : STORED_UNIT;
		if (memcmp(got + i, want + i, n) != 0 && memcmp(got + i, before + i, n) != 0)
			return false;
	}
	return true;
}

static void check(const struct plan_instruction *in, struct result_instruction *r)
{
	const uint8_t *got = (const uint8_t *)(uintptr_t)operand(in->operands);
	const uint8_t *want = (const uint8_t *)(uintptr_t)operand(in->operands + 1);
	uint64_t pitch = operand(in->operands + 2), len = rest(in)->len, width = rest(in)->width;
	if (in->flags & INST_UNMARKED && P.mark == NULL)
		r->flags |= (uint32_t)in->bits << RESULT_REASON_SHIFT;
	const bool asks = P.unknown != NULL && in->want == CHECK_RESULT;
	for (uint64_t done = 0; done < len; done += width, got += pitch) {
		if (asks)
			vouch(got, width, r);
		if (memcmp(got, want + done, width) == 0)
			continue;
		if (excused(in, got, want + done, done)) {
			if (r->flags >> RESULT_REASON_SHIFT == 0)
				r->flags |= REASON_MANAGED << RESULT_REASON_SHIFT;
			continue;
		}
		compare(in, r, got, want + done, done);
		/* FNV-1a over the rows that differ, and where they are: tells one wrong result from another. */
		uint64_t h = (r->ret ? r->ret : 0xcbf29ce484222325u) ^ done;
		for (uint64_t i = 0; i < width; i++)
			h = (h ^ got[i]) * 0x100000001b3u;
		r->ret = h;
	}
}

/*
 * Waits until a time of the plan has come, and returns the counter then. Times are those of the whole run, so that a call
 * that takes longer than it did delays only those that it overlaps. Sleeping is too coarse for the last microseconds.
 */
static uint64_t keep_time(uint64_t at)
{
	const int64_t spin = P.spin_ns;
	uint64_t now, due = P.result->origin + (uint64_t)((double)at * P.counts_per_ns);
	while ((int64_t)(due - (now = counter())) > 0) {
		int64_t left = (int64_t)((double)(due - now) / P.counts_per_ns);
		if (left > 2 * spin && !stopped())
			pause_ns((uint64_t)(left - spin < 100000000 ? left - spin : 100000000));
		else
			relax();
	}
	if (P.late != NULL)
		P.late((int64_t)((double)(now - due) / P.counts_per_ns));
	return now;
}

/* Asks until the answer is the one that was recorded, or is another error; or, where it is no more than an error, until there is none. */
static __attribute__((noinline)) uint64_t until(const struct plan_instruction *in, struct result_instruction *r, const struct target *f, uint64_t ret)
{
	const uint64_t width = rest(in)->width;
	const void *out = width ? (const void *)(uintptr_t)operand(in->operands + in->words) : NULL;
	uint64_t deadline = nanoseconds() + P.plan->until_ns;
	for (;;) {
		uint64_t v = 0;
		bool other = (uint32_t)ret != (uint32_t)in->want;
		if (width)
			memcpy(&v, out, width);
		if (width ? v == rest(in)->len || other : !other)
			return ret;
		if (nanoseconds() > deadline) {
			r->flags |= RESULT_TIMEOUT | RESULT_DIFFERS;
			return ret;
		}
		sched_yield();
		ret = player_call(f->how, f->fn, P.operands + in->operands, P.slots);
	}
}

static void store_relocs(const struct plan_instruction *in)
{
	for (uint32_t k = 0; k < in->relocs_count; k++) {
		const struct plan_reloc *l = &P.relocs[in->relocs + k];
		uint64_t v = P.slots[l->slot] + l->addend;
		memcpy(P.data + l->at, &v, l->size);
	}
}

/*
 * Overwrites the arguments of a call that has returned: a runtime that still reads them has not kept them as it must. They get those of the
 * thread's previous call if these have the same size and differ. Such arguments are valid and wrong, as in programs that prepare all calls in
 * one place. A kernel that fails for its arguments is not always noticed: not every program waits for its stream.
 */
static void spoil(const struct plan_instruction *in)
{
	typedef uint64_t word __attribute__((may_alias));
	static __thread struct {
		uint64_t size;
		word words[32];
	} previous;
	const struct plan_reloc *l = &P.relocs[in->relocs + in->relocs_count];
	do {
		word *args = (word *)(void *)(P.data + l->at), differ = 0;
		uint64_t size = l->addend, n = size / sizeof(word);
		if (size % sizeof(word) == 0 && n <= sizeof previous.words / sizeof(word)) {
			for (uint64_t i = 0; i < n; i++) {
				word was = previous.words[i];
				differ |= args[i] ^ was;
				previous.words[i] = args[i];
				args[i] = was;
			}
			if (size != previous.size)
				differ = 0;
			previous.size = size;
		}
		if (!differ)
			memset(args, SPOILED, size);
	} while (l++->slot);
}

/* What programs hand over in messages is taken from the other process, which lets all do so. */
static void take(const struct plan_instruction *in)
{
	long pid = (long)operand(in->operands + 1), number = (long)operand(in->operands + 2);
	long of = syscall(SYS_pidfd_open, pid, 0), fd = of < 0 ? -1 : syscall(SYS_pidfd_getfd, of, number, 0);
	if (fd < 0)
		refuse("descriptor %ld of process %ld can't be taken from it: %s", number, pid, strerror(errno));
	close((int)of);
	*(uint64_t *)(uintptr_t)operand(in->operands) = (uint64_t)fd;
}

static void fork_process(uint32_t process);

/* All that is not a call. Returns whether the thread goes on. */
static __attribute__((noinline)) bool other(const struct plan_instruction *in, struct result_instruction *r)
{
	switch (in->op) {
	case OP_STORE:
		store(in);
		break;
	case OP_CHECK:
		check(in, r);
		break;
	case OP_WAIT:
		wait_for(in);
		return !stopped();
	case OP_TAKE:
		take(in);
		break;
	case OP_MARK:
		if (P.mark != NULL)
			P.mark((const void *)(uintptr_t)operand(in->operands), rest(in)->len, in->bits);
		break;
	case OP_PLACE:
		if (P.place)
			P.place(operand(in->operands));
		break;
	case OP_FORK:
		fork_process(in->fn);
		break;
	}
	return true;
}

/* Reads the beginning of a file of the system's, as text. */
static const char *glance(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	return text;
}

static struct core_time core_time(const char *thread)
{
	char path[64], text[96];
	unsigned long long ran = 0, waited = 0;
	snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", thread);
	if (sscanf(glance(path, text, sizeof text), "%llu %llu", &ran, &waited) != 2)
		ran = waited = 0;
	return (struct core_time){ran, waited};
}

static struct core_time my_core_time(void)
{
	char thread[24];
	snprintf(thread, sizeof thread, "%ld", syscall(SYS_gettid));
	return core_time(thread);
}

/* Of all threads of the process but the one that asks. */
static struct core_time others_core_time(void)
{
	struct core_time sum = {0, 0};
	char self[24];
	snprintf(self, sizeof self, "%ld", syscall(SYS_gettid));
	DIR *d = opendir("/proc/self/task");
	for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
		if (e->d_name[0] == '.' || strcmp(e->d_name, self) == 0)
			continue;
		struct core_time t = core_time(e->d_name);
		sum.ran += t.ran;
		sum.waited += t.waited;
	}
	if (d != NULL)
		closedir(d);
	return sum;
}

static uint64_t stolen(void)
{
	char text[256];
	unsigned long long ticks = 0;
	if (sscanf(glance("/proc/stat", text, sizeof text), "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		return 0;
	return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* The first thread that finds all others there sets the time. */
static void gather(void)
{
	struct result_header *r = P.result;
	if (__atomic_add_fetch(&r->ready, 1, __ATOMIC_ACQ_REL) == P.first_threads) {
		r->stolen_before = stolen();
		__atomic_store_n(&r->status, RUN_STARTED, __ATOMIC_RELEASE);
		__atomic_store_n(&r->origin, counter() + (P.plan->paced ? (uint64_t)(200000 * P.counts_per_ns) : 0), __ATOMIC_RELEASE);
	}
	for (uint64_t n = 0; __atomic_load_n(&r->origin, __ATOMIC_ACQUIRE) == 0 && !stopped(); n++) {
		if (n < 2000)
			relax();
		else
			pause_ns(20000);
	}
}

/* Says which thread it was, and lets the signal end the process as it would have. */
static void crashed(int sig)
{
	uint32_t nobody = 0;
	if (my_number != 0)
		__atomic_compare_exchange_n(&P.result->crashed, &nobody, my_number, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	if (P.own != NULL && chdir(P.own) != 0)
		P.own = NULL; /* a core is written nowhere else */
	signal(sig, SIG_DFL);
	raise(sig);
}

/* Before the library is loaded: one that has handlers of its own hands on what it has no use for. */
static void watch_signals(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	struct sigaction a = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &a, NULL);
}

/* Plays the instructions of a thread from one on, up to another one, as the results count progress. Returns whether it came there. */
static bool play_some(uint64_t thread, uint64_t i, uint64_t end, uint64_t progress)
{
	const struct plan_thread *t = &P.threads[thread];
	struct result_thread *me = &P.progress[thread];
	/* What does not change is kept where no call of the runtime can change it. */
	const struct plan_operand *operands = P.operands;
	const struct target *targets = P.targets;
	uint64_t *slots = P.slots;
	const uint32_t *stop = &P.result->stopped;
	const bool paced = P.plan->paced != 0;
	uint64_t now = counter();
	const struct plan_instruction *in = &P.instructions[t->first + i];
	struct result_instruction *r = &P.results[t->first + i];
	for (; i < end; i++, in++, r++) {
		if (__atomic_load_n(stop, __ATOMIC_RELAXED))
			return false;
		if (in->relocs_count) {
			store_relocs(in);
			if (window.lasting != NULL)
				pass_data(thread, in);
		}
		if (in->op > OP_UNTIL) {
			if (!other(in, r))
				return false;
			r->flags |= RESULT_DONE;
			/* All that the instruction did is visible to whoever waits for it. */
			__atomic_store_n(&me->progress, i + 1 < progress ? i + 1 : progress, __ATOMIC_RELEASE);
			continue;
		}
		const struct target *f = &targets[in->fn];
		if (paced)
			now = keep_time(rest(in)->at);
		else if (in->flags & INST_START)
			now = counter();
		r->start = now;
		__atomic_store_n(&me->inside, i + 1, __ATOMIC_RELAXED);
		uint64_t inner = in->op == OP_UNTIL ? enclose(in, i) : 0;
		uint64_t ret = player_call(f->how, f->fn, operands + in->operands, slots);
		uint32_t flags = RESULT_DONE;
		if (in->op == OP_UNTIL) {
			ret = until(in, r, f, ret);
			flags |= r->flags;
		}
		if (in->flags & INST_END)
			now = counter();
		if (in->flags & INST_SPOIL)
			spoil(in);
		r->end = now;
		r->ret = ret;
		if (in->ret_slot)
			slots[in->ret_slot] = ret;
		if (in->bits && (ret ^ in->want) << (64 - in->bits)) {
			flags |= RESULT_DIFFERS;
			if (in->flags & INST_STOP)
				__atomic_store_n(&P.result->stopped, 1, __ATOMIC_RELAXED);
		}
		r->flags = flags;
		if (inner && enclosed.played) {
			i += inner;
			in += inner;
			r += inner;
		}
		if (inner)
			enclosed.from = enclosed.to = 0;
		__atomic_store_n(&me->progress, i + 1 < progress ? i + 1 : progress, __ATOMIC_RELEASE);
	}
	return true;
}

/* Processes that the thread has forked, which it outlives. */
static __thread pid_t *forked;
static __thread uint32_t forked_count;

/* Ends this process as another one has ended. */
__attribute__((noreturn)) static void end_as(int status)
{
	if (WIFSIGNALED(status)) {
		struct rlimit none = {0, 0}; /* the one that crashed has left a core */
		setrlimit(RLIMIT_CORE, &none);
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static bool ended_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

static void await_forked(void)
{
	for (uint32_t i = 0; i < forked_count; i++) {
		int status = 0;
		while (waitpid(forked[i], &status, 0) < 0 && errno == EINTR)
			;
		if (!ended_well(status))
			end_as(status);
	}
	free(forked);
}

static void *play(void *arg)
{
	uint64_t n = (uint64_t)(uintptr_t)arg;
	my_number = (uint32_t)n + 1;
	if (!P.forked)
		gather();
	struct core_time before = my_core_time();
	play_some(n, 0, P.threads[n].count, P.threads[n].count);
	if (window.lasting != NULL)
		__atomic_store_n(&window.passed[n], UINT64_MAX, __ATOMIC_RELEASE);
	struct core_time after = my_core_time();
	P.progress[n].core = (struct core_time){after.ran - before.ran, after.waited - before.waited};
	await_forked();
	return NULL;
}

/*
 * Sets a variable NAME=value of the environment. A library in Go reads the environment that the process began with, so the
 * value there is overwritten, where it has room.
 */
static void set_variable(const char *var)
{
	size_t name = strcspn(var, "=") + 1;
	for (char **e = environ; *e != NULL; e++)
		if (strncmp(*e, var, name) == 0 && strlen(*e) >= strlen(var)) {
			memcpy(*e, var, strlen(var) + 1);
			return;
		}
	if (putenv((char *)(uintptr_t)var) != 0)
		refuse("no memory for %s", var);
}

/* Maps the host memory that a process registers for the device, before libraries map theirs. */
static void map_host_memory(uint64_t process)
{
	const struct plan_map *maps = table(&P.plan->maps);
	for (uint64_t i = 0; i < P.plan->maps.count; i++) {
		const struct plan_map *m = &maps[i];
		if (m->process != process)
			continue;
		void *at = (void *)(uintptr_t)m->at, *p = MAP_FAILED;
		if (at != NULL)
			p = mmap(at, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (p != MAP_FAILED && p != at) { /* a kernel before 4.17 */
			munmap(p, m->size);
			p = MAP_FAILED;
		}
		P.slots[m->slot] = p != MAP_FAILED ? m->at : zeros(m->size, MAP_PRIVATE);
	}
}

/* Plays the threads of a process. */
static void play_threads(const struct plan_process *p)
{
	uint64_t all = P.plan->threads.count;
	pthread_t *threads = calloc(p->count ? p->count : 1, sizeof *threads);
	if (threads == NULL)
		refuse("no memory for %u threads", p->count);
	open_window(p);
	P.slots[SLOT_THREADS + all + p->first] = (uint64_t)pthread_self();
	if (P.mark != NULL && P.plan->zeros_reason != 0)
		P.mark((const void *)(uintptr_t)P.slots[SLOT_ZEROS], P.plan->zeros, (int)P.plan->zeros_reason);
	for (uint32_t t = 1; t < p->count; t++) {
		int e = pthread_create(&threads[t], NULL, play, (void *)(uintptr_t)(p->first + t));
		if (e != 0)
			refuse("thread %u can't be made: %s", p->first + t, strerror(e));
		P.slots[SLOT_THREADS + all + p->first + t] = (uint64_t)threads[t];
	}
	if (p->count > 0)
		play((void *)(uintptr_t)p->first);
	for (uint32_t t = 1; t < p->count; t++)
		pthread_join(threads[t], NULL);
}

/* Forks a process from this one, which has used the library. */
static void fork_process(uint32_t process)
{
	pid_t *more = realloc(forked, (forked_count + 1) * sizeof *forked);
	if (more == NULL)
		refuse("no memory for process %u", process);
	forked = more;
	pid_t self = getpid(), pid = fork();
	if (pid < 0)
		refuse("process %u can't be forked: %s", process, strerror(errno));
	forked[forked_count] = pid;
	if (pid > 0) {
		forked_count++;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != self)
		_exit(1);
	P.forked = true;
	forked_count = 0;
	P.slots[SLOT_THREADS + 2 * P.plan->threads.count + process] = (uint64_t)getpid();
	map_host_memory(process);
	play_threads(&P.processes[process]);
	_exit(0);
}

/* Runs one process: loads the library and plays the threads. */
static void run(uint64_t process, const char *library)
{
	const struct plan_process *p = &P.processes[process];
	const char *var = P.names + p->env;
	for (uint32_t i = 0; i < p->vars; i++, var += strlen(var) + 1)
		set_variable(var);
	watch_signals();
	map_host_memory(process);
	open_library(library);
	P.slots[SLOT_THREADS + 2 * P.plan->threads.count + process] = (uint64_t)getpid();
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* see take() */
	const struct core_time before = others_core_time();
	play_threads(p);
	const struct core_time after = others_core_time();
	__atomic_fetch_add(&P.result->library.ran, after.ran > before.ran ? after.ran - before.ran : 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&P.result->library.waited, after.waited > before.waited ? after.waited - before.waited : 0, __ATOMIC_RELAXED);
}

/* Runs each captured process in one of its own. The first one that does not come to its end ends all, in its own way. */
static void run_all(const char *library)
{
	uint64_t n = P.plan->processes.count, left = 0;
	pid_t *pids = calloc(n, sizeof *pids), self = getpid();
	if (pids == NULL)
		refuse("no memory for %llu processes", (unsigned long long)n);
	for (uint64_t i = 0; i < n; i++) {
		if (P.processes[i].forked)
			continue;
		left++;
		pids[i] = fork();
		if (pids[i] < 0)
			refuse("process %llu can't be made: %s", (unsigned long long)i, strerror(errno));
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != self)
				_exit(1);
			run(i, library);
			_exit(0);
		}
	}
	while (left > 0) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);
		if (pid < 0 && errno == EINTR)
			continue;
		left--;
		if (pid > 0 && ended_well(status))
			continue;
		for (uint64_t i = 0; i < n; i++)
			if (pids[i] > 0 && pids[i] != pid)
				kill(pids[i], SIGKILL);
		end_as(status);
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/*
 * Learns how fast the counter counts and how late sleeps end: nine of ten end no later than what is left to spin, where that is
 * bearable. A thread that spins takes a processor from the runtime.
 */
static void learn_clock(void)
{
	enum { SLEEPS = 64, SLEEP_NS = 300000, LEAST = 5000, MOST = 100000 };
	uint64_t late[SLEEPS], before = nanoseconds(), count, ns;
	for (int i = 0; i < SLEEPS; i++) {
		pause_ns(SLEEP_NS);
		uint64_t now = nanoseconds(), took = now - before;
		late[i] = took > SLEEP_NS ? took - SLEEP_NS : 0;
		before = now;
	}
	qsort(late, SLEEPS, sizeof *late, by_size);
	uint64_t most = late[SLEEPS * 9 / 10] + LEAST;
	P.spin_ns = most < MOST ? (int64_t)most : MOST;
	read_clocks(&count, &ns);
	P.counts_per_ns = (double)(count - P.result->counter[0]) / (double)(ns - P.result->ns[0]);
}

/* Whether a number that differs is one that a driver may answer which has more memory there. */
static bool reaches(const struct plan_instruction *in, const struct result_detail *d)
{
	uint64_t got = 0;
	memcpy(&got, d->got, sizeof got);
	return in->want == CHECK_EXTENT && got >= rest(in)->at;
}

static const char *name_of(const struct plan_instruction *in) { return P.names + P.functions[in->fn].name; }

/* How many recorded results there are, and what became of them: see verify.Tally. */
struct tally {
	unsigned long long results, proved, different, other, unproved, other_bytes, by[MAX_REASONS], bytes;
};

static const char *reason_text(uint32_t reason)
{
	const uint32_t *texts = table(&P.plan->reasons);
	return reason > 0 && reason <= P.plan->reasons.count ? P.names + texts[reason - 1] : "";
}

static void add_unproved(struct tally *t, uint32_t reason, uint32_t results)
{
	t->results += results;
	t->unproved += results;
	t->by[reason % MAX_REASONS] += results;
}

static bool judged_result(const struct plan_instruction *in) { return in->op == OP_CHECK && (in->want == CHECK_RESULT || in->want == CHECK_LENGTH); }

/* Counts a result, of which the checks follow each other. Returns how many checks it has. A part that differs goes before one that is unproved. */
static uint64_t count_result(struct tally *t, uint64_t first, uint64_t end)
{
	uint64_t n = 0;
	uint32_t reason = 0;
	bool differs = false, other_bytes = false;
	for (uint64_t i = first; i < end && judged_result(&P.instructions[i]) && (n == 0 || P.rest[i].at != 0); i++, n++) {
		uint32_t flags = P.results[i].flags, why = P.instructions[i].bits;
		if (why == 0 || P.instructions[i].flags & INST_UNMARKED)
			why = flags >> RESULT_REASON_SHIFT & 0xff;
		if (!(flags & RESULT_DONE))
			why = REASON_NOT_REACHED;
		if (why) {
			other_bytes |= (flags & RESULT_DIFFERS) != 0;
			if (!reason)
				reason = why;
		} else if (flags & RESULT_DIFFERS) {
			differs = true;
		} else {
			t->bytes += P.rest[i].len;
		}
	}
	if (!differs && reason) {
		add_unproved(t, reason, 1);
		t->other_bytes += other_bytes;
		return n;
	}
	t->results++;
	if (differs)
		t->different++;
	else
		t->proved++;
	return n;
}

static const char *results_text(unsigned long long n) { return n == 1 ? "result" : "results"; }

/* Prints how many results are unproved and why, the most frequent reason first. */
static void print_unproved(struct tally *t)
{
	printf("%llu of %llu %s %s unproved", t->unproved, t->results, results_text(t->results), t->unproved == 1 ? "is" : "are");
	if (t->other_bytes)
		printf(" (%llu with other bytes)", t->other_bytes);
	printf(": ");
	bool several = false;
	for (int i = 0; i < MAX_REASONS; i++)
		several |= t->by[i] && t->by[i] != t->unproved;
	const char *between = "";
	for (unsigned long long left = t->unproved; left > 0;) {
		uint32_t most = 0;
		for (uint32_t i = 1; i < MAX_REASONS; i++)
			if (t->by[i] > t->by[most])
				most = i;
		printf("%s", between);
		if (several)
			printf("%llu: ", t->by[most]);
		printf("%s", reason_text(most));
		left -= t->by[most];
		t->by[most] = 0;
		between = "; ";
	}
}

/* Prints a difference. */
static void print_difference(const struct plan_instruction *in, const struct result_instruction *x, const struct result_detail *d, bool unproved)
{
	unsigned long long call = rest(in)->call, got = 0, want = 0;
	if (unproved) {
		printf("unproved, with other bytes: call %llu %s\n", call, name_of(in));
	} else if (in->op != OP_CHECK) {
		printf("differs: call %llu %s: returned %#llx, recorded %#llx\n", call, name_of(in), (unsigned long long)x->ret, (unsigned long long)in->want);
	} else if (in->want == CHECK_LENGTH) {
		memcpy(&got, d->got, sizeof got);
		memcpy(&want, d->want, sizeof want);
		printf("differs: call %llu %s: result has %llu bytes, recorded with %llu\n", call, name_of(in), got, want);
	} else {
		printf("differs: call %llu %s: %s, %llu bytes, first at %llu: %#x, recorded %#x\n", call, name_of(in), in->want == CHECK_RESULT ? "result" : "output",
		       (unsigned long long)d->count, (unsigned long long)(rest(in)->at + d->first), d->got[0], d->want[0]);
	}
}

/* Says which call the run ended in. `status` is how its process ended. */
static void print_end(int status)
{
	const struct result_header *r = P.result;
	const struct plan_instruction *last = NULL;
	uint64_t latest = 0;
	for (uint64_t t = 0; t < P.plan->threads.count; t++) {
		uint64_t n = P.progress[t].progress, at = P.threads[t].first + n;
		if (n < P.threads[t].count && P.progress[t].inside == n + 1 && (last == NULL || r->crashed == t + 1 || (P.results[at].start >= latest && r->crashed == 0))) {
			last = &P.instructions[at];
			latest = P.results[at].start;
		}
	}
	printf("ended %s", r->status == 0 ? "while the library was loaded" : "in a call");
	if (last != NULL)
		printf(": call %llu %s", (unsigned long long)rest(last)->call, name_of(last));
	if (WIFSIGNALED(status))
		printf(", signal %d", WTERMSIG(status));
	printf("\n");
}

/* Prints the verdict of a run and returns the exit code. `status` is how its process ended. */
static int judge(int status)
{
	enum { LISTED = 20 };
	const struct result_header *r = P.result;
	struct tally t = {0};
	if (r->status == RUN_REFUSED) {
		fprintf(stderr, "%s\n", r->error);
		return 1;
	}
	const struct plan_doubt *doubts = table(&P.plan->doubts);
	for (uint64_t i = 0; i < P.plan->doubts.count; i++) {
		add_unproved(&t, doubts[i].reason, doubts[i].results);
		if (i < LISTED && doubts[i].call)
			printf("unproved: call %llu: %s\n", (unsigned long long)doubts[i].call, P.names + doubts[i].text);
		else if (i < LISTED)
			printf("unproved: %s\n", P.names + doubts[i].text);
	}
	for (uint64_t th = 0; th < P.plan->threads.count; th++) {
		uint64_t end = P.threads[th].first + P.threads[th].count;
		for (uint64_t i = P.threads[th].first, n; i < end; i += n) {
			const unsigned long long before = t.different;
			n = 1;
			if (judged_result(&P.instructions[i]))
				n = count_result(&t, i, end);
			for (uint64_t k = i; k < i + n; k++) {
				const struct plan_instruction *in = &P.instructions[k];
				const struct result_instruction *x = &P.results[k];
				const struct result_detail *d = &P.details[x->detail ? x->detail - 1 : 0];
				if (in->op > OP_UNTIL && in->op != OP_CHECK)
					continue;
				if (!(x->flags & RESULT_DONE) || !(x->flags & RESULT_DIFFERS))
					continue;
				if (in->op == OP_CHECK && (in->want == CHECK_MACHINE || reaches(in, d))) {
					printf("another machine: call %llu %s: %llu bytes, first at %llu: %#x, recorded %#x\n", (unsigned long long)rest(in)->call, name_of(in),
					       (unsigned long long)d->count, (unsigned long long)(rest(in)->at + d->first), d->got[0], d->want[0]);
					continue;
				}
				t.other += !judged_result(in);
				if (t.other + t.different + t.other_bytes <= LISTED)
					print_difference(in, x, d, judged_result(in) && t.different == before);
			}
		}
	}
	if (r->status != RUN_DONE) {
		print_end(status);
		return 1;
	}
	if (!r->reports)
		printf("the library does not report kernels that it lacks: the kernels are trusted\n");
	if (t.different + t.other > 0) {
		if (t.different > 0)
			printf("different: %llu of %llu %s %s", t.different, t.results, results_text(t.results), t.different == 1 ? "differs" : "differ");
		else
			printf("different: %llu %s", t.other, t.other == 1 ? "returned value or output differs" : "returned values or outputs differ");
		if (t.unproved > 0) {
			printf("; ");
			print_unproved(&t);
		}
		printf("\n");
		return 3;
	}
	if (t.results == 0) {
		printf("nothing differs; the trace has no results, so nothing is proved\n");
		return 4;
	}
	if (t.unproved > 0) {
		printf(t.other_bytes ? "nothing that could be proved differs; " : "nothing differs; ");
		print_unproved(&t);
		printf("\n");
		return 4;
	}
	printf("identical: %llu %s, %llu bytes compared\n", t.results, results_text(t.results), t.bytes);
	return 0;
}

/* The folder of a file, in memory that stays. */
static const char *folder_of(const char *file)
{
	char *path = realpath(file, NULL), *end = path ? strrchr(path, '/') : NULL;
	if (end == NULL)
		return NULL; /* the loader looks for it in folders of its own */
	end[end == path] = 0;
	return path;
}

/* Enters the sandbox. `read` has room for two more paths. */
static void enter_sandbox(bool partial, const char *file, const char *library, const char **read, size_t count)
{
	const char *own = folder_of(file);
	if (own == NULL)
		refuse("%s: its folder: %s", file, strerror(errno));
	/* By both names: a link beside other libraries leads to one that may have more beside it. */
	const char *folder = folder_of(library), *slash = strrchr(library, '/');
	if (folder != NULL)
		read[count++] = folder;
	if (slash != NULL && slash != library)
		read[count++] = strndup(library, (size_t)(slash - library));
	uint32_t layers = sandbox_enter(own, read, count);
	if (!partial && (layers & SANDBOX_NEEDED) != SANDBOX_NEEDED)
		refuse("enter the sandbox: this kernel, or what runs the player, lacks%s%s", layers & SANDBOX_FILES ? "" : " Landlock", layers & SANDBOX_CALLS ? "" : " seccomp");
	P.result->sandbox = layers;
	P.own = own;
}

int main(int argc, char **argv)
{
	const char *name = argv[0], **read = calloc((size_t)argc + 2, sizeof *read);
	bool boxed = false, partial = false, usage = read == NULL;
	size_t count = 0;
	for (argc--, argv++; argc > 0 && strncmp(*argv, "--", 2) == 0 && !usage; argc--, argv++) {
		if (strcmp(*argv, "--sandbox") == 0)
			boxed = true;
		else if (strcmp(*argv, "--partial") == 0)
			partial = true;
		else if (strcmp(*argv, "--read") == 0 && argc > 1)
			argc--, read[count++] = *++argv;
		else
			usage = true;
	}
	if (argc == 0 && boxed && !usage) {
		printf("%u\n", sandbox_enter(NULL, read, count));
		return 0;
	}
	if ((argc != 2 && argc != 3) || usage) {
		fprintf(stderr, "usage: %s [--sandbox] [--partial] [--read PATH]... PLAN LIBRARY [RESULTS]\n", name);
		return 2;
	}
	const char *library = argv[1], *results = argc > 2 ? argv[2] : NULL;
	open_plan(argv[0], results);
	if (boxed)
		enter_sandbox(partial, results ? results : argv[0], library, read, count);
	if (results == NULL) {
		int status = 0;
		pid_t child = fork();
		if (child < 0)
			refuse("fork: %s", strerror(errno));
		if (child > 0) {
			while (waitpid(child, &status, 0) < 0 && errno == EINTR)
				;
			return judge(status);
		}
	}
	make_slots();
	for (uint64_t i = 0; i < P.plan->processes.count; i++)
		P.first_threads += P.processes[i].forked ? 0 : P.processes[i].count;
	struct result_header *r = P.result;
	read_clocks(&r->counter[0], &r->ns[0]);
	P.counts_per_ns = 1;
	prctl(PR_SET_TIMERSLACK, 1); /* sleeps end when they are to, in all threads to come */
	if (P.plan->paced)
		learn_clock();
	if (P.plan->processes.count == 1)
		run(0, library);
	else if (P.plan->processes.count > 1)
		run_all(library);
	if (!P.plan->paced)
		pause_ns(1000000);
	read_clocks(&r->counter[1], &r->ns[1]);
	r->stolen_after = stolen();
	__atomic_store_n(&r->status, RUN_DONE, __ATOMIC_RELEASE);
	/* What libraries do when a process ends is not part of the trace. */
	_exit(0);
}
