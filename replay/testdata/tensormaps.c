/* Tensor maps: of several shapes, with a changed address, and passed to kernels by value, in a structure, in a block, by a graph node, and
 * in device memory, where one crosses the first MiB. Built twice: with KERNEL as the kernels alone, for the fake driver. */
enum { MAPS = 3, LARGE = (1 << 20) + 4096, ACROSS = (1 << 20) - 64 };
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

static uint64_t add(const struct fakecuda_launch *l, const void *map)
{
	struct fakecuda_tensor t;
	uint64_t sum = 0;
	if (!l->tensor(map, &t) || t.rank > 3)
		return 0;
	uint64_t planes = t.rank > 2 ? t.dims[2] : 1, rows = t.rank > 1 ? t.dims[1] : 1;
	for (uint64_t z = 0; z < planes; z++)
		for (uint64_t y = 0; y < rows; y++) {
			const uint8_t *p = l->memory(t.address + z * t.strides[2] + y * t.strides[1], t.dims[0] * t.strides[0]);
			for (uint64_t x = 0; p && x < t.dims[0]; x++)
				sum = sum * 31 + p[x * t.strides[0]];
		}
	return sum;
}

static void put(const struct fakecuda_launch *l, unsigned param, uint64_t sum)
{
	uint64_t at, *to;
	memcpy(&at, l->params[param], 8);
	if ((to = l->memory(at, 8)) != NULL)
		*to = sum;
}

/* *to = the sum of a tensor */
void by_value(const struct fakecuda_launch *l) { put(l, 1, add(l, l->params[0])); }

/* *to = the sum of a structure's second tensor, times a number in the structure */
void in_structure(const struct fakecuda_launch *l)
{
	uint64_t times;
	memcpy(&times, l->params[0], 8);
	put(l, 1, add(l, (const char *)l->params[0] + 192) * times);
}

/* *to = the sum of all tensors whose maps are in memory */
void in_memory(const struct fakecuda_launch *l)
{
	uint64_t at, n, sum = 0;
	memcpy(&at, l->params[0], 8);
	memcpy(&n, l->params[2], 8);
	const char *maps = l->memory(at, n * 128);
	for (uint64_t i = 0; maps && i < n; i++)
		sum += add(l, maps + 128 * i);
	put(l, 1, sum);
}
#else
#include <cuda.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

static CUdeviceptr to;
static CUfunction by_value, in_structure, in_memory;

static uint64_t result(void)
{
	uint64_t got;
	MUST(cuMemcpyDtoH(&got, to, 8) == 0);
	return got;
}

