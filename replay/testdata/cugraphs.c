/* Graphs whose nodes are copies of known sizes, so the duration of a run at a known rate is known: the longest path
 * through the dependencies. Each graph is made, or changed, in another way, and runs on a stream of its own. Prints each duration
 * in units. */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "must.h"

enum { UNIT = 1000 };
enum { ADD, SET }; /* dependencies */

static CUcontext ctx;
static CUdeviceptr from, to;

static CUDA_MEMCPY3D part(size_t units)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to, .WidthInBytes = units * UNIT, .Height = 1, .Depth = 1};
}

static CUgraphNode add(CUgraph g, CUgraphNode after, size_t units)
{
	CUgraphNode n;
	CUDA_MEMCPY3D p = part(units);
	MUST(cuGraphAddMemcpyNode(&n, g, after ? &after : NULL, after != NULL, &p, ctx) == 0);
	return n;
}

static CUgraph new_graph(void)
{
	CUgraph g;
	MUST(cuGraphCreate(&g, 0) == 0);
	return g;
}

static void launch(CUgraphExec x, int units)
{
	CUstream s;
	printf("%d\n", units);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuGraphLaunch(x, s) == 0 && cuStreamSynchronize(s) == 0);
}

static CUgraphExec made(CUgraph g)
{
	CUgraphExec x;
	MUST(cuGraphInstantiate(&x, g, 0) == 0);
	return x;
}

static void run(CUgraph g, int units)
{
	CUgraphExec x = made(g);
	launch(x, units);
	MUST(cuGraphExecDestroy(x) == 0);
}

static void copy(CUstream s, size_t units) { MUST(cuMemcpyDtoDAsync(to, from, units * UNIT, s) == 0); }

/* A node that the program adds within a capture, with dependent and concurrent nodes. */
static void captured(void)
{
	CUstream s, other;
	CUevent e;
	CUgraph g, ended;
	CUgraphExec x;
	CUstreamCaptureStatus status;
	uint64_t id;
	const CUgraphNode *deps;
	size_t n;
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == 0 && cuEventCreate(&e, 0) == 0);
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
	copy(s, 1);
	MUST(cuEventRecord(e, s) == 0);
	MUST(cuStreamGetCaptureInfo_v2(s, &status, &id, &g, &deps, &n) == 0 && n == 1);
	CUgraphNode first = deps[0], own = add(g, first, 2);
	copy(s, 8); /* concurrent with it */
	MUST(cuStreamUpdateCaptureDependencies(s, &own, 1, ADD) == 0);
	copy(s, 4); /* after both: 13 */
	MUST(cuStreamUpdateCaptureDependencies(s, &own, 1, SET) == 0);
	copy(s, 32); /* after it alone: 35 */
	MUST(cuStreamWaitEvent(other, e, 0) == 0);
	copy(other, 16);
	MUST(cuStreamGetCaptureInfo_v2(other, &status, &id, NULL, &deps, &n) == 0 && n == 1);
	CUgraphNode joined = deps[0];
	MUST(cuStreamUpdateCaptureDependencies(s, &joined, 1, ADD) == 0);
	copy(s, 64); /* after the 32 and the 16: 99 */
	MUST(cuStreamEndCapture(s, &ended) == 0 && ended == g);
	run(g, 99);
	/* An executable graph launched inside a capture. */
	x = made(g);
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
	copy(s, 1);
	MUST(cuGraphLaunch(x, s) == 0);
	copy(s, 2);
	MUST(cuStreamEndCapture(s, &ended) == 0);
	run(ended, 102);
	MUST(cuGraphExecDestroy(x) == 0 && cuGraphDestroy(ended) == 0 && cuGraphDestroy(g) == 0);
}

/* Edges that are added and removed, and a node too. */
static void edges(void)
{
	CUgraph g = new_graph();
	CUgraphNode a = add(g, NULL, 1), b = add(g, a, 2), c = add(g, b, 4), d = add(g, NULL, 8);
	run(g, 8);
	MUST(cuGraphRemoveDependencies(g, &b, &c, 1) == 0);
	CUgraphNode before[] = {d, c}, behind[] = {a, b};
	MUST(cuGraphAddDependencies(g, before, behind, 2) == 0);
	run(g, 11);
	MUST(cuGraphDestroyNode(a) == 0);
	run(g, 8);
	CUgraphNode late = add(g, d, 16);
	MUST(cuGraphAddDependencies(g, &late, &c, 1) == 0); /* which was added before it */
	run(g, 30);
	MUST(cuGraphDestroy(g) == 0);
}

