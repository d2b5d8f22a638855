/* A part of a graph that loops while a kernel asks for it, with nodes in it, and graph memory from a dedicated function.
 * Built twice: with KERNEL as the kernel alone, for the fake driver. */
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* counts[0] counts down, counts[1] sums its values. */
void count(const struct fakecuda_launch *l)
{
	uint64_t handle, at;
	memcpy(&handle, l->params[0], sizeof handle);
	memcpy(&at, l->params[1], sizeof at);
	uint32_t *counts = l->memory(at, 8);
	if (counts == NULL)
		return;
	counts[1] += counts[0]--;
	l->condition(handle, counts[0] > 0);
}
#else
#include <cuda.h>

#include "must.h"

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry count(.param .u64 handle, .param .u64 counts)\n{\n\tret;\n}\n";
	CUcontext ctx;
	CUmodule m;
	CUfunction f;
	CUdeviceptr counts;
	CUgraph g;
	CUgraphExec x;
	CUgraphNode n, loop, memory, copy;
	CUgraphConditionalHandle handle, other;
	uint32_t first[2] = {4, 0}, last[2];
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&f, m, "count") == 0);
	MUST(cuMemAlloc(&counts, sizeof first) == 0 && cuMemcpyHtoD(counts, first, sizeof first) == 0);
	MUST(cuGraphCreate(&g, 0) == 0);
	MUST(cuGraphConditionalHandleCreate(&other, g, ctx, 7, 0) == 0);
	MUST(cuGraphConditionalHandleCreate(&handle, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT) == 0 && handle != other);

	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}, .bytesize = sizeof last};
	MUST(cuGraphAddMemAllocNode(&memory, g, NULL, 0, &alloc) == 0 && alloc.dptr != 0);

	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, .conditional = {.handle = handle, .type = CU_GRAPH_COND_TYPE_WHILE, .size = 1, .ctx = ctx}};
	MUST(cuGraphAddNode(&loop, g, &memory, 1, &p) == 0);
	void *params[] = {&handle, &counts};
	CUgraphNodeParams kernel = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = {.func = f, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = params}};
	MUST(cuGraphAddNode(&n, p.conditional.phGraph_out[0], NULL, 0, &kernel) == 0);

	/* The result passes through the graph's own memory. */
	CUgraphNodeParams there = {.type = CU_GRAPH_NODE_TYPE_MEMCPY}, back;
	there.memcpy.copyParams = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = counts, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = alloc.dptr, .WidthInBytes = sizeof last, .Height = 1, .Depth = 1};
	MUST(cuGraphAddNode(&copy, g, &loop, 1, &there) == 0);
	back = there;
	back.memcpy.copyParams.srcDevice = alloc.dptr;
	back.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_HOST;
	back.memcpy.copyParams.dstHost = last;
	MUST(cuGraphAddNode(&n, g, &copy, 1, &back) == 0);
	MUST(cuGraphAddMemFreeNode(&n, g, &n, 1, alloc.dptr) == 0);
	MUST(cuGraphInstantiate(&x, g, 0) == 0 && cuGraphLaunch(x, NULL) == 0 && cuCtxSynchronize() == 0);
	MUST(last[0] == 0 && last[1] == 4 + 3 + 2 + 1);

	/* The type of a node can't change, and an unknown type is refused. */
	CUgraphNodeParams none = {.type = 99};
	(void)argv;
	if (argc > 1)
		MUST(cuGraphNodeSetParams(copy, &p) != 0 && cuGraphAddNode(&n, g, NULL, 0, &none) != 0 && cuGraphAddNode(&n, g, NULL, 0, NULL) != 0);
	MUST(cuMemcpyDtoH(last, counts, sizeof last) == 0 && last[1] == 10);
	MUST(cuGraphExecDestroy(x) == 0 && cuGraphDestroy(g) == 0 && cuMemFree(counts) == 0);
	return 0;
}
#endif
