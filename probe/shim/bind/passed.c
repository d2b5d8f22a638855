#include "bind/passed.h"

#include "base/loader.h"
#include "base/lookup.h"
#include "session/process.h"
#include "session/session.h"

bool passed_has_prefix(const struct shim_prefix *table, const char *s)
{
	for (const struct shim_prefix *p = table; p->name; p++) {
		const char *rest = text_after(s, p->name);
		if (rest != NULL && (!p->capital || (*rest >= 'A' && *rest <= 'Z')))
			return true;
	}
	return false;
}

/* The session's counters, mapped at the first use. */
static struct passed *passed;
static uint64_t nowhere;

static struct passed *passed_area(void)
{
	if (__atomic_load_n(&passed, __ATOMIC_ACQUIRE) == NULL && open_process())
		map_in_session("passed", sizeof(struct passed) * PASSED_NAMES, &passed);
	return __atomic_load_n(&passed, __ATOMIC_ACQUIRE);
}

static bool named(const struct passed *e, const char *name)
{
	for (uint32_t i = 0; i < sizeof e->name - 1; i++) {
		if (e->name[i] != name[i])
			return false;
		if (name[i] == 0)
			return true;
	}
	return true;
}

uint64_t *passed_counter(const char *name)
{
	struct passed *p = passed_area();
	if (p == NULL)
		return &nowhere;
	uint32_t h = lookup_hash(name);
	for (uint32_t i = 0; i < PASSED_NAMES; i++) {
		struct passed *e = &p[(h + i) % PASSED_NAMES];
		uint32_t state = PASSED_FREE;
		if (__atomic_compare_exchange_n(&e->state, &state, PASSED_BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			for (uint32_t k = 0; k < sizeof e->name - 1 && name[k]; k++)
				e->name[k] = name[k];
			__atomic_store_n(&e->state, PASSED_NAMED, __ATOMIC_RELEASE);
			return &e->count;
		}
		/* A thread that was naming the entry may have died. The reader adds up entries with the same name. */
		if (state == PASSED_NAMED && named(e, name))
			return &e->count;
	}
	return &nowhere;
}

void shim_passed(const char *name) { __atomic_add_fetch(passed_counter(name), 1, __ATOMIC_RELAXED); }

void passed_found(const char *name, const void *f)
{
	if (!passed_of_runtime(name))
		return;
	const char *file = shim_object_of(f);
	if (file == NULL || !lookup_of_operators(file))
		shim_passed(name);
}

/* The error that wrappers return if the runtime lacks the function. */
static int unsupported(void) { return 207000; }

HIDDEN __attribute__((used)) void *shim_counted_find(uint32_t number)
{
	struct shim_counted *c = &shim_counted[number];
	const char *name = shim_counted_names[number];
	uint64_t *n = passed_counter(name);
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

#if defined(__x86_64__)
/* The first call of a counted function: saves all registers that may hold an argument. */
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
