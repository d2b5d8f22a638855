/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The kernel interface that the programs use, declared here so that a build takes only clang. The programs access no kernel
 * structures, so they run without kernel type information. With -DACLTRACE_USER they are functions of an ordinary program,
 * which defines the helpers.
 */
#ifndef ACLTRACE_BPF_KERNEL_H
#define ACLTRACE_BPF_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef ACLTRACE_USER
#define SEC(name)
#else
#define SEC(name) __attribute__((section(name), used))
#endif
#define inline inline __attribute__((always_inline))
#define UINT(name, value) int (*name)[value]
#define TYPE(name, value) typeof(value) *name
#define ARRAY(map, kind, entries, value_type) \
	struct { UINT(type, kind); UINT(max_entries, entries); TYPE(key, u32); TYPE(value, value_type); } map SEC(".maps")
#define HASH(map, entries, key_type, value_type) \
	struct { UINT(type, MAP_HASH); UINT(max_entries, entries); UINT(map_flags, MAP_NO_PREALLOC); TYPE(key, key_type); TYPE(value, value_type); } map SEC(".maps")

#define PAGE 4096

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_RINGBUF = 27,
	MAP_NO_PREALLOC = 1,
	RINGBUF_NO_WAKEUP = 1,
	RINGBUF_FORCE_WAKEUP = 2,
	RINGBUF_AVAILABLE = 0,
};

#ifdef ACLTRACE_USER
#define HELPER(number, type, name, ...) type name(__VA_ARGS__)
#define CONFIG volatile
#else
#define HELPER(number, type, name, ...) static type (*const name)(__VA_ARGS__) = (void *)number
#define CONFIG const volatile
#endif

HELPER(1, void *, map_lookup, void *map, const void *key);
HELPER(2, long, map_update, void *map, const void *key, const void *value, u64 flags);
HELPER(3, long, map_delete, void *map, const void *key);
HELPER(5, u64, ktime_ns, void);
HELPER(14, u64, current_pid_tgid, void);
HELPER(16, long, current_comm, void *buf, u32 size);
HELPER(35, u64, current_task, void);
HELPER(112, long, probe_read_user, void *to, u32 size, const void *from);
HELPER(114, long, probe_read_user_str, void *to, u32 size, const void *from);
HELPER(123, u64, current_ancestor_cgroup_id, int level);
HELPER(130, long, ringbuf_output, void *ring, void *data, u64 size, u64 flags);
HELPER(134, u64, ringbuf_query, void *ring, u64 what);
HELPER(148, long, copy_from_user, void *to, u32 size, const void *from);
HELPER(174, u64, attach_cookie, void *ctx);
HELPER(181, long, loop, u32 times, void *fn, void *ctx, u64 flags);

/*
 * Since Linux 6.13 a program with at least 64 bytes of stack uses a private stack of the processor. That is unsound for
 * uprobes: while a program waits for a page or is preempted, another thread's run of it overwrites that stack. A program with
 * a tail call stays on the thread's stack, and this is a tail call that is never reached.
 */
#ifdef ACLTRACE_USER
#define ON_THREAD_STACK()
#else
#define ON_THREAD_STACK() __asm__ volatile("r0 = 0; if r0 == 0 goto +1; call 12" : : : "r0")
#endif

/* Registers and calling convention. */
#if defined(__TARGET_ARCH_x86)

struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

#define ARG_REGS 6
#define STACK_ARGS 8 /* offset of the first stack argument from the stack pointer at entry */
#define RETURN_POPS 8 /* bytes that a return adds to the stack pointer */

static inline void arg_regs(const struct pt_regs *r, u64 *to)
{
	to[0] = r->di;
	to[1] = r->si;
	to[2] = r->dx;
	to[3] = r->cx;
	to[4] = r->r8;
	to[5] = r->r9;
}

static inline u64 return_value(const struct pt_regs *r) { return r->ax; }
static inline u64 program_counter(const struct pt_regs *r) { return r->ip; }

/* Of a call that begins. */
static inline u64 return_address(const struct pt_regs *r)
{
	u64 a;
	return probe_read_user(&a, sizeof a, (void *)r->sp) ? 0 : a;
}

/* Whether the call instruction before a return address has its target in a register, or in memory that a register points to. */
static inline u8 calls_pointer(u64 from)
{
	u8 b[8];
	if (probe_read_user(b, sizeof b, (void *)(from - sizeof b)))
		return 0;
	if (b[3] == 0xe8 && (u8)(b[7] + 2) < 4) /* at a distance below 32 MiB */
		return 0;
	return (b[6] == 0xff && ((b[7] & 0xf8) == 0xd0 || (b[7] & 0xf8) == 0x10)) || (b[5] == 0xff && ((b[6] & 0xf8) == 0x50 || b[6] == 0x14)) ||
	       (b[4] == 0xff && b[5] == 0x54) || (b[2] == 0xff && (b[3] & 0xf8) == 0x90) || (b[1] == 0xff && b[2] == 0x94);
}

/*
 * Whether a call that entered with this stack pointer is still in progress, seen from a later call that is not above it. During
 * the call its return address is replaced by the kernel's, which is page-aligned. Later calls store other return addresses
 * there, and those are page-aligned only by chance.
 */
static inline u8 call_lives(const struct pt_regs *r __attribute__((unused)), u64 sp)
{
	u64 a;
	return probe_read_user(&a, sizeof a, (void *)sp) || (a != 0 && a % PAGE == 0);
}

/* The same, if the return address is not replaced. */
static inline u8 call_stands(u64 sp, u64 mark)
{
	u64 a;
	return probe_read_user(&a, sizeof a, (void *)sp) || a == mark;
}

#elif defined(__TARGET_ARCH_arm64)

struct pt_regs {
	u64 x[31], sp, pc, pstate;
};

#define ARG_REGS 8
#define STACK_ARGS 0
#define RETURN_POPS 0

static inline void arg_regs(const struct pt_regs *r, u64 *to)
{
	to[0] = r->x[0];
	to[1] = r->x[1];
	to[2] = r->x[2];
	to[3] = r->x[3];
	to[4] = r->x[4];
	to[5] = r->x[5];
	to[6] = r->x[6];
	to[7] = r->x[7];
}

static inline u64 return_value(const struct pt_regs *r) { return r->x[0]; }
static inline u64 program_counter(const struct pt_regs *r) { return r->pc; }

static inline u64 return_address(const struct pt_regs *r) { return r->x[30]; }

static inline u8 calls_pointer(u64 from)
{
	u32 op;
	return probe_read_user(&op, sizeof op, (void *)(from - sizeof op)) == 0 && (op & 0xfffffc1f) == 0xd63f0000; /* blr */
}

/* The place of the return address is unknown. So these distinguish only a new call with the same stack pointer from a jump. */
static inline u8 call_lives(const struct pt_regs *r, u64 sp) { return r->sp != sp || r->x[30] % PAGE == 0; }
static inline u8 call_stands(u64 sp __attribute__((unused)), u64 mark __attribute__((unused))) { return 1; }

#else
#error "no registers for this processor"
#endif

#endif
