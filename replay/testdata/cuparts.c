/*
 * Copies to the host in conditional parts of graphs: a part that runs or not, a loop, a switch, nested parts, captured
 * parts, parts that are changed, and cloned parts. Built twice: with KERNEL as the kernels alone, for the fake driver.
 */
#ifdef KERNEL
#include <fakecuda.h>
#include <stdlib.h>
#include <string.h>

static uint32_t *words(const struct fakecuda_launch *l, uint64_t *handle)
{
	uint64_t at;
	memcpy(handle, l->params[0], sizeof *handle);
	memcpy(&at, l->params[1], sizeof at);
	return l->memory(at, 16);
}

/* The condition is the word, or another value if the test needs one. */
void ask(const struct fakecuda_launch *l)
{
	uint64_t handle;
	uint32_t *x = words(l, &handle);
	const char *other = getenv("OTHER_CONDITION");
	if (x != NULL)
		l->condition(handle, other == NULL || *other == 0 ? x[0] : (uint32_t)atoi(other));
}

/* x[2] counts down. */
void count(const struct fakecuda_launch *l)
{
	uint64_t handle;
	uint32_t *x = words(l, &handle);
	if (x != NULL)
		l->condition(handle, --x[2] > 0);
}

void bump(const struct fakecuda_launch *l)
{
	uint64_t handle;
	uint32_t *x = words(l, &handle);
	if (x != NULL)
		x[1] = 3 * x[1] + 1;
}
#else
#include <cuda.h>
#include <string.h>

#include "must.h"

static CUcontext ctx;
static CUmodule module;
static CUdeviceptr x;
static CUstream s;
static CUgraph g;
static uint32_t *pinned, plain[8];
static uint32_t want_plain, want_pinned, data; /* expected content, and x[1] */

static CUgraphNode kernel(CUgraph in, CUgraphNode behind, const char *name, CUgraphConditionalHandle handle)
{
	CUfunction f;
	CUgraphNode n;
	CUdeviceptr at = x;
	void *params[] = {&handle, &at};
	MUST(cuModuleGetFunction(&f, module, name) == 0);
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = {.func = f, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = params}};
	MUST(cuGraphAddNode(&n, in, &behind, behind != NULL, &p) == 0);
	return n;
}

static CUDA_MEMCPY3D back(void *to, uint32_t word, size_t bytes)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = x + 4 * word, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = to, .WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

static CUgraphNode copy(CUgraph in, CUgraphNode behind, void *to, uint32_t word, size_t bytes)
{
	CUgraphNode n;
	CUDA_MEMCPY3D c = back(to, word, bytes);
	MUST(cuGraphAddMemcpyNode(&n, in, &behind, behind != NULL, &c, ctx) == 0);
	return n;
}

/* A node with parts after a kernel that reads x[0]. */
static const CUgraph *parts(CUgraph in, CUgraphNode behind, CUgraphConditionalNodeType type, unsigned count, CUgraphConditionalHandle *handle)
{
	CUgraphNode n;
	MUST(cuGraphConditionalHandleCreate(handle, in, ctx, 0, CU_GRAPH_COND_ASSIGN_DEFAULT) == 0);
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, .conditional = {.handle = *handle, .type = type, .size = count, .ctx = ctx}};
	CUgraphNode asked = kernel(in, behind, "ask", *handle);
	MUST(cuGraphAddNode(&n, in, &asked, 1, &p) == 0);
	return p.conditional.phGraph_out;
}

static CUgraphExec made(CUgraph of)
{
	CUgraphExec e;
	MUST(cuGraphInstantiate(&e, of, 0) == 0);
	return e;
}

/* The program writes to the memory without a call, and runs the graph with x[0] and x[2]. */
static void run(CUgraphExec e, uint32_t value, uint32_t turns)
{
	static uint32_t runs;
	uint32_t first[4] = {value, data, turns, 0};
	want_plain = plain[0] = 1000 + runs;
	want_pinned = pinned[0] = 2000 + runs++;
	MUST(cuMemcpyHtoD(x, first, sizeof first) == 0);
	MUST(cuGraphLaunch(e, s) == 0 && cuStreamSynchronize(s) == 0);
}

