/* Kernels for the tests of the simulator. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "aclsim/kernel.h"

#define EXPORT __attribute__((visibility("default")))

/* out[i] = in[i] + tiling->add for tiling->n words, split over the blocks */
struct add_args {
	const uint32_t *in;
	uint32_t *out;
	const struct add_tiling {
		uint32_t n, add;
	} *tiling;
	uint32_t scale;
};

static uint32_t add_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct add_args *a = l->args;
	uint64_t n = 4ull * a->tiling->n;

	if (max >= 3) {
		out[0] = (aclsim_extent){(uintptr_t)a->in, n, ACLSIM_READ, 0};
		out[1] = (aclsim_extent){(uintptr_t)a->out, n, ACLSIM_WRITE, 1};
		out[2] = (aclsim_extent){(uintptr_t)a->tiling, sizeof *a->tiling, ACLSIM_READ, 2};
	}
	return 3;
}

static void add_run(const aclsim_launch *l, uint32_t block)
{
	const struct add_args *a = l->args;
	uint32_t from = (uint64_t)a->tiling->n * block / l->num_blocks;
	uint32_t to = (uint64_t)a->tiling->n * (block + 1) / l->num_blocks;

	for (uint32_t i = from; i < to; i++)
		a->out[i] = a->in[i] * a->scale + a->tiling->add;
}

/* Adds 1 to a counter; a plain one, since a stream runs one kernel at a time. */
static uint32_t count_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	if (max)
		out[0] = (aclsim_extent){*(const uint64_t *)l->args, 8, ACLSIM_READ | ACLSIM_WRITE, 0};
	return 1;
}

static void count_run(const aclsim_launch *l, uint32_t block)
{
	uint64_t *counter = *(uint64_t *const *)l->args;

	(void)block;
	*counter += 1;
}

static void sleep_run(const aclsim_launch *l, uint32_t block)
{
	const uint32_t ms = *(const uint32_t *)l->args;
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	(void)block;
	nanosleep(&t, NULL);
}

static volatile char *volatile page;

static int overflow(int depth)
{
	volatile char frame[4096];

	frame[0] = (char)depth;
	return depth < 0 ? 0 : overflow(depth + 1) + frame[0];
}

/* Ends as its argument says. */
static void fail_run(const aclsim_launch *l, uint32_t block)
{
	const uint32_t how = *(const uint32_t *)l->args;
	int fd;

	if (block != l->num_blocks / 2)
		return;
	switch (how) {
	case SIGSEGV:
		*(volatile uint32_t *volatile)(page + 8) = 1;
		return;
	case SIGBUS:
		fd = memfd_create("short", MFD_CLOEXEC);
		*(volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) = 1;
		return;
	case SIGFPE:
#ifdef __x86_64__
		__asm__ volatile("xorl %%eax, %%eax; xorl %%edx, %%edx; divl %%eax" ::: "eax", "edx");
#endif
		return;
	case SIGILL:
#ifdef __x86_64__
		__asm__ volatile("ud2");
#else
		__asm__ volatile(".inst 0");
#endif
		return;
	case SIGABRT:
		abort();
	case 100:
		overflow(0);
		return;
	case 101:
		exit(7);
	}
}

/* Calls the runtime, which a kernel can't. */
static void call_run(const aclsim_launch *l, uint32_t block)
{
	uint64_t *result = *(uint64_t *const *)l->args;
	int (*get)(int32_t *), device;

	(void)block;
	*(void **)&get = dlsym(RTLD_DEFAULT, "aclrtGetDevice");
	*result = (uint64_t)get(&device);
}

static const aclsim_arg add_layout[] = {
	{"in", ACLSIM_INPUT, 8}, {"out", ACLSIM_OUTPUT, 8}, {"tiling", ACLSIM_TILING, 8}, {"scale", ACLSIM_SCALAR, 4}};
static const aclsim_arg count_layout[] = {{"counter", ACLSIM_INOUT, 8}};
static const aclsim_arg sleep_layout[] = {{"ms", ACLSIM_SCALAR, 4}};

static const aclsim_arg fail_layout[] = {{"how", ACLSIM_SCALAR, 4}, {"buffer", ACLSIM_INOUT, 8}};

static uint32_t fail_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	if (max)
		out[0] = (aclsim_extent){((const uint64_t *)l->args)[1], 128 << 10, ACLSIM_READ | ACLSIM_WRITE, 1};
	return 1;
}

static uint32_t fail_in_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	(void)out;
	(void)max;
	fail_run(l, l->num_blocks / 2);
	return 0;
}

EXPORT const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel kernels[] = {
		{"test_add", 7, add_layout, 4, 0, add_extents, add_run, NULL},
		{"test_count", 0, count_layout, 1, 0, count_extents, count_run, NULL},
		{"test_fail", 0, sleep_layout, 1, 0, NULL, fail_run, NULL},
		{"test_fail_parallel", 0, fail_layout, 2, ACLSIM_PARALLEL, fail_extents, fail_run, NULL},
		{"test_fail_extents", 0, sleep_layout, 1, 0, fail_in_extents, count_run, NULL},
		{"test_call", 0, count_layout, 1, 0, count_extents, call_run, NULL},
		{"test_sleep", 0, sleep_layout, 1, 0, NULL, sleep_run, NULL},
	};
	static const aclsim_kernel_library lib = {ACLSIM_KERNEL_ABI, sizeof kernels / sizeof *kernels, kernels};

	return &lib;
}
