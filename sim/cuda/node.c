/* cuGraphAdd*Node, and parameters of nodes. */
#include "driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct node *node_of(CUgraphNode h, CUgraphNodeType type)
{
	struct node *n = known(NODE, h);
	return n && !n->graph->executable && n->type == type ? n : NULL;
}

/* Adds a task to a graph after its dependencies. Call with the lock held; frees the task on failure. */
CUresult put_node(CUgraphNode *out, CUgraph h, const CUgraphNode *needs, size_t count, struct task *t, CUgraphNodeType type)
{
	struct graph *g = graph_of(h, false);
	bool ok = out != NULL && g != NULL && nodes_of(g, needs, count);
	if (!ok) {
		drop(t);
		return leave(INVALID);
	}
	struct node *n = add_node(g, t, type);
	n->needs = calloc(count + 1, sizeof *n->needs);
	for (; n->needs_count < count; n->needs_count++)
		n->needs[n->needs_count] = (struct node *)needs[n->needs_count];
	return STORE(out, (CUgraphNode)n);
}

/* Replaces a node's task, in the graph or in an executable graph made from it. */
CUresult set_node(CUgraphExec exec, CUgraphNode h, struct task *t, CUgraphNodeType type)
{
	struct node *n = node_of(h, type);
	if (n && exec) {
		struct graph *x = graph_of(exec, true);
		await_run(x);
		n = x ? copy_of(x, n) : NULL;
	}
	if (n == NULL) {
		drop(t);
		return leave(INVALID);
	}
	struct task *was = n->task;
	free(was->args);
	free(was->params);
	free(was->staged);
	t->next = was->next;
	t->node = n;
	t->ctx = was->ctx;
	*was = *t;
	free(t);
	return leave(OK);
}

/* add_task and set_task are put_node and set_node for a caller without the lock. Without a task they fail. */
CUresult add_task(CUgraphNode *out, CUgraph h, const CUgraphNode *needs, size_t count, struct task *t, CUgraphNodeType type)
{
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return put_node(out, h, needs, count, t, type);
}

CUresult set_task(CUgraphExec exec, CUgraphNode h, struct task *t, CUgraphNodeType type)
{
	if (t == NULL)
		return INVALID;
	pthread_mutex_lock(&lock);
	return set_node(exec, h, t, type);
}

static CUresult new_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *p, const void *kernel, struct task **t)
{
	struct wishes w = {.cluster = {1, 1, 1}};
	CUlaunchConfig c = {p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ, p->sharedMemBytes, NULL, NULL, 0};
	pthread_mutex_lock(&lock);
	return kernel_task(&c, true, p->func ? (const void *)p->func : kernel, p->kernelParams, p->extra, &w, t);
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct task *t;
	CUresult e = nodeParams ? new_kernel(nodeParams, NULL, &t) : INVALID;
	return nodeParams == NULL ? e : e ? leave(e) : put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct task *t;
	CUresult e = nodeParams ? new_kernel((const CUDA_KERNEL_NODE_PARAMS_v1 *)nodeParams, nodeParams->kern, &t) : INVALID;
	return nodeParams == NULL ? e : e ? leave(e) : put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult set_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p, const void *kernel)
{
	struct task *t;
	CUresult e = new_kernel(p, kernel, &t);
	return e ? leave(e) : set_node(exec, node, t, CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *p) { return p ? set_kernel(NULL, hNode, p, NULL) : INVALID; }

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *p) { return p ? set_kernel(NULL, hNode, (const CUDA_KERNEL_NODE_PARAMS_v1 *)p, p->kern) : INVALID; }

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec x, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *p) { return p && x ? set_kernel(x, hNode, p, NULL) : INVALID; }

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec x, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *p)
{
	return p && x ? set_kernel(x, hNode, (const CUDA_KERNEL_NODE_PARAMS_v1 *)p, p->kern) : INVALID;
}

static struct task *new_copy(const CUDA_MEMCPY3D *p)
{
	struct task *t = new_task(copy);
	if (!shape_of(p, t)) {
		drop(t);
		return NULL;
	}
	t->run = copy;
	return t;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	return add_task(phGraphNode, hGraph, dependencies, numDependencies, copyParams && ctx ? new_copy(copyParams) : NULL, CU_GRAPH_NODE_TYPE_MEMCPY);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	return set_task(NULL, hNode, nodeParams ? new_copy(nodeParams) : NULL, CU_GRAPH_NODE_TYPE_MEMCPY);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	return set_task(hGraphExec, hNode, copyParams && ctx && hGraphExec ? new_copy(copyParams) : NULL, CU_GRAPH_NODE_TYPE_MEMCPY);
}