/* Nodes of a clone differ from the nodes of its original. */
static void clones(void)
{
	CUgraph g = new_graph(), clone;
	CUgraphNode a = add(g, NULL, 1), b = add(g, a, 2), x, y;
	MUST(cuGraphClone(&clone, g) == 0 && cuGraphNodeFindInClone(&x, a, clone) == 0 && cuGraphNodeFindInClone(&y, b, clone) == 0);
	CUDA_MEMCPY3D p = part(16);
	MUST(cuGraphMemcpyNodeSetParams(x, &p) == 0);
	add(clone, y, 4);
	run(g, 3);
	run(clone, 22);
	CUgraphExec e = made(clone);
	p = part(32);
	MUST(cuGraphExecMemcpyNodeSetParams(e, y, &p, ctx) == 0);
	launch(e, 52);
	MUST(cuGraphNodeSetEnabled(e, x, 0) == 0);
	launch(e, 36);
	MUST(cuGraphExecDestroy(e) == 0 && cuGraphDestroy(g) == 0);
	run(clone, 22);
	MUST(cuGraphDestroy(clone) == 0);
}

/* A child graph, changed and then replaced. */
static void parts(void)
{
	CUgraph outer = new_graph(), g = new_graph(), other = new_graph(), inner;
	CUgraphNode child;
	add(g, add(g, NULL, 1), 2);
	add(other, add(other, NULL, 16), 32);
	MUST(cuGraphAddChildGraphNode(&child, outer, NULL, 0, g) == 0);
	CUgraphNode last = add(outer, child, 4);
	CUgraphExec x = made(outer);
	launch(x, 7);
	MUST(cuGraphExecChildGraphNodeSetParams(x, child, other) == 0);
	launch(x, 52);
	MUST(cuGraphChildGraphNodeGetGraph(child, &inner) == 0);
	add(inner, NULL, 64);
	run(outer, 68);
	launch(x, 52);
	/* All nodes. */
	CUgraphExecUpdateResultInfo info;
	CUDA_MEMCPY3D p = part(8);
	MUST(cuGraphMemcpyNodeSetParams(last, &p) == 0 && cuGraphExecUpdate(x, outer, &info) == 0);
	launch(x, 72);
	MUST(cuGraphExecDestroy(x) == 0 && cuGraphDestroy(outer) == 0 && cuGraphDestroy(g) == 0 && cuGraphDestroy(other) == 0);
}

/* Conditional bodies: built, then replaced. */
static CUgraph conditional(size_t units, CUgraph *body)
{
	CUgraph g = new_graph();
	CUgraphNode a = add(g, NULL, 1), n;
	CUgraphConditionalHandle handle;
	MUST(cuGraphConditionalHandleCreate(&handle, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT) == 0);
	CUgraphNodeParams c = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, .conditional = {.handle = handle, .type = CU_GRAPH_COND_TYPE_IF, .size = 1, .ctx = ctx}};
	MUST(cuGraphAddNode(&n, g, &a, 1, &c) == 0);
	*body = c.conditional.phGraph_out[0];
	add(*body, NULL, units);
	add(g, n, 2);
	return g;
}

static void bodies(void)
{
	CUgraph body, changed, g = conditional(4, &body), h = conditional(16, &changed);
	CUgraphExecUpdateResultInfo info;
	CUgraphExec x = made(g);
	launch(x, 7);
	MUST(cuGraphExecUpdate(x, h, &info) == 0);
	launch(x, 19);
	CUgraphNode more = add(body, NULL, 8);
	run(g, 11);
	MUST(cuGraphDestroyNode(more) == 0);
	run(g, 7);
	MUST(cuGraphExecDestroy(x) == 0 && cuGraphDestroy(g) == 0 && cuGraphDestroy(h) == 0);
}

int main(void)
{
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuMemAlloc(&from, 64 * UNIT) == 0 && cuMemAlloc(&to, 64 * UNIT) == 0);
	captured();
	edges();
	clones();
	parts();
	bodies();
	return 0;
}
