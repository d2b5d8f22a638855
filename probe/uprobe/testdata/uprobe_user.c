/*
 * The BPF programs as functions of an ordinary program, with this processor's registers. calls.h calls one function for each
 * signature in the model, with known arguments. The call ends in `landed`, which saves the registers. The programs must find
 * the words that were passed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACLTRACE_USER
#include "../../bpf/uprobe.bpf.c"

struct test {
	const char *name;
	unsigned char table[sizeof(struct function)];
	unsigned words;
	uint64_t want[MAX_WORDS];
	void (*call)(void);
};

static const struct test tests[];
static struct function table;
static struct thread thread;
static int made, failed;
static unsigned running;
struct pt_regs landed_regs;

void *map_lookup(void *map, const void *key)
{
	static u64 number;
	(void)key;
	if (map == &functions)
		return &table;
	if (map == &threads)
		return made ? &thread : NULL;
	if (map == &counts || map == &counters)
		return &number;
	if (map == &blank) {
		memset(&thread, 0, sizeof thread);
		return &thread;
	}
	return NULL;
}
long map_update(void *map, const void *key, const void *value, u64 flags)
{
	(void)key, (void)value, (void)flags;
	made |= map == &threads;
	return 0;
}
long map_delete(void *map, const void *key)
{
	(void)key;
	if (map == &threads)
		made = 0;
	return 0;
}
u64 ktime_ns(void) { return 1; }
u64 current_pid_tgid(void) { return (u64)7 << 32 | 7; }
long current_comm(void *buf, u32 size) { return (void)buf, (void)size, 0; }
u64 current_task(void) { return 1; }
u64 current_ancestor_cgroup_id(int level) { return (u64)level; }
static struct {
		u64 lost, bytes; /* bytes: size of the calls */
} sent[4];
static unsigned sends;
long ringbuf_output(void *ring, void *data, u64 size, u64 flags)
{
	const struct head *h = data;
	(void)ring, (void)flags;
	if (h->type == EVENT_CALL && sends < sizeof sent / sizeof sent[0]) {
		sent[sends].lost = h->lost;
		sent[sends++].bytes = size - sizeof *h;
	}
	return 0;
}
u64 ringbuf_query(void *ring, u64 what) { return (void)ring, what; }
u64 attach_cookie(void *ctx) { return (void)ctx, running; }
long loop(u32 n, void *fn, void *ctx, u64 flags)
{
	(void)flags;
	for (u32 i = 0; i < n; i++)
		if (((long (*)(u32, void *))fn)(i, ctx))
			break;
	return 0;
}

/* The arguments are numbers, not addresses: only the stack can be read. */
static long from_stack(void *to, u32 size, const void *from)
{
	uint64_t at = (uint64_t)from, sp = (uint64_t)landed_regs.sp;
	if (at < sp - 65536 || at > sp + 65536)
		return -14;
	memcpy(to, from, size);
	return 0;
}
long probe_read_user(void *to, u32 size, const void *from) { return from_stack(to, size, from); }
long copy_from_user(void *to, u32 size, const void *from) { return from_stack(to, size, from); }
long probe_read_user_str(void *to, u32 size, const void *from) { return (void)to, (void)size, (void)from, -14; }

void landed(void);

void seen(void)
{
	const struct test *t = &tests[running];
	struct thread *th = &thread;
	memcpy(&table, t->table, sizeof table);
	made = 0;
	(running % 2 ? enter : enter_loops)(&landed_regs);
	/* A mark is complete at the entry and waits as the first record. */
	const struct record *r = table.mark ? (const struct record *)th->records : record_of(th);
	for (unsigned i = 0; i < t->words; i++)
		if ((table.mark ? th->calls != 1 || r->event.end == 0 : !th->active) || r->words[i] != t->want[i]) {
			printf("%s: word %u is %#llx, want %#llx\n", t->name, i, (unsigned long long)r->words[i], (unsigned long long)t->want[i]);
			failed = 1;
			break;
		}
}

#if defined(__x86_64__)
__asm__(".text\n.globl landed\nlanded:\n"
	"movq %rdi, landed_regs+112(%rip)\nmovq %rsi, landed_regs+104(%rip)\nmovq %rdx, landed_regs+96(%rip)\n"
	"movq %rcx, landed_regs+88(%rip)\nmovq %r8, landed_regs+72(%rip)\nmovq %r9, landed_regs+64(%rip)\n"
	"movq %rsp, landed_regs+152(%rip)\nsubq $8, %rsp\ncall seen\naddq $8, %rsp\nret\n");
