/* cuGraphAddNode and cuGraphNodeSetParams: a structure contains the node type. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) { return set_event(NULL, hNode, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD); }

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) { return set_event(NULL, hNode, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT); }

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec x, CUgraphNode hNode, CUevent event) { return x ? set_event(x, hNode, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD) : INVALID; }

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec x, CUgraphNode hNode, CUevent event) { return x ? set_event(x, hNode, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT) : INVALID; }

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return set_task(hGraphExec, hNode, hGraphExec && nodeParams ? new_call(nodeParams) : NULL, CU_GRAPH_NODE_TYPE_HOST);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
	FIND(graph, child, graph_of(childGraph, false), INVALID);
	if (hGraphExec == NULL)
		return leave(INVALID);
	struct task *t = new_task(run_graph);
	t->graph = copy_graph(child, true);
	return set_node(hGraphExec, hNode, t, CU_GRAPH_NODE_TYPE_GRAPH);
}

/* Batched memory operations on the device. Only writes are implemented. */
void write_values(struct task *t)
{
	const CUstreamBatchMemOpParams *ops = (const CUstreamBatchMemOpParams *)t->args;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < t->value; i++) {
		size_t n = ops[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;
		uint8_t *p = seen(ops[i].writeValue.address, n);
		if (p)
			memcpy(p, &ops[i].writeValue.value64, n);
		else
			t->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	pthread_mutex_unlock(&lock);
}

static struct task *new_values(const CUstreamBatchMemOpParams *ops, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (ops[i].operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 && ops[i].operation != CU_STREAM_MEM_OP_WRITE_VALUE_64)
			return NULL;
	struct task *t = new_task(write_values);
	t->args = same(ops, count * sizeof *ops);
	t->value = count;
	return t;
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	struct task *t = nodeParams && nodeParams->paramArray ? new_values(nodeParams->paramArray, nodeParams->count) : NULL;
	return add_task(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
}

/* A graph's memory exists from the node's creation on. */
CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	if (nodeParams == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	CUresult e = graph_of(hGraph, false) ? allocate_in(nodeParams->poolProps.location.id, &nodeParams->dptr, nodeParams->bytesize, PLAIN, 0, GRAPHS_AT, RESERVE_AT) : INVALID;
	return e ? leave(e) : put_node(phGraphNode, hGraph, dependencies, numDependencies, new_task(NULL), CU_GRAPH_NODE_TYPE_MEM_ALLOC);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr)
{
	pthread_mutex_lock(&lock);
	if (block_at(dptr, PLAIN) == NULL)
		return leave(INVALID);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, new_task(NULL), CU_GRAPH_NODE_TYPE_MEM_FREE);
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx, unsigned defaultLaunchValue, unsigned flags)
{
	(void)ctx;
	pthread_mutex_lock(&lock);
	if (graph_of(hGraph, false) == NULL || pHandle_out == NULL)
		return leave(INVALID);
	struct condition *c = make(CONDITION, sizeof *c);
	c->value = c->first = defaultLaunchValue;
	c->assigned = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0;
	return STORE(pHandle_out, (CUgraphConditionalHandle)(uintptr_t)c);
}

static void run_conditional(struct task *t)
{
	for (uint32_t n = 0; t->ctx->error == OK; n++) {
		uint32_t v = t->condition->value, body = v;
		if (t->how == CU_GRAPH_COND_TYPE_IF)
			body = v ? 0 : 1;
		else if (t->how == CU_GRAPH_COND_TYPE_WHILE)
			body = v ? 0 : t->bodies_count;
		if (body >= t->bodies_count || (n > 0 && t->how != CU_GRAPH_COND_TYPE_WHILE))
			return;
		struct task run = {.ctx = t->ctx, .graph = (struct graph *)t->bodies[body]};
		run_graph(&run);
	}
}

static CUresult conditional_node(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUDA_CONDITIONAL_NODE_PARAMS *p)
{
	FIND(condition, c, known(CONDITION, (void *)(uintptr_t)p->handle), INVALID);
	if (p->size == 0 || (p->type != CU_GRAPH_COND_TYPE_SWITCH && p->size > 2))
		return leave(INVALID);
	struct task *t = new_task(run_conditional);
	t->condition = c, t->how = p->type, t->bodies_count = p->size;
	t->bodies = calloc(p->size, sizeof *t->bodies);
	for (uint32_t i = 0; i < p->size; i++)
		t->bodies[i] = (CUgraph)new_graph(false);
	p->phGraph_out = t->bodies;
	return put_node(out, g, needs, count, t, CU_GRAPH_NODE_TYPE_CONDITIONAL);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUgraphNodeParams *p)
{
	CUcontext ctx = (CUcontext)current();
	if (p == NULL)
		return INVALID;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, (const CUDA_KERNEL_NODE_PARAMS *)&p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return cuGraphAddMemcpyNode(phGraphNode, hGraph, dependencies, numDependencies, &p->memcpy.copyParams, p->memcpy.copyCtx ? p->memcpy.copyCtx : ctx);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return cuGraphAddMemsetNode(phGraphNode, hGraph, dependencies, numDependencies, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset, p->memset.ctx ? p->memset.ctx : ctx);
	case CU_GRAPH_NODE_TYPE_HOST:
		return cuGraphAddHostNode(phGraphNode, hGraph, dependencies, numDependencies, (const CUDA_HOST_NODE_PARAMS *)&p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies, numDependencies, p->graph.graph);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return cuGraphAddEmptyNode(phGraphNode, hGraph, dependencies, numDependencies);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuGraphAddEventWaitNode(phGraphNode, hGraph, dependencies, numDependencies, p->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuGraphAddEventRecordNode(phGraphNode, hGraph, dependencies, numDependencies, p->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(phGraphNode, hGraph, dependencies, numDependencies, p->free.dptr);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return cuGraphAddBatchMemOpNode(phGraphNode, hGraph, dependencies, numDependencies, (const CUDA_BATCH_MEM_OP_NODE_PARAMS *)&p->memOp);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return conditional_node(phGraphNode, hGraph, dependencies, numDependencies, &p->conditional);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	(void)dependencyData; /* every edge is a full dependency */
	return cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

static CUresult set_tagged(CUgraphExec x, CUgraphNode n, CUgraphNodeParams *p)
{
	CUcontext ctx = (CUcontext)current();
	if (p == NULL)
		return INVALID;
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return set_kernel(x, n, (const CUDA_KERNEL_NODE_PARAMS_v1 *)&p->kernel, p->kernel.kern);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return x ? cuGraphExecMemcpyNodeSetParams(x, n, &p->memcpy.copyParams, ctx) : cuGraphMemcpyNodeSetParams(n, &p->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return x ? cuGraphExecMemsetNodeSetParams(x, n, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset, ctx) : cuGraphMemsetNodeSetParams(n, (const CUDA_MEMSET_NODE_PARAMS *)&p->memset);
	case CU_GRAPH_NODE_TYPE_HOST:
		return x ? cuGraphExecHostNodeSetParams(x, n, (const CUDA_HOST_NODE_PARAMS *)&p->host) : cuGraphHostNodeSetParams(n, (const CUDA_HOST_NODE_PARAMS *)&p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return x ? cuGraphExecChildGraphNodeSetParams(x, n, p->graph.graph) : CUDA_ERROR_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return set_event(x, n, p->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? p->eventWait.event : p->eventRecord.event, p->type);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) { return set_tagged(NULL, hNode, nodeParams); }

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return hGraphExec ? set_tagged(hGraphExec, hNode, nodeParams) : INVALID;
}
