/*
 * How a program that asks for the runtime's functions by dlsym comes to the shim, and what is counted of the calls that
 * go past it.
 *
 * dlsym looks at who calls it where the handle is RTLD_DEFAULT or RTLD_NEXT. These requests are handed on by a jump, with
 * the caller's own return address, and find the shim where the program would find the runtime. A request with a handle is
 * answered by the real dlsym; where its answer is a function that the shim wraps, the program gets the wrapper, and the
 * wrapper calls what the program asked for.
 */
#include "bind.h"
#include "parts.h"

#include <asm/fcntl.h>
#include <linux/mman.h>

#include "lookup.h"
#include "sys.h"

#define NEXT ((void *)-1L)
#define ENOMEM 12
#define EINVAL 22

typedef void *dlsym_fn(void *handle, const char *name);
typedef void *dlvsym_fn(void *handle, const char *name, const char *version);

extern const char __ehdr_start[] HIDDEN, _end[] HIDDEN;
extern char **environ __attribute__((weak));

void *shim_own[SHIM_OWN];

static void *real_dlsym, *real_dlvsym, *real_dlopen, *real_dlmopen, *real_dlclose, *real_chroot;

/* A libdl may come after the first call, so what is not there is looked for again. */
static void *loader(void **slot, const char *name)
{
	void *f = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (f == NULL) {
		f = shim_next(name);
		__atomic_store_n(slot, f, __ATOMIC_RELEASE);
	}
	return f;
}

static bool begins(const char *s, const char *with)
{
	while (*with)
		if (*s++ != *with++)
			return false;
	return true;
}

static bool upper(char c) { return c >= 'A' && c <= 'Z'; }

/* Names that look like the runtime's. Operators (aclnn) are none of its functions. */
static bool of_runtime(const char *s)
{
	for (const struct shim_prefix *p = shim_prefixes; p->name; p++) {
		if (!begins(s, p->name))
			continue;
		size_t n = 0;
		while (p->name[n])
			n++;
		if (!p->capital || upper(s[n]))
			return true;
	}
	return false;
}

/* The session's counters of what is passed by. */
static struct passed *passed;
static uint64_t nowhere;

