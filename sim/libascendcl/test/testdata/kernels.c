/* Kernels for the tests of the simulator. */
#include <dlfcn.h>
#include <string.h>
#include <time.h>

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

/* Touches what it did not declare. */
static void crash_run(const aclsim_launch *l, uint32_t block)
{
	uint32_t *volatile nowhere = (uint32_t *)8;

	(void)l;
	(void)block;
	*nowhere = 1;
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

EXPORT const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel kernels[] = {
		{"test_add", 7, add_layout, 4, 0, add_extents, add_run, NULL},
		{"test_count", 0, count_layout, 1, 0, count_extents, count_run, NULL},
		{"test_crash", 0, NULL, 0, 0, NULL, crash_run, NULL},
		{"test_call", 0, count_layout, 1, 0, count_extents, call_run, NULL},
		{"test_sleep", 0, sleep_layout, 1, 0, NULL, sleep_run, NULL},
	};
	static const aclsim_kernel_library lib = {ACLSIM_KERNEL_ABI, sizeof kernels / sizeof *kernels, kernels};

	return &lib;
}
