/* Which name stands before which function of the runtime. The tables are generated (acl_gen.c), the rest is bind.c. */
#ifndef ACLTRACE_SHIM_BIND_H
#define ACLTRACE_SHIM_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HIDDEN __attribute__((visibility("hidden")))

struct link_map;

/* What a wrapper calls. */
struct shim_target {
	void *real; /* atomic; NULL: not looked for yet, or gone with its library */
	const char *name;
};

/* What a trampoline, which only counts, jumps to. */
struct shim_counted {
	void *real; /* atomic */
	uint64_t *count; /* set before real */
};

/* A name that the shim exports. The copy is the wrapper for a second library with the same function. */
struct shim_name {
	const char *name;
	void *wrapper;
	void **real;
	void *copy;
	void **copy_real;
	int since; /* version that has brought it, 0 where that is not known */
};

/* Sorted by name. */
extern const struct shim_name shim_names[] HIDDEN;
extern const uint32_t shim_names_count HIDDEN;
extern struct shim_counted shim_counted[] HIDDEN;
extern const uint32_t shim_counted_count HIDDEN;
extern const char *const shim_counted_names[] HIDDEN;

/* A function that InitInjectionMstx puts into a slot of a table, and what it calls there. Ends with a NULL. */
struct shim_injected {
	const char *name;
	int module;
	unsigned slot;
	void *wrapper;
	void **real;
};
extern const struct shim_injected shim_injected[] HIDDEN;

/* Where a program that has mstx compiled into it asks for a tool; the other is for a second tool. See inject.c. */
typedef void shim_function(void);
typedef int shim_tables(int module, shim_function ***table, unsigned *size);
__attribute__((visibility("default"))) int InitInjectionMstx(shim_tables *get);
int shim_inject_copy(shim_tables *get) HIDDEN;
extern void *shim_inject_real HIDDEN, *shim_inject_copy_real HIDDEN;

/* What the names of the runtime's functions begin with; capital: followed by a capital letter. Ends with a NULL. */
struct shim_prefix {
	const char *name;
	bool capital;
};
extern const struct shim_prefix shim_prefixes[] HIDDEN;

/* What the shim was built for. The recorder looks for the text in the file before it has a program load it. */
extern const uint64_t shim_functions HIDDEN;
extern const char shim_build[] HIDDEN;

/* Functions that the shim itself calls, each where it is used. */
#define SHIM_OWN 5
extern void *shim_own[SHIM_OWN] HIDDEN;

const struct shim_name *shim_lookup(const char *name) HIDDEN;
/* The function that the loader would bind for a reference that is not the shim's, NULL where there is none. */
void *shim_next(const char *name) HIDDEN;
/* What the program gets that has asked for name and would have got f. */
void *shim_substitute(const struct shim_name *n, const char *name, void *f) HIDDEN;
bool shim_is_own(const void *f) HIDDEN;
/* Counts what can't be recorded, by name. */
void shim_passed(const char *name) HIDDEN;
/* What the program gets for a function that it has asked the runtime for, by name and version. */
void shim_found(const char *symbol, void **fn, int version, uint64_t flags) HIDDEN;
bool shim_mapped(uint64_t at) HIDDEN;
/* The shim's own dlsym and the like, NULL for other names. */
void *shim_loader_function(const char *name) HIDDEN;
/* The objects of the program's own namespace, in the order of the loader. */
const struct link_map *shim_objects(void) HIDDEN;
/* In late.c: before the thread loads a library that is bound past the shim, and when it asks for a function by a handle. */
void shim_loads_late(void) HIDDEN;
void shim_late(const void *handle) HIDDEN;

/*
 * A function that the model does not know, or knows by its name alone: every call is counted and goes on to the real
 * function with all its arguments, whatever they are. Only registers that a call may destroy are used.
 */
#define SHIM_TEXT(x) #x
#define SHIM_STRING(x) SHIM_TEXT(x)

/*
 * The function that the program calls, where body is what records it: nothing but a jump to it, or to the runtime while all
 * programs of the session record nothing. C would move the arguments about before it knows which.
 */
#if defined(__x86_64__)
#define SHIM_ENTRY(name, body)                                                                                             \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.p2align 4\n" #name ":\n\t"        \
		".cfi_startproc\n\tcmpl $1, shim_control_pages+" SHIM_STRING(CONTROL_QUIET) "(%rip)\n\tjne " #body "\n\t"  \
		"mov target_" #name "(%rip), %r11\n\ttest %r11, %r11\n\tjz " #body "\n\tjmp *%r11\n\t"                  \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t")
#elif defined(__aarch64__)
#define SHIM_ENTRY(name, body)                                                                                             \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.p2align 4\n" #name ":\n\t"        \
		".cfi_startproc\n\tadrp x16, shim_control_pages+" SHIM_STRING(CONTROL_QUIET) "\n\t"                       \
		"ldr w16, [x16, :lo12:shim_control_pages+" SHIM_STRING(CONTROL_QUIET) "]\n\tcmp w16, #1\n\tb.eq 1f\n"       \
		"0:\tb " #body "\n"                                                                                         \
		"1:\tadrp x16, target_" #name "\n\tadd x16, x16, :lo12:target_" #name "\n\tldar x16, [x16]\n\tcbz x16, 0b\n\tbr x16\n\t" \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t")
#endif

#if defined(__x86_64__)
#define SHIM_COUNTED(name, number)                                                                                         \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.p2align 4\n" #name ":\n\t"        \
		".cfi_startproc\n\tendbr64\n\t"                                                                            \
		"mov shim_counted+16*" SHIM_STRING(number) "(%rip), %r11\n\ttest %r11, %r11\n\tjz 1f\n\t"                  \
		"mov shim_counted+16*" SHIM_STRING(number) "+8(%rip), %r10\n\tlock incq (%r10)\n\tjmp *%r11\n"             \
		"1:\tmov $" SHIM_STRING(number) ", %r11d\n\tjmp shim_counted_first\n\t"                                    \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t");                                      \
	extern char counted_##name[] __asm__(#name)
#elif defined(__aarch64__)
#define SHIM_COUNTED(name, number)                                                                                         \
	__asm__(".pushsection .text\n\t.globl " #name "\n\t.type " #name ",@function\n\t.p2align 4\n" #name ":\n\t"        \
		".cfi_startproc\n\thint 34\n\t"                                                                            \
		"adrp x10, shim_counted+16*" SHIM_STRING(number) "\n\tadd x10, x10, :lo12:shim_counted+16*" SHIM_STRING(number) "\n\t" \
		"ldar x16, [x10]\n\tcbz x16, 1f\n\tldr x10, [x10, #8]\n"                                                   \
		"0:\tldxr x11, [x10]\n\tadd x11, x11, #1\n\tstxr w12, x11, [x10]\n\tcbnz w12, 0b\n\tbr x16\n"              \
		"1:\tmov w16, #" SHIM_STRING(number) "\n\tb shim_counted_first\n\t"                                        \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t");                                      \
	extern char counted_##name[] __asm__(#name)
#endif

#endif
