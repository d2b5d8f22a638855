/*
 * Handles that only an array of the driver gives: the nodes of a captured graph, and a kernel of a module. Built twice: with KERNEL as the kernel
 * alone, for the fake driver.
 */
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* to[i] += 1 */
void next(const struct fakecuda_launch *l)
{
	uint64_t to;
	memcpy(&to, l->params[0], 8);
	uint8_t *out = l->memory(to, 64);
	for (int i = 0; out && i < 64; i++)
		out[i]++;
}
#else
#include <cuda.h>

#include "must.h"

enum { N = 64, CAPTURED = 600 }; /* an array of more than 4 KiB */

int main(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry next(.param .u64 to)\n{\n\tret;\n}\n";
	CUcontext ctx;
	CUmodule m;
	CUfunction next;
	CUdeviceptr x;
	CUstream s;
	CUgraph g;
	CUgraphExec exec;
	CUgraphNode nodes[CAPTURED + 8], own, from[CAPTURED + 8], to[CAPTURED + 8];
	size_t n = 0, edges = CAPTURED + 8;
	uint8_t got[N];
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuMemAlloc(&x, N) == 0 && cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0);
	MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleEnumerateFunctions(&next, 1, m) == 0);
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
	for (int i = 0; i < CAPTURED; i++)
		MUST(cuMemsetD8Async(x, (uint8_t)i, N, s) == 0);
	MUST(cuStreamEndCapture(s, &g) == 0);
	MUST(cuGraphGetNodes(g, NULL, &n) == 0 && n == CAPTURED);
	n = CAPTURED + 8;
	MUST(cuGraphGetNodes(g, nodes, &n) == 0 && n == CAPTURED);
	CUgraphNode last = nodes[CAPTURED - 1];
	CUDA_MEMSET_NODE_PARAMS p = {.dst = x, .value = 40, .elementSize = 1, .width = N, .height = 1};
	MUST(cuGraphInstantiate(&exec, g, 0) == 0);
	MUST(cuGraphGetEdges(g, from, to, &edges) == 0 && edges == CAPTURED - 1); /* known by now */
	for (uint8_t run = 0; run < 3; run++) {
		p.value = 40 + run;
		MUST(cuGraphExecMemsetNodeSetParams(exec, last, &p, ctx) == 0);
		void *params[] = {&x};
		MUST(cuGraphLaunch(exec, s) == 0 && cuLaunchKernel(next, 1, 1, 1, 1, 1, 1, 0, s, params, NULL) == 0 && cuStreamSynchronize(s) == 0);
		MUST(cuMemcpyDtoH(got, x, N) == 0 && got[0] == 41 + run && got[N - 1] == 41 + run);
	}
	/* A node that the program has added is known. */
	p.value = 7;
	MUST(cuGraphAddMemsetNode(&own, g, &last, 1, &p, ctx) == 0);
	n = 1;
	MUST(cuGraphNodeGetDependencies(own, nodes, &n) == 0 && n == 1 && nodes[0] == last);
	return 0;
}
#endif