static uint64_t value(const CUtensorMap *map)
{
	void *params[] = {(void *)map, &to};
	MUST(cuLaunchKernel(by_value, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == 0);
	return result();
}

static uint64_t want(const uint8_t *bytes, size_t width, size_t height, size_t pitch)
{
	uint64_t sum = 0;
	for (size_t y = 0; y < height; y++)
		for (size_t x = 0; x < width; x++)
			sum = sum * 31 + bytes[y * pitch + x];
	return sum;
}

int main(void)
{
	static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
		".visible .entry by_value(.param .align 64 .b8 map[128], .param .u64 to)\n{\n\tret;\n}\n"
		".visible .entry in_structure(.param .align 64 .b8 maps[384], .param .u64 to)\n{\n\tret;\n}\n"
		".visible .entry in_memory(.param .u64 maps, .param .u64 to, .param .u64 count)\n{\n\tret;\n}\n";
	CUcontext ctx;
	CUmodule m;
	CUdeviceptr a, b, table;
	static uint8_t bytes[8192], other[8192];
	static alignas(128) CUtensorMap map, plane, image, moved;
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 7 + 3), other[i] = (uint8_t)(i * 11 + 5);
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&by_value, m, "by_value") == 0 && cuModuleGetFunction(&in_structure, m, "in_structure") == 0);
	MUST(cuModuleGetFunction(&in_memory, m, "in_memory") == 0 && cuMemAlloc(&to, 8) == 0 && cuMemAlloc(&a, sizeof bytes) == 0 && cuMemAlloc(&b, sizeof other) == 0);
	MUST(cuMemcpyHtoD(a, bytes, sizeof bytes) == 0 && cuMemcpyHtoD(b, other, sizeof other) == 0 && cuMemAlloc(&table, LARGE) == 0);

	uint64_t dims[] = {96, 20, 1, 1}, strides[] = {128, 4096, 4096};
	uint32_t box[] = {32, 4, 1, 1}, steps[] = {1, 1, 1, 1};
	int lower[] = {-1, -1}, upper[] = {1, 1};
	for (int i = 0; i < 3; i++) { /* as a library does before each launch */
		MUST(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, (void *)(a + 256), dims, NULL, box, steps, 0, 0, 0, 0) == 0);
		MUST(value(&map) == want(bytes + 256, 96, 1, 0));
	}
	MUST(cuTensorMapEncodeTiled(&plane, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)a, dims, strides, box, steps, 0, 0, 0, 0) == 0);
	MUST(value(&plane) == want(bytes, 96, 20, 128));
	MUST(cuTensorMapEncodeIm2col(&image, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, (void *)(b + 64), dims, strides, lower, upper, 16, 8, steps, 0, 0, 0, 0) == 0);
	MUST(cuTensorMapEncodeTiled((CUtensorMap *)((char *)&moved + 8), CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, (void *)a, dims, NULL, box, steps, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	moved = plane;
	MUST(cuTensorMapReplaceAddress(&moved, (void *)(b + 1024)) == 0);
	MUST(value(&moved) == want(other + 1024, 96, 20, 128));

	/* In a structure, in a block, and by a node. */
	static alignas(64) struct { uint64_t times; alignas(64) CUtensorMap first, second; } pair;
	pair.times = 3, pair.first = map, pair.second = moved;
	_Static_assert(sizeof pair <= 384, "as the kernel has it");
	void *params[] = {&pair, &to};
	MUST(cuLaunchKernel(in_structure, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == 0 && result() == 3 * want(other + 1024, 96, 20, 128));
	static alignas(64) struct { CUtensorMap map; CUdeviceptr to; } block;
	block.map = plane, block.to = to;
	size_t size = sizeof block.map + 8;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	MUST(cuLaunchKernel(by_value, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra) == 0 && result() == want(bytes, 96, 20, 128));
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	void *of_node[] = {&moved, &to};
	CUDA_KERNEL_NODE_PARAMS k = {.func = by_value, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = of_node};
	MUST(cuGraphCreate(&graph, 0) == 0 && cuGraphAddKernelNode(&node, graph, NULL, 0, &k) == 0 && cuGraphInstantiate(&exec, graph, 0) == 0);
	MUST(cuGraphLaunch(exec, NULL) == 0 && result() == want(other + 1024, 96, 20, 128));
	of_node[0] = &map;
	MUST(cuGraphExecKernelNodeSetParams(exec, node, &k) == 0 && cuGraphLaunch(exec, NULL) == 0 && result() == want(bytes + 256, 96, 1, 0));

	/* In device memory. */
	CUtensorMap *maps = calloc(1, LARGE), back[MAPS];
	MUST(maps != NULL);
	CUtensorMap *across = (CUtensorMap *)((char *)maps + ACROSS);
	across[0] = map, across[1] = plane, across[2] = moved;
	MUST(cuMemcpyHtoD(table, maps, LARGE) == 0);
	uint64_t count = MAPS;
	CUdeviceptr at = table + ACROSS;
	void *of_memory[] = {&at, &to, &count};
	MUST(cuLaunchKernel(in_memory, 1, 1, 1, 1, 1, 1, 0, NULL, of_memory, NULL) == 0);
	MUST(result() == want(bytes + 256, 96, 1, 0) + want(bytes, 96, 20, 128) + want(other + 1024, 96, 20, 128));
	MUST(cuMemcpyDtoH(back, at, sizeof back) == 0 && memcmp(back, across, sizeof back) == 0);

	/* Other memory at the freed address, with an identical map. */
	MUST(cuMemFree(b) == 0 && cuMemAlloc(&b, sizeof other) == 0 && cuMemcpyHtoD(b, bytes, sizeof bytes) == 0);
	MUST(cuTensorMapEncodeTiled(&moved, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)(b + 1024), dims, strides, box, steps, 0, 0, 0, 0) == 0);
	MUST(value(&moved) == want(bytes + 1024, 96, 20, 128));
	return 0;
}
#endif