static struct passed *passed_area(void)
{
	struct passed *p = __atomic_load_n(&passed, __ATOMIC_ACQUIRE);
	if (p != NULL)
		return p;
	if (!open_process())
		return NULL;
	long fd = open_in_session("passed", 0, false, O_RDWR);
	if (fd < 0)
		return NULL;
	long m = sys6(__NR_mmap, 0, sizeof(struct passed) * PASSED_NAMES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	sys1(__NR_close, fd);
	if (m < 0 && m > -4096)
		return NULL;
	if (!__atomic_compare_exchange_n(&passed, &p, (struct passed *)m, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		sys2(__NR_munmap, m, sizeof(struct passed) * PASSED_NAMES);
		return p;
	}
	return (struct passed *)m;
}

static bool is(const struct passed *e, const char *name)
{
	for (uint32_t i = 0; i < sizeof e->name - 1; i++) {
		if (e->name[i] != name[i])
			return false;
		if (name[i] == 0)
			return true;
	}
	return true;
}

/* The counter of a name; one that nobody reads where there is no session or no room. */
static uint64_t *counter(const char *name)
{
	struct passed *p = passed_area();
	if (p == NULL)
		return &nowhere;
	uint32_t h = 5381;
	for (const char *s = name; *s; s++)
		h = h * 33 + (uint8_t)*s;
	for (uint32_t i = 0; i < PASSED_NAMES; i++) {
		struct passed *e = &p[(h + i) % PASSED_NAMES];
		uint32_t state = PASSED_FREE;
		if (__atomic_compare_exchange_n(&e->state, &state, PASSED_BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			for (uint32_t k = 0; k < sizeof e->name - 1 && name[k]; k++)
				e->name[k] = name[k];
			__atomic_store_n(&e->state, PASSED_NAMED, __ATOMIC_RELEASE);
			return &e->count;
		}
		/* Whoever was at it may have died. The reader adds up entries of one name. */
		if (state == PASSED_NAMED && is(e, name))
			return &e->count;
	}
	return &nowhere;
}

static void count(const char *name) { __atomic_add_fetch(counter(name), 1, __ATOMIC_RELAXED); }
void shim_passed(const char *name) { count(name); }

/* Whether there is a function behind the name: a program may ask in order to find out. */
static bool exists(const struct shim_name *n)
{
	return __atomic_load_n(n->real, __ATOMIC_RELAXED) != NULL || shim_next(n->name) != NULL;
}

/* The loader's answer where the shim is the only one that has the name. These are called, not jumped to: the loader has to
 * take the shim for the caller and search behind it. */
static void *missing(void *handle, const char *name)
{
	(void)handle;
	void *f = ((dlsym_fn *)real_dlsym)(NEXT, name);
	__asm__ volatile("" : "+r"(f));
	return f;
}

static void *missing_version(void *handle, const char *name, const char *version)
{
	(void)handle;
	void *f = ((dlvsym_fn *)real_dlvsym)(NEXT, name, version);
	__asm__ volatile("" : "+r"(f));
	return f;
}

static void *no_loader(void *handle, const char *name)
{
	(void)handle, (void)name;
	return NULL;
}

/* Where the assembly below jumps to for RTLD_DEFAULT and RTLD_NEXT. */
static void *exact(const char *name, void *real, void *none)
{
	if (real == NULL)
		return (void *)no_loader;
	const struct shim_name *n = shim_lookup(name);
	if (n != NULL)
		return exists(n) ? real : none;
	if (of_runtime(name) && shim_next(name) != NULL)
		count(name);
	return real;
}

HIDDEN __attribute__((used)) void *shim_dlsym_exact(void *handle, const char *name)
{
	(void)handle;
	return exact(name, loader(&real_dlsym, "dlsym"), (void *)missing);
}

HIDDEN __attribute__((used)) void *shim_dlvsym_exact(void *handle, const char *name)
{
	(void)handle;
	return exact(name, loader(&real_dlvsym, "dlvsym"), (void *)missing_version);
}

/* Whether memory is mapped at an address, whatever the size of a page. */
bool shim_mapped(uint64_t at)
{
	uint8_t in;
	for (uint64_t page = 4096; page <= 65536; page *= 4) {
		long e = sys3(__NR_mincore, at & ~(page - 1), 1, &in);
		if (e != -EINVAL)
			return e != -ENOMEM;
	}
	return true;
}

/* A library that was unloaded takes its functions along, and another one may come to the same or another address. */
static void forget(void **real, uint64_t *seen)
{
	uint64_t f = (uint64_t)__atomic_load_n(real, __ATOMIC_ACQUIRE);
	if (f == 0 || f >> 12 == *seen)
		return;
	if (shim_mapped(f))
		*seen = f >> 12;
	else
		__atomic_store_n(real, NULL, __ATOMIC_RELEASE);
}

/* What to give a program that asked for name and would have got f. Calls nothing of the program's, so that errno and
 * dlerror are as the real dlsym left them. */
void *shim_substitute(const struct shim_name *n, const char *name, void *f)
{
	if (n == NULL) {
		if (of_runtime(name))
			count(name);
		return f;
	}
	/* A trampoline counts before it jumps. */
	if (n->real >= &shim_counted[0].real && n->real < &shim_counted[shim_counted_count].real) {
		struct shim_counted *c = (struct shim_counted *)n->real;
		if (__atomic_load_n(&c->count, __ATOMIC_ACQUIRE) == NULL)
			__atomic_store_n(&c->count, counter(name), __ATOMIC_RELEASE);
	}
	/* A library that was unloaded in a way that dlclose has not seen, as in another namespace. */
	void *have = __atomic_load_n(n->real, __ATOMIC_ACQUIRE);
	if (have != NULL && have != f) {
		uint64_t seen = 0;
		forget(n->real, &seen);
		if (n->copy_real)
			forget(n->copy_real, &seen);
		have = __atomic_load_n(n->real, __ATOMIC_ACQUIRE);
	}
	/* A linked reference has the first library of the list, whichever of several the program asks for first. */
	if (have == NULL) {
		void *first = shim_next(name);
		if (first == NULL)
			first = f; /* in a namespace of its own */
		if (__atomic_compare_exchange_n(n->real, &have, first, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			have = first;
	}
	if (have == f)
		return n->wrapper;
	if (n->copy != NULL) {
		void *second = NULL;
		if (__atomic_compare_exchange_n(n->copy_real, &second, f, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || second == f)
			return n->copy;
	}
	count(name);
	return f;
}

/*
 * For the audit library, which sees references that do not come by the shim: what one to name shall lead to that the
 * loader would bind to f. Early at the start of a program neither the shim's tables nor the environment are there yet;
 * what is bound then finds the shim before the runtime anyway.
 */
SHIM_EXPORT void *acltrace_bind(const char *name, void *f)
{
	static void *volatile self = (void *)&self; /* until the shim is relocated, this is not where it lies */
	if (self != (void *)&self || &environ == NULL || environ == NULL)
		return f;
	return shim_substitute(shim_lookup(name), name, f);
}

bool shim_is_own(const void *f) { return (const char *)f >= __ehdr_start && (const char *)f < _end; }

HIDDEN __attribute__((used)) void *shim_dlsym_handle(void *handle, const char *name)
{
	dlsym_fn *real = (dlsym_fn *)loader(&real_dlsym, "dlsym");
	void *f = real ? real(handle, name) : NULL;
	if (f == NULL)
		return NULL;
	if (__builtin_expect(shim_t.late, 0))
		shim_late(handle);
	const struct shim_name *n = shim_lookup(name);
	if (shim_is_own(f)) /* by dlopen(NULL), or a scope in which the shim comes first */
		return n == NULL || exists(n) ? f : missing(handle, name);
	return shim_substitute(n, name, f);
}

HIDDEN __attribute__((used)) void *shim_dlvsym_handle(void *handle, const char *name, const char *version)
{
	dlvsym_fn *real = (dlvsym_fn *)loader(&real_dlvsym, "dlvsym");
	void *f = real ? real(handle, name, version) : NULL;
	if (f == NULL)
		return NULL;
	if (__builtin_expect(shim_t.late, 0))
		shim_late(handle);
	const struct shim_name *n = shim_lookup(name);
	if (shim_is_own(f))
		return n == NULL || exists(n) ? f : missing_version(handle, name, version);
	return shim_substitute(n, name, f);
}

/* Where the assembly below jumps to. */
HIDDEN __attribute__((used)) void *shim_dlopen_before(const char *file, int flags)
{
	(void)file;
	if (flags & RTLD_DEEPBIND)
		shim_loads_late();
	void *real = loader(&real_dlopen, "dlopen");
	return real ? real : (void *)no_loader;
}

HIDDEN __attribute__((used)) void *shim_dlmopen_before(long space, const char *file, int flags)
{
	(void)file;
	if (space != 0 || (flags & RTLD_DEEPBIND))
		shim_loads_late();
	void *real = loader(&real_dlmopen, "dlmopen");
	return real ? real : (void *)no_loader;
}

#if defined(__x86_64__)
#define REQUEST(name)                                                                                                      \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.globl shim_" #name "\n\t.hidden shim_" #name "\n\t.p2align 4\nshim_" #name ":\n" #name ":\n\t"        \
		".cfi_startproc\n\tendbr64\n\tlea 1(%rdi), %rax\n\tcmp $1, %rax\n\tja shim_" #name "_handle\n\t"           \
		"push %rdi\n\t.cfi_adjust_cfa_offset 8\n\tpush %rsi\n\t.cfi_adjust_cfa_offset 8\n\t"                       \
		"push %rdx\n\t.cfi_adjust_cfa_offset 8\n\tcall shim_" #name "_exact\n\t"                                   \
		"pop %rdx\n\t.cfi_adjust_cfa_offset -8\n\tpop %rsi\n\t.cfi_adjust_cfa_offset -8\n\t"                       \
		"pop %rdi\n\t.cfi_adjust_cfa_offset -8\n\tjmp *%rax\n\t"                                                   \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t")

/* The loader looks at who calls these, too. */
#define LOADING(name)                                                                                                      \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.globl shim_" #name "\n\t.hidden shim_" #name "\n\t.p2align 4\nshim_" #name ":\n" #name ":\n\t"        \
		".cfi_startproc\n\tendbr64\n\t"                                                                            \
		"push %rdi\n\t.cfi_adjust_cfa_offset 8\n\tpush %rsi\n\t.cfi_adjust_cfa_offset 8\n\t"                       \
		"push %rdx\n\t.cfi_adjust_cfa_offset 8\n\tcall shim_" #name "_before\n\t"                                  \
		"pop %rdx\n\t.cfi_adjust_cfa_offset -8\n\tpop %rsi\n\t.cfi_adjust_cfa_offset -8\n\t"                       \
		"pop %rdi\n\t.cfi_adjust_cfa_offset -8\n\tjmp *%rax\n\t"                                                   \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t")

/* The first call of a function that is only counted: everything that may hold an argument is kept. */
__asm__(".pushsection .text\n\t.globl shim_counted_first\n\t.hidden shim_counted_first\n\t.type shim_counted_first,@function\n\t.p2align 4\nshim_counted_first:\n\t.cfi_startproc\n\t"
	"push %rbp\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %rbp, -16\n\tmov %rsp, %rbp\n\t.cfi_def_cfa_register %rbp\n\t"
	"sub $192, %rsp\n\t"
	"mov %rdi, (%rsp)\n\tmov %rsi, 8(%rsp)\n\tmov %rdx, 16(%rsp)\n\tmov %rcx, 24(%rsp)\n\tmov %r8, 32(%rsp)\n\t"
	"mov %r9, 40(%rsp)\n\tmov %rax, 48(%rsp)\n\t"
	"movups %xmm0, 64(%rsp)\n\tmovups %xmm1, 80(%rsp)\n\tmovups %xmm2, 96(%rsp)\n\tmovups %xmm3, 112(%rsp)\n\t"
	"movups %xmm4, 128(%rsp)\n\tmovups %xmm5, 144(%rsp)\n\tmovups %xmm6, 160(%rsp)\n\tmovups %xmm7, 176(%rsp)\n\t"
	"mov %r11d, %edi\n\tcall shim_counted_find\n\tmov %rax, %r11\n\t"
	"mov (%rsp), %rdi\n\tmov 8(%rsp), %rsi\n\tmov 16(%rsp), %rdx\n\tmov 24(%rsp), %rcx\n\tmov 32(%rsp), %r8\n\t"
	"mov 40(%rsp), %r9\n\tmov 48(%rsp), %rax\n\t"
	"movups 64(%rsp), %xmm0\n\tmovups 80(%rsp), %xmm1\n\tmovups 96(%rsp), %xmm2\n\tmovups 112(%rsp), %xmm3\n\t"
	"movups 128(%rsp), %xmm4\n\tmovups 144(%rsp), %xmm5\n\tmovups 160(%rsp), %xmm6\n\tmovups 176(%rsp), %xmm7\n\t"
	"leave\n\t.cfi_def_cfa %rsp, 8\n\tjmp *%r11\n\t.cfi_endproc\n\t.size shim_counted_first, . - shim_counted_first\n\t.popsection");
#elif defined(__aarch64__)
#define REQUEST(name)                                                                                                      \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.globl shim_" #name "\n\t.hidden shim_" #name "\n\t.p2align 4\nshim_" #name ":\n" #name ":\n\t"        \
		".cfi_startproc\n\thint 34\n\tadd x9, x0, #1\n\tcmp x9, #1\n\tb.ls 1f\n\tb shim_" #name "_handle\n"        \
		"1:\tstp x29, x30, [sp, #-48]!\n\t.cfi_def_cfa_offset 48\n\t.cfi_offset 29, -48\n\t.cfi_offset 30, -40\n\t" \
		"stp x0, x1, [sp, #16]\n\tstr x2, [sp, #32]\n\tbl shim_" #name "_exact\n\tmov x16, x0\n\t"                 \
		"ldp x0, x1, [sp, #16]\n\tldr x2, [sp, #32]\n\tldp x29, x30, [sp], #48\n\t.cfi_restore 29\n\t"             \
		".cfi_restore 30\n\t.cfi_def_cfa_offset 0\n\tbr x16\n\t"                                                   \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t")

#define LOADING(name)                                                                                                      \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.globl shim_" #name "\n\t.hidden shim_" #name "\n\t.p2align 4\nshim_" #name ":\n" #name ":\n\t"        \
		".cfi_startproc\n\thint 34\n\tstp x29, x30, [sp, #-48]!\n\t.cfi_def_cfa_offset 48\n\t"                      \
		".cfi_offset 29, -48\n\t.cfi_offset 30, -40\n\t"                                                          \
		"stp x0, x1, [sp, #16]\n\tstr x2, [sp, #32]\n\tbl shim_" #name "_before\n\tmov x16, x0\n\t"                \
		"ldp x0, x1, [sp, #16]\n\tldr x2, [sp, #32]\n\tldp x29, x30, [sp], #48\n\t.cfi_restore 29\n\t"             \
		".cfi_restore 30\n\t.cfi_def_cfa_offset 0\n\tbr x16\n\t"                                                   \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t")

__asm__(".pushsection .text\n\t.globl shim_counted_first\n\t.hidden shim_counted_first\n\t.type shim_counted_first,@function\n\t.p2align 4\nshim_counted_first:\n\t.cfi_startproc\n\t"
	"stp x29, x30, [sp, #-224]!\n\t.cfi_def_cfa_offset 224\n\t.cfi_offset 29, -224\n\t.cfi_offset 30, -216\n\t"
	"stp x0, x1, [sp, #16]\n\tstp x2, x3, [sp, #32]\n\tstp x4, x5, [sp, #48]\n\tstp x6, x7, [sp, #64]\n\tstr x8, [sp, #80]\n\t"
	"stp q0, q1, [sp, #96]\n\tstp q2, q3, [sp, #128]\n\tstp q4, q5, [sp, #160]\n\tstp q6, q7, [sp, #192]\n\t"
	"mov w0, w16\n\tbl shim_counted_find\n\tmov x16, x0\n\t"
	"ldp x0, x1, [sp, #16]\n\tldp x2, x3, [sp, #32]\n\tldp x4, x5, [sp, #48]\n\tldp x6, x7, [sp, #64]\n\tldr x8, [sp, #80]\n\t"
	"ldp q0, q1, [sp, #96]\n\tldp q2, q3, [sp, #128]\n\tldp q4, q5, [sp, #160]\n\tldp q6, q7, [sp, #192]\n\t"
	"ldp x29, x30, [sp], #224\n\t.cfi_restore 29\n\t.cfi_restore 30\n\t.cfi_def_cfa_offset 0\n\tbr x16\n\t.cfi_endproc\n\t"
	".size shim_counted_first, . - shim_counted_first\n\t.popsection");
#endif

REQUEST(dlsym);
REQUEST(dlvsym);
LOADING(dlopen);
LOADING(dlmopen);

/* As the wrappers answer where the runtime has no such function. */
static int unsupported(void) { return 207000; }

HIDDEN __attribute__((used)) void *shim_counted_find(uint32_t number)
{
	struct shim_counted *c = &shim_counted[number];
	const char *name = shim_counted_names[number];
	uint64_t *n = counter(name);
	__atomic_add_fetch(n, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&c->count, n, __ATOMIC_RELEASE);
	void *f = __atomic_load_n(&c->real, __ATOMIC_ACQUIRE);
	if (f == NULL) {
		f = shim_next(name);
		if (f == NULL)
			return (void *)unsupported;
		__atomic_store_n(&c->real, f, __ATOMIC_RELEASE);
	}
	return f;
}

SHIM_EXPORT int dlclose(void *handle)
{
	int (*real)(void *) = (int (*)(void *))loader(&real_dlclose, "dlclose");
	if (real == NULL)
		return -1;
	int ret = real(handle);
	uint64_t seen = 0;
	for (uint32_t i = 0; i < SHIM_OWN; i++)
		forget(&shim_own[i], &seen);
	for (uint32_t i = 0; i < shim_names_count; i++) {
		forget(shim_names[i].real, &seen);
		if (shim_names[i].copy_real)
			forget(shim_names[i].copy_real, &seen);
	}
	return ret;
}

/* A program that changes its root before its first call, as servers do, takes the session along. */
SHIM_EXPORT int chroot(const char *path)
{
	int (*real)(const char *) = (int (*)(const char *))loader(&real_chroot, "chroot");
	if (real == NULL)
		return -1;
	keep_session();
	return real(path);
}

/* Other names of the same, which no other library's come before. */
extern char shim_dlsym[] HIDDEN, shim_dlvsym[] HIDDEN, shim_dlopen[] HIDDEN, shim_dlmopen[] HIDDEN;
extern __typeof__(dlclose) shim_dlclose __attribute__((alias("dlclose"), copy(dlclose), visibility("hidden")));
extern __typeof__(chroot) shim_chroot __attribute__((alias("chroot"), copy(chroot), visibility("hidden")));

void *shim_loader_function(const char *name)
{
	static const struct { const char *name; void *f; } own[] = {
		{"dlsym", shim_dlsym}, {"dlvsym", shim_dlvsym}, {"dlopen", shim_dlopen}, {"dlmopen", shim_dlmopen},
		{"dlclose", (void *)shim_dlclose}, {"chroot", (void *)shim_chroot},
	};
	for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
		if (lookup_same(own[i].name, name))
			return own[i].f;
	return NULL;
}
