/*
 * One operator, aclnnAffine(x, scale, offset, out): out[i] = scale * x[i], and the last element is offset. The number offset is the address of x, and
 * the operator has a workspace.
 *
 * Compiled with -DKERNEL, this is the operator's kernel, as a library and as a binary. -DNO_CODE: the library declares what the kernel accesses and has
 * no code, and the binary declares no operators. The program launches it with three tensors in one allocation,
 * and copies its output, what is beside it, and its input to the host. "computed" expects that a library computes it, "lies" launches a block with an
 * unknown data type, "large" one of more than 4 KiB, and "quit" ends without aclFinalize.
 */
#include "aclsim/operator.h"

#include "program.h"

enum { N = 64, PAD = 300 };

struct affine {
	aclsim_operator_block head;
	aclsim_operator_param params[5];
	aclsim_operator_tensor x, out, empty;
	int64_t dims[9], scale, offset;
	char name[16];
	int64_t pad[PAD]; /* a list of numbers, addresses of x too */
};

_Static_assert(sizeof(aclsim_operator_block) == 56 && sizeof(aclsim_operator_param) == 16 && sizeof(aclsim_operator_tensor) == 40, "sizes");

#ifdef KERNEL

#include "aclsim/kernel.h"

#ifdef NO_CODE
#define RUN NULL
#else
#define RUN aclnnAffine
__attribute__((used, section(".aclsim.operators"))) static const uint32_t operators = ACLSIM_OPERATOR_VERSION;
#endif

static uint32_t affine_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct affine *a = l->args;
	if (max >= 2) {
		out[0] = (aclsim_extent){a->x.base, 8 * N, ACLSIM_READ, 0};
		out[1] = (aclsim_extent){a->out.base + 8 * (uint64_t)a->out.offset, 8 * N, ACLSIM_WRITE, 0};
	}
	return 2;
}

void aclnnAffine(const aclsim_launch *l, uint32_t block)
{
	const struct affine *a = l->args;
	const int64_t *x = (const int64_t *)(uintptr_t)a->x.base;
	int64_t *out = (int64_t *)(uintptr_t)a->out.base + a->out.offset;
	(void)block;
	for (int i = 0; i < N; i++)
		out[i] = i < N - 1 ? a->scale * x[i] : a->offset;
}

static const aclsim_kernel kernels[] = {{.name = "aclnnAffine", .extents = affine_extents, .run = RUN}};

const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel_library library = {ACLSIM_KERNEL_ABI, 1, kernels};
	return &library;
}

#else

static uint32_t in_block(const struct affine *a, const void *p) { return (uint32_t)((const char *)p - (const char *)a); }

static aclsim_operator_tensor tensor(const struct affine *a, void *base, int64_t offset, uint8_t role, int dim, uint32_t param)
{
	return (aclsim_operator_tensor){.base = (uint64_t)(uintptr_t)base, .offset = offset, .dtype = 9, .format = 2, .role = role, .num_dims = 1, .num_storage_dims = 1,
	                                .dims = in_block(a, &a->dims[3 * dim]), .param = param};
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	static struct affine a;
	static int64_t host[N], got[N];
	aclrtStream s;

	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	aclrtFuncHandle f = kernel(argv[1], "aclnnAffine");
	int64_t *pool = device_memory(2 << 20), *x = pool, *beside = pool + N, *out = pool + 2 * N, *after = pool + 3 * N, *work = pool + 4 * N;

	for (int i = 0; i < N; i++)
		host[i] = i;
	for (int64_t *at = pool; at <= work; at += N)
		to_device(at, host, sizeof host);
	a.head = (aclsim_operator_block){.magic = ACLSIM_OPERATOR_MAGIC, .version = ACLSIM_OPERATOR_VERSION, .size = sizeof a, .workspace = (uint64_t)(uintptr_t)work, .workspace_size = 64,
	                                 .name = in_block(&a, a.name), .num_params = 5, .params = in_block(&a, a.params), .num_tensors = 3, .tensors = in_block(&a, &a.x)};
	strcpy(a.name, "aclnnAffine");
	a.params[0] = (aclsim_operator_param){.type = 'T', .count = 1, .value = 0};
	a.params[1] = (aclsim_operator_param){.type = 'i', .count = 1, .value = in_block(&a, &a.scale)};
	a.params[2] = (aclsim_operator_param){.type = 'u', .count = 1, .value = in_block(&a, &a.offset)};
	a.params[3] = (aclsim_operator_param){.type = 'L', .count = 2, .value = 1};
	a.params[4] = (aclsim_operator_param){.type = 'I', .count = PAD, .value = in_block(&a, a.pad)};
	a.x = tensor(&a, x, 0, ACLSIM_OPERATOR_IN, 0, 0);
	a.out = tensor(&a, pool, 2 * N, ACLSIM_OPERATOR_OUT, 1, 3);
	a.empty = tensor(&a, after, 0, ACLSIM_OPERATOR_OUT, 2, 3);
	a.empty.position = 1;
	memcpy(a.dims, (int64_t[]){N, 1, N, N, 1, 3 * N, 0, 1, 0}, sizeof a.dims);
	a.scale = 3;
	a.offset = (int64_t)(uintptr_t)x;
	for (int i = 0; i < PAD; i++)
		a.pad[i] = (int64_t)(uintptr_t)(x + i % 7);
	uint32_t size = sizeof a;
	if (strcmp(how, "large") != 0) {
		a.params[4].count = 2;
		size = a.head.size = offsetof(struct affine, pad) + 2 * sizeof a.pad[0];
	}
	if (strcmp(how, "lies") == 0)
		a.x.dtype = 99;
	launch(f, 1, s, &a, size);
	CHECK(aclrtSynchronizeStream(s));
	to_host(got, beside, sizeof got);
	EXPECT(got[5] == 5);
	to_host(got, out, sizeof got);
	for (int i = 0; i < N; i++)
		EXPECT(got[i] == (strcmp(how, "computed") != 0 ? i : i < N - 1 ? 3 * i : a.offset));
	to_host(got, x, sizeof got);
	to_host(got, after, sizeof got);
	to_host(got, work, 64);
	to_host(got, work + 8, sizeof got - 64);
	if (strcmp(how, "quit") == 0)
		return 0;
	CHECK(aclrtFree(pool));
	CHECK(aclrtDestroyStream(s));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}

#endif
