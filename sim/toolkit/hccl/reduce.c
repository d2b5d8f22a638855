/* Reductions. The runtime has those of DMA engines. A kernel of this library, which is its own binary, does the others. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "../../kernels/half.h"
#include "aclsim/kernel.h"
#include "ranks.h"

#define KERNEL "HcclReduceKernel"

struct arguments {
	void *to;
	const void *from;
	uint64_t bytes;
	int32_t type, op;
};

#define JOIN(name, memory, number, load, store) \
	static void name(void *to_, const void *from_, uint64_t n, HcclReduceOp op) \
	{ \
		memory *to = to_; \
		const memory *from = from_; \
\
		for (uint64_t i = 0; i < n; i++) { \
			number a = load(to[i]), b = load(from[i]); \
\
			to[i] = (memory)store(op == HCCL_REDUCE_SUM ? a + b : op == HCCL_REDUCE_PROD ? a * b : op == HCCL_REDUCE_MAX ? (b > a ? b : a) : (b < a ? b : a)); \
		} \
	}

/* Integers wrap around: unsigned sums and products have the bits of signed ones. */
#define INTEGER(bits) \
	static void join_i##bits(void *to_, const void *from_, uint64_t n, HcclReduceOp op) \
	{ \
		int##bits##_t *to = to_; \
		const int##bits##_t *from = from_; \
\
		for (uint64_t i = 0; i < n; i++) { \
			int##bits##_t a = to[i], b = from[i]; \
			uint64_t x = (uint64_t)a, y = (uint64_t)b; \
\
			to[i] = op == HCCL_REDUCE_SUM ? (int##bits##_t)(x + y) : op == HCCL_REDUCE_PROD ? (int##bits##_t)(x * y) : op == HCCL_REDUCE_MAX ? (b > a ? b : a) : (b < a ? b : a); \
		} \
	} \
	JOIN(join_u##bits, uint##bits##_t, uint64_t, , )

INTEGER(8)
INTEGER(16)
INTEGER(32)
INTEGER(64)
JOIN(join_f16, uint16_t, float, from_f16, to_f16)
JOIN(join_bf16, uint16_t, float, from_bf16, to_bf16)
JOIN(join_f32, float, float, , )
JOIN(join_f64, double, double, , )

static const struct {
	uint8_t size;
	int8_t dma; /* type of the DMA engines; -1 for none */
	void (*join)(void *to, const void *from, uint64_t n, HcclReduceOp op);
} types[] = {
	[HCCL_DATA_TYPE_INT8] = {1, ACL_INT8, join_i8},
	[HCCL_DATA_TYPE_INT16] = {2, ACL_INT16, join_i16},
	[HCCL_DATA_TYPE_INT32] = {4, ACL_INT32, join_i32},
	[HCCL_DATA_TYPE_FP16] = {2, ACL_FLOAT16, join_f16},
	[HCCL_DATA_TYPE_FP32] = {4, ACL_FLOAT, join_f32},
	[HCCL_DATA_TYPE_INT64] = {8, -1, join_i64},
	[HCCL_DATA_TYPE_UINT64] = {8, -1, join_u64},
	[HCCL_DATA_TYPE_UINT8] = {1, -1, join_u8},
	[HCCL_DATA_TYPE_UINT16] = {2, -1, join_u16},
	[HCCL_DATA_TYPE_UINT32] = {4, -1, join_u32},
	[HCCL_DATA_TYPE_FP64] = {8, -1, join_f64},
	[HCCL_DATA_TYPE_BFP16] = {2, ACL_BF16, join_bf16},
	[HCCL_DATA_TYPE_INT128] = {16, -1, NULL},
	[HCCL_DATA_TYPE_HIF8] = {1, -1, NULL},
	[HCCL_DATA_TYPE_FP8E4M3] = {1, -1, NULL},
	[HCCL_DATA_TYPE_FP8E5M2] = {1, -1, NULL},
	[HCCL_DATA_TYPE_FP8E8M0] = {1, -1, NULL},
	[HCCL_DATA_TYPE_MXFP8] = {1, -1, NULL},
};

uint64_t element_size(HcclDataType type) { return (unsigned)type < sizeof types / sizeof *types ? types[type].size : 0; }

bool reduces(HcclDataType type, HcclReduceOp op) { return element_size(type) && types[type].join && (unsigned)op <= HCCL_REDUCE_MIN; }

static uint32_t extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct arguments *a = l->args;

	if (max > 0)
		out[0] = (aclsim_extent){(uint64_t)(uintptr_t)a->to, a->bytes, ACLSIM_READ | ACLSIM_WRITE, 0};
	if (max > 1)
		out[1] = (aclsim_extent){(uint64_t)(uintptr_t)a->from, a->bytes, ACLSIM_READ, 1};
	return 2;
}

static void run(const aclsim_launch *l, uint32_t block)
{
	const struct arguments *a = l->args;

	if (block == 0 && reduces((HcclDataType)a->type, (HcclReduceOp)a->op))
		types[a->type].join(a->to, a->from, a->bytes / types[a->type].size, (HcclReduceOp)a->op);
}

static const aclsim_arg arguments[] = {
	{"to", ACLSIM_INOUT, 8}, {"from", ACLSIM_INPUT, 8}, {"bytes", ACLSIM_SCALAR, 8}, {"type", ACLSIM_SCALAR, 4}, {"op", ACLSIM_SCALAR, 4},
};
static const aclsim_kernel kernels[] = {{.name = KERNEL, .args = arguments, .num_args = 5, .extents = extents, .run = run}};

EXPORT const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel_library library = {ACLSIM_KERNEL_ABI, 1, kernels};

	return &library;
}

/* The kernel's symbol in this library as a binary. */
EXPORT void HcclReduceKernel(void);
void HcclReduceKernel(void) {}

static HcclResult load(struct communicator *c)
{
	Dl_info self;

	if (!dladdr((void *)(uintptr_t)load, &self) || !self.dli_fname)
		return HCCL_E_INTERNAL;
	if (!c->binary && aclrtBinaryLoadFromFile(self.dli_fname, NULL, &c->binary)) {
		c->binary = NULL;
		return HCCL_E_RUNTIME;
	}
	return aclrtBinaryGetFunction(c->binary, KERNEL, &c->reduction) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

HcclResult reduce(struct communicator *c, void *to, const void *from, uint64_t bytes, HcclDataType type, HcclReduceOp op, aclrtStream stream)
{
	static const aclrtReduceKind kinds[] = {
		[HCCL_REDUCE_SUM] = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
		[HCCL_REDUCE_MAX] = ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX,
		[HCCL_REDUCE_MIN] = ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN,
	};
	struct arguments a = {to, from, bytes, (int32_t)type, (int32_t)op};
	HcclResult e;

	if (types[type].dma >= 0 && op != HCCL_REDUCE_PROD)
		return aclrtReduceAsync(to, from, bytes, kinds[op], (aclDataType)types[type].dma, stream, NULL) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
	if (!c->reduction && (e = load(c)))
		return e;
	return aclrtLaunchKernelWithHostArgs(c->reduction, 1, stream, NULL, &a, sizeof a, NULL, 0) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

void reduce_end(struct communicator *c)
{
	if (c->binary)
		aclrtBinaryUnLoad(c->binary);
	c->binary = NULL;
	c->reduction = NULL;
}
