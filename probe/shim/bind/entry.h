/* The functions that the program calls: an entry in assembly for each, generated from these macros. C would move the arguments before it decides. */
#ifndef ACLTRACE_SHIM_ENTRY_H
#define ACLTRACE_SHIM_ENTRY_H

#include "base/state.h"

/* The real function of a wrapper. */
struct shim_target {
	void *real; /* atomic; NULL: not looked for yet, or unloaded */
	const char *name;
};

#define SHIM_TEXT(x) #x
#define SHIM_STRING(x) SHIM_TEXT(x)

/* An entry that jumps to `body`, which records the call, or to the real function while no process of the session records. */
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

/*
 * A function that the model does not describe: counts the call and jumps to the real function with all arguments. Uses only registers that a call
 * may destroy.
 */
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

/*
 * An entry mark: records the entry (bind/mark.c) and jumps to the real function with all arguments, which are in registers for general use or on the stack. So
 * results, exceptions and stack traces are those of the program without the shim. `name` is an exported symbol, or a local one for the second library.
 */
#if defined(__x86_64__)
#define SHIM_MARK(name, number, scope)                                                                                      \
	__asm__(".pushsection .text\n\t" scope " " #name "\n\t.type " #name ",@function\n\t.p2align 4\n" #name ":\n\t"      \
		".cfi_startproc\n\tendbr64\n\tsub $56, %rsp\n\t.cfi_adjust_cfa_offset 56\n\t"                            \
		"mov %rdi, (%rsp)\n\tmov %rsi, 8(%rsp)\n\tmov %rdx, 16(%rsp)\n\tmov %rcx, 24(%rsp)\n\tmov %r8, 32(%rsp)\n\tmov %r9, 40(%rsp)\n\t" \
		"mov %rsp, %rdi\n\tmov $" SHIM_STRING(number) ", %esi\n\tmov 56(%rsp), %rdx\n\tlea 64(%rsp), %rcx\n\tcall shim_mark_enter\n\tmov %rax, %r11\n\t" \
		"mov (%rsp), %rdi\n\tmov 8(%rsp), %rsi\n\tmov 16(%rsp), %rdx\n\tmov 24(%rsp), %rcx\n\tmov 32(%rsp), %r8\n\tmov 40(%rsp), %r9\n\t" \
		"add $56, %rsp\n\t.cfi_adjust_cfa_offset -56\n\tjmp *%r11\n\t"                                              \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t");                                        \
	extern char mark_##name[] __asm__(#name)
#elif defined(__aarch64__)
#define SHIM_MARK(name, number, scope)                                                                                      \
	__asm__(".pushsection .text\n\t" scope " " #name "\n\t.type " #name ",@function\n\t.p2align 4\n" #name ":\n\t"      \
		".cfi_startproc\n\thint 34\n\tstp x29, x30, [sp, #-96]!\n\t.cfi_def_cfa_offset 96\n\t.cfi_offset 29, -96\n\t.cfi_offset 30, -88\n\t" \
		"stp x0, x1, [sp, #16]\n\tstp x2, x3, [sp, #32]\n\tstp x4, x5, [sp, #48]\n\tstp x6, x7, [sp, #64]\n\tstr x8, [sp, #80]\n\t" \
		"mov x2, x30\n\tadd x3, sp, #96\n\tadd x0, sp, #16\n\tmov w1, #" SHIM_STRING(number) "\n\tbl shim_mark_enter\n\tmov x16, x0\n\t" \
		"ldp x0, x1, [sp, #16]\n\tldp x2, x3, [sp, #32]\n\tldp x4, x5, [sp, #48]\n\tldp x6, x7, [sp, #64]\n\tldr x8, [sp, #80]\n\t" \
		"ldp x29, x30, [sp], #96\n\t.cfi_restore 29\n\t.cfi_restore 30\n\t.cfi_def_cfa_offset 0\n\tbr x16\n\t"     \
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection\n\t");                                        \
	extern char mark_##name[] __asm__(#name)
#endif

#endif
