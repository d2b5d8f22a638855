/* Captures into an existing graph, after nodes that calls have added: libraries join a program's capture in this way. */
#include <cuda.h>
#include <string.h>

#include "must.h"

enum { N = 64 };
enum { ADD, SET }; /* dependencies */

static void run(CUgraph g, CUstream s, int times)
{
	CUgraphExec x;
	MUST(cuGraphInstantiate(&x, g, 0) == 0);
	for (int i = 0; i < times; i++)
		MUST(cuGraphLaunch(x, s) == 0 && cuStreamSynchronize(s) == 0);
	MUST(cuGraphExecDestroy(x) == 0);
}

static int all(const uint8_t *p, uint8_t v)
{
	for (int i = 0; i < N; i++)
		if (p[i] != v)
			return 0;
	return 1;
}

int main(void)
{
	CUcontext ctx;
	CUstream s, other;
	CUevent e;
	CUdeviceptr x, y;
	CUgraph g, whole, ended;
	CUgraphNode copy, fill, body_node, none = (CUgraphNode)1;
	const CUgraphNode *deps = &none;
	const CUgraphEdgeData *edges;
	CUstreamCaptureStatus status;
	uint64_t id;
	size_t n = 12345;
	uint8_t *host;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == 0 && cuEventCreate(&e, 0) == 0);
	MUST(cuMemAlloc(&x, N) == 0 && cuMemAlloc(&y, N) == 0 && cuMemAllocHost((void **)&host, 4 * N) == 0);
	memset(host, 0, 4 * N);

	/* For a stream without a capture the other outputs are not stored. */
	g = (CUgraph)&n;
	MUST(cuStreamGetCaptureInfo_v2(s, &status, &id, &g, &deps, &n) == 0 && status == CU_STREAM_CAPTURE_STATUS_NONE && n == 12345 && deps == &none);

	for (int turn = 0; turn < 2; turn++) {
		MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
		MUST(cuMemsetD8Async(x, (uint8_t)(7 + turn), N, s) == 0 && cuMemsetD8Async(y, 1, N, s) == 0);
		MUST(cuStreamGetCaptureInfo_v2(s, &status, &id, &g, &deps, &n) == 0 && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && n == 1);
		CUDA_MEMCPY3D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = x, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = y, .WidthInBytes = N, .Height = 1, .Depth = 1};
		MUST(cuGraphAddMemcpyNode(&copy, g, deps, n, &p, ctx) == 0);
		MUST(cuStreamUpdateCaptureDependencies(s, &copy, 1, SET) == 0);
		MUST(cuMemcpyDtoHAsync(host, y, N, s) == 0);
		/* Another stream joins, and later tasks depend on its end. */
		MUST(cuEventRecord(e, s) == 0 && cuStreamWaitEvent(other, e, 0) == 0 && cuMemsetD8Async(x, (uint8_t)(20 + turn), N, other) == 0);
		MUST(cuStreamGetCaptureInfo_v3(other, &status, &id, &whole, &deps, &edges, &n) == 0 && whole == g && n == 1);
		fill = deps[0];
		MUST(cuStreamUpdateCaptureDependencies_v2(s, &fill, NULL, 1, ADD) == 0);
		MUST(cuStreamGetCaptureInfo_v2(s, &status, &id, &whole, &deps, &n) == 0 && n == 2 && (deps[0] == fill || deps[1] == fill));
		MUST(cuMemcpyDtoHAsync(host + N, x, N, s) == 0);
		MUST(cuStreamEndCapture(s, &ended) == 0 && ended == g);
		run(g, s, 2);
		MUST(all(host, (uint8_t)(7 + turn)) && all(host + N, (uint8_t)(20 + turn)));
		MUST(cuGraphDestroy(g) == 0); /* destroys its nodes; their handles may be reused */
	}

	/* Into an existing graph, and into a conditional body of another one. */
	CUDA_MEMSET_NODE_PARAMS m = {.dst = x, .value = 33, .elementSize = 1, .width = N, .height = 1};
	MUST(cuGraphCreate(&g, 0) == 0 && cuGraphAddMemsetNode(&fill, g, NULL, 0, &m, ctx) == 0);
	CUDA_MEMCPY3D first = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = x, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = host, .WidthInBytes = N, .Height = 1, .Depth = 1};
	MUST(cuGraphAddMemcpyNode(&copy, g, &fill, 1, &first, ctx) == 0);
	CUgraphConditionalHandle handle;
	MUST(cuGraphConditionalHandleCreate(&handle, g, ctx, 1, CU_GRAPH_COND_ASSIGN_DEFAULT) == 0);
	CUgraphNodeParams c = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, .conditional = {.handle = handle, .type = CU_GRAPH_COND_TYPE_IF, .size = 1, .ctx = ctx}};
	MUST(cuGraphAddNode(&body_node, g, &copy, 1, &c) == 0);
	MUST(cuStreamBeginCaptureToGraph(other, c.conditional.phGraph_out[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
	MUST(cuMemsetD8Async(x, 44, N, other) == 0 && cuStreamEndCapture(other, &ended) == 0 && ended == c.conditional.phGraph_out[0]);
	MUST(cuStreamBeginCaptureToGraph(s, g, &body_node, NULL, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
	MUST(cuMemcpyDtoHAsync(host + 2 * N, x, N, s) == 0 && cuStreamEndCapture(s, &ended) == 0 && ended == g);
	run(g, s, 1);
	MUST(all(host, 33) && all(host + 2 * N, 44) && cuGraphDestroy(g) == 0);
	MUST(cuMemFreeHost(host) == 0 && cuMemFree(x) == 0 && cuMemFree(y) == 0 && cuStreamDestroy(s) == 0 && cuStreamDestroy(other) == 0 && cuEventDestroy(e) == 0);
	return 0;
}