static struct task *new_fill(const CUDA_MEMSET_NODE_PARAMS *p)
{
	if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)
		return NULL;
	struct task *t = new_task(fill);
	t->dst = p->dst, t->dst_pitch = p->pitch, t->value = p->value, t->unit = p->elementSize, t->width = p->width, t->height = p->height, t->depth = 1;
	return t;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	return add_task(phGraphNode, hGraph, dependencies, numDependencies, memsetParams && ctx ? new_fill(memsetParams) : NULL, CU_GRAPH_NODE_TYPE_MEMSET);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	return set_task(NULL, hNode, nodeParams ? new_fill(nodeParams) : NULL, CU_GRAPH_NODE_TYPE_MEMSET);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	return set_task(hGraphExec, hNode, memsetParams && ctx && hGraphExec ? new_fill(memsetParams) : NULL, CU_GRAPH_NODE_TYPE_MEMSET);
}

struct task *new_call(const CUDA_HOST_NODE_PARAMS *p)
{
	if (p->fn == NULL)
		return NULL;
	struct task *t = new_task(call);
	t->fn = p->fn, t->data = p->userData;
	return t;
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return add_task(phGraphNode, hGraph, dependencies, numDependencies, nodeParams ? new_call(nodeParams) : NULL, CU_GRAPH_NODE_TYPE_HOST);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return set_task(NULL, hNode, nodeParams ? new_call(nodeParams) : NULL, CU_GRAPH_NODE_TYPE_HOST);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph)
{
	FIND(graph, child, graph_of(childGraph, false), INVALID);
	struct task *t = new_task(run_graph);
	t->graph = copy_graph(child, false);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, t, CU_GRAPH_NODE_TYPE_GRAPH);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	FIND(node, n, node_of(hNode, CU_GRAPH_NODE_TYPE_GRAPH), INVALID);
	return STORE(phGraph, (CUgraph)n->task->graph);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies)
{
	pthread_mutex_lock(&lock);
	return put_node(phGraphNode, hGraph, dependencies, numDependencies, new_task(NULL), CU_GRAPH_NODE_TYPE_EMPTY);
}

/* Makes an event node's task, NULL if the event does not exist. Call with the lock held. */
static struct task *event_task(CUevent h, CUgraphNodeType type)
{
	struct event *v = known(EVENT, h);
	struct task *t = v ? new_task(NULL) : NULL;
	if (t && type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		t->event = v;
	else if (t)
		t->data = v;
	return t;
}

static CUresult event_node(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUevent h, CUgraphNodeType type)
{
	pthread_mutex_lock(&lock);
	struct task *t = event_task(h, type);
	return t ? put_node(out, g, needs, count, t, type) : leave(HANDLE);
}

CUresult set_event(CUgraphExec x, CUgraphNode n, CUevent h, CUgraphNodeType type)
{
	pthread_mutex_lock(&lock);
	struct task *t = event_task(h, type);
	return t ? set_node(x, n, t, type) : leave(HANDLE);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	return event_node(phGraphNode, hGraph, dependencies, numDependencies, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	return event_node(phGraphNode, hGraph, dependencies, numDependencies, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

/* Reports if one node depends on another, directly or not. */
static bool leads(const struct node *from, const struct node *to)
{
	for (size_t i = 0; i < from->needs_count; i++)
		if (from->needs[i] == to || leads(from->needs[i], to))
			return true;
	return from == to;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hGraph, false);
	for (size_t i = 0; i < numDependencies; i++) {
		struct node *a = known(NODE, from[i]), *b = known(NODE, to[i]);
		if (g == NULL || a == NULL || b == NULL || a->graph != g || b->graph != g || leads(a, b))
			return leave(INVALID);
		b->needs = realloc(b->needs, (b->needs_count + 1) * sizeof *b->needs);
		b->needs[b->needs_count++] = a;
	}
	return leave(g ? OK : INVALID);
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	FIND(node, n, known(NODE, hNode), INVALID);
	return STORE(type, n->type);
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	FIND(graph, g, graph_of(hGraph, false), INVALID);
	if (numNodes == NULL)
		return leave(INVALID);
	size_t n = 0;
	for (struct task *t = g->tasks; t; t = t->next, n++)
		if (nodes && n < *numNodes)
			nodes[n] = (CUgraphNode)t->node;
	return STORE(numNodes, n);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned isEnabled)
{
	pthread_mutex_lock(&lock);
	struct graph *x = graph_of(hGraphExec, true);
	await_run(x);
	struct node *n = x ? copy_of(x, (struct node *)hNode) : NULL;
	if (n)
		n->disabled = !isEnabled;
	return leave(n ? OK : INVALID);
}