static void brought(uint32_t a, uint32_t b) { MUST(plain[0] == a && pinned[0] == b); }
static uint32_t bumped(void) { return data = 3 * data + 1; }

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .entry ask(.param .u64 handle, .param .u64 at)\n{\n\tret;\n}\n"
		".visible .entry count(.param .u64 handle, .param .u64 at)\n{\n\tret;\n}\n"
		".visible .entry bump(.param .u64 handle, .param .u64 at)\n{\n\tret;\n}\n";
	const char *how = argc > 1 ? argv[1] : "";
	CUgraphConditionalHandle h, within;
	const CUgraph *part;
	CUgraphExec e;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuModuleLoadData(&module, ptx) == 0 && cuMemAlloc(&x, 16) == 0 && cuMemAllocHost((void **)&pinned, 64) == 0);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuGraphCreate(&g, 0) == 0);
	data = 1;

	if (strcmp(how, "if") == 0) {
		part = parts(g, NULL, CU_GRAPH_COND_TYPE_IF, 1, &h);
		CUgraphNode n = kernel(part[0], NULL, "bump", 0);
		copy(part[0], n, plain, 1, 4);
		copy(part[0], n, pinned, 1, 4);
		e = made(g);
		run(e, 1, 0);
		bumped();
		brought(data, data);
		run(e, 0, 0);
		brought(want_plain, want_pinned);
		run(e, 1, 0);
		bumped();
		brought(data, data);
	} else if (strcmp(how, "while") == 0) {
		part = parts(g, NULL, CU_GRAPH_COND_TYPE_WHILE, 1, &h);
		CUgraphNode n = kernel(part[0], NULL, "bump", 0);
		copy(part[0], kernel(part[0], n, "count", h), plain, 1, 4);
		e = made(g);
		run(e, 1, 3);
		bumped(), bumped();
		brought(bumped(), want_pinned);
		run(e, 0, 3);
		brought(want_plain, want_pinned);
	} else if (strcmp(how, "switch") == 0) {
		/* Two of three copy to the same memory. */
		part = parts(g, NULL, CU_GRAPH_COND_TYPE_SWITCH, 3, &h);
		copy(part[0], NULL, plain, 0, 4);
		copy(part[1], kernel(part[1], NULL, "bump", 0), plain, 1, 4);
		copy(part[2], NULL, pinned, 2, 4);
		e = made(g);
		run(e, 0, 9);
		brought(0, want_pinned);
		run(e, 1, 9);
		brought(bumped(), want_pinned);
		run(e, 2, 9);
		brought(want_plain, 9);
		run(e, 5, 9);
		brought(want_plain, want_pinned);
	} else if (strcmp(how, "nested") == 0) {
		/* A loop that may not run, concurrent with a switch. */
		part = parts(g, NULL, CU_GRAPH_COND_TYPE_IF, 1, &h);
		const CUgraph *loop = parts(part[0], NULL, CU_GRAPH_COND_TYPE_WHILE, 1, &within);
		CUgraphNode n = kernel(loop[0], NULL, "bump", 0);
		copy(loop[0], kernel(loop[0], n, "count", within), plain, 1, 4);
		part = parts(part[0], NULL, CU_GRAPH_COND_TYPE_IF, 2, &within);
		copy(part[0], NULL, pinned, 0, 4);
		copy(part[1], NULL, pinned, 1, 4);
		e = made(g);
		run(e, 7, 2);
		bumped();
		brought(bumped(), 7);
		run(e, 0, 2);
		brought(want_plain, want_pinned);
	} else if (strcmp(how, "flight") == 0) {
		/* No wait in between: the first run's result is overwritten or still there after the second. */
		static uint32_t on[4] = {1, 5}, off[4] = {0, 6};
		part = parts(g, NULL, CU_GRAPH_COND_TYPE_IF, 1, &h);
		copy(part[0], NULL, pinned, 1, 4);
		e = made(g);
		pinned[0] = 99;
		MUST(cuMemcpyHtoDAsync(x, on, sizeof on, s) == 0 && cuGraphLaunch(e, s) == 0);
		MUST(cuMemcpyHtoDAsync(x, off, sizeof off, s) == 0 && cuGraphLaunch(e, s) == 0 && cuStreamSynchronize(s) == 0);
		MUST(pinned[0] == 5);
	} else if (strcmp(how, "captured") == 0) {
		/* The graph is captured too: a part is added after the captured nodes. */
		CUstream other;
		CUstreamCaptureStatus status;
		CUgraph in, same;
		const CUgraphNode *tails;
		size_t count;
		CUgraphNode n;
		MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == 0 && cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
		MUST(cuMemcpyDtoHAsync(pinned + 1, x, 4, s) == 0);
		MUST(cuStreamGetCaptureInfo(s, &status, NULL, &in, &tails, &count) == 0 && count == 1);
		part = parts(in, tails[0], CU_GRAPH_COND_TYPE_IF, 1, &h);
		MUST(cuStreamBeginCaptureToGraph(other, part[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
		MUST(cuMemcpyDtoHAsync(pinned, x + 4, 4, other) == 0 && cuStreamEndCapture(other, &same) == 0 && same == part[0]);
		MUST(cuStreamEndCapture(s, &in) == 0);
		n = copy(in, NULL, pinned + 2, 1, 4);
		(void)n;
		e = made(in);
		run(e, 1, 0);
		MUST(pinned[0] == 1 && pinned[1] == 1 && pinned[2] == 1);
		run(e, 0, 0);
		MUST(pinned[0] == want_pinned && pinned[1] == 0);
	} else if (strcmp(how, "update") == 0) {
		CUgraph other, clone;
		CUgraphExecUpdateResultInfo info;
		part = parts(g, NULL, CU_GRAPH_COND_TYPE_IF, 1, &h);
		CUgraphNode n = copy(part[0], NULL, plain, 1, 4);
		MUST(cuGraphClone(&clone, g) == 0); /* has the current part */
		CUDA_MEMCPY3D c = back(pinned, 1, 4);
		e = made(g);
		MUST(cuGraphMemcpyNodeSetParams(n, &c) == 0);
		run(e, 1, 0);
		brought(1, want_pinned);
		MUST(cuGraphExecUpdate(e, g, &info) == 0);
		run(e, 1, 0);
		brought(want_plain, 1);
		CUgraphExec second = made(clone);
		run(second, 1, 0);
		brought(1, want_pinned);
		run(second, 0, 0);
		brought(want_plain, want_pinned);
		/* As a child of another graph. */
		MUST(cuGraphCreate(&other, 0) == 0 && cuGraphAddChildGraphNode(&n, other, NULL, 0, clone) == 0);
		e = made(other);
		run(e, 1, 0);
		brought(1, want_pinned);
		run(e, 0, 0);
		brought(want_plain, want_pinned);
	} else if (strcmp(how, "large") == 0) {
		/* Memory too large to be recorded before the run. */
		enum { LARGE = 20000 };
		static uint8_t *much;
		MUST(cuMemAllocHost((void **)&much, LARGE) == 0 && cuMemFree(x) == 0 && cuMemAlloc(&x, LARGE) == 0 && cuMemsetD8(x, 7, LARGE) == 0);
		part = parts(g, NULL, CU_GRAPH_COND_TYPE_IF, 1, &h);
		copy(part[0], NULL, much, 0, LARGE);
		copy(g, NULL, pinned, 1, 4);
		e = made(g);
		run(e, 1, 0);
		MUST(much[0] == 1 && much[LARGE - 1] == 7 && cuMemFreeHost(much) == 0);
	} else
		MUST(0);
	MUST(cuGraphExecDestroy(e) == 0 && cuGraphDestroy(g) == 0 && cuMemFree(x) == 0 && cuMemFreeHost(pinned) == 0);
	return 0;
}
#endif