_Static_assert(__builtin_offsetof(struct pt_regs, di) == 112 && __builtin_offsetof(struct pt_regs, sp) == 152, "registers");
#else
__asm__(".text\n.globl landed\nlanded:\n"
	"adrp x16, landed_regs\nadd x16, x16, :lo12:landed_regs\n"
	"stp x0, x1, [x16]\nstp x2, x3, [x16, #16]\nstp x4, x5, [x16, #32]\nstp x6, x7, [x16, #48]\nstr x30, [x16, #240]\n"
	"mov x17, sp\nstr x17, [x16, #248]\nstp x29, x30, [sp, #-16]!\nbl seen\nldp x29, x30, [sp], #16\nret\n");
_Static_assert(__builtin_offsetof(struct pt_regs, sp) == 248, "registers");
#endif

#include "calls.h"

/* A thread exits in a call that was sampled out, while it holds other calls. Those come before the gap. */
static void ends_left_out(void)
{
	memset(&thread, 0, sizeof thread);
	made = 1;
	sends = 0;
	thread.held = 2 * sizeof(struct event);
	thread.calls = 2;
	thread.active = LAUNCHING;
	thread.skip = 1;
	forget(1);
	if (made || sends != 2 || sent[0].lost != 0 || sent[0].bytes != 2 * sizeof(struct event) || sent[1].lost != 1 || sent[1].bytes != 0) {
		printf("the end of a thread in a call that was left out: %u records, %llu lost before %llu bytes\n", sends, (unsigned long long)sent[0].lost, (unsigned long long)sent[0].bytes);
		failed = 1;
	}
}

/* The ends of phases find the executors' addresses, also if a phase before them was left by a longjmp, and in a thread with more phases than there is room for. */
static void phases_nest(void)
{
	struct thread *t = &thread;
	u64 got[8], want[8] = {0, 2, 1, 0, 3, 5, 6, 0};
	memset(t, 0, sizeof *t);
	got[0] = phase_ends(t, 900); /* began before the recording */
	phase_begins(t, 900, 1);
	phase_begins(t, 800, 2);
	got[1] = phase_ends(t, 800);
	phase_begins(t, 700, 9); /* left by a longjmp, as the next one shows */
	phase_begins(t, 800, 0);
	phase_ends(t, 800);
	got[2] = phase_ends(t, 900);
	got[3] = t->marks;
	phase_begins(t, 900, 3);
	phase_begins(t, 900, 3); /* the first one was left */
	got[4] = phase_ends(t, 900);
	for (u64 i = 0; i < 2 * MARK_OPEN; i++)
		phase_begins(t, 900 - i, 5 + i);
	for (u64 i = 2 * MARK_OPEN - 1; i > 1; i--)
		if (phase_ends(t, 900 - i) != (i < MARK_OPEN ? 5 + i : 0))
			failed = 1;
	got[6] = phase_ends(t, 899);
	got[5] = phase_ends(t, 900);
	got[7] = t->marks;
	for (unsigned i = 0; i < 8; i++)
		if (failed |= got[i] != want[i])
			printf("phases: %u is %llu, want %llu\n", i, got[i], want[i]);
}

/* A mark is no boundary if it is entered from the same code: two pages before the probe's page to one page after it. */
static void own_marks_are_known(void)
{
	static const struct {
		u64 from;
		u8 inside;
	} tests[] = {{0x0fff, 0}, {0x1000, 1}, {0x3123, 1}, {0x4fff, 1}, {0x5000, 0}, {0x7f0000003000, 0}};
	for (unsigned i = 0; i < sizeof tests / sizeof tests[0]; i++) {
		struct pt_regs r = {0};
#if defined(__x86_64__)
		u64 stack[2] = {tests[i].from, 0};
		landed_regs.sp = r.sp = (u64)stack;
		r.ip = 0x3004;
#else
		r.x[30] = tests[i].from;
		r.pc = 0x3004;
#endif
		if (from_inside(&r, (u64)1 << 48 | (u64)2 << 32 | 7) != tests[i].inside) {
			printf("a mark from %#llx: inside is not %u\n", tests[i].from, tests[i].inside);
			failed = 1;
		}
	}
}

int main(void)
{
	for (running = 0; running < sizeof tests / sizeof tests[0]; running++)
		tests[running].call();
	ends_left_out();
	phases_nest();
	own_marks_are_known();
	printf("%u functions\n", running);
	return failed;
}
