/* Graph queries: nodes, edges, clones. */
#include "driver.h"

#include <string.h>

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	FIND(graph, g, graph_of(hGraph, false), INVALID);
	if (numRootNodes == NULL)
		return leave(INVALID);
	size_t n = 0;
	for (struct task *t = g->tasks; t; t = t->next) {
		if (t->node->needs_count)
			continue;
		if (rootNodes && n < *numRootNodes)
			rootNodes[n] = (CUgraphNode)t->node;
		n++;
	}
	return STORE(numRootNodes, n);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData, size_t *numEdges)
{
	FIND(graph, g, graph_of(hGraph, false), INVALID);
	if (numEdges == NULL || !from != !to)
		return leave(INVALID);
	size_t n = 0;
	for (struct task *t = g->tasks; t; t = t->next)
		for (size_t i = 0; i < t->node->needs_count; i++, n++)
			if (from && n < *numEdges) {
				from[n] = (CUgraphNode)t->node->needs[i], to[n] = (CUgraphNode)t->node;
				if (edgeData)
					edgeData[n] = (CUgraphEdgeData){0};
			}
	return STORE(numEdges, n);
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges) { return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges); }

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	FIND(node, n, known(NODE, hNode), INVALID);
	if (numDependencies == NULL)
		return leave(INVALID);
	for (size_t i = 0; dependencies && i < n->needs_count && i < *numDependencies; i++) {
		dependencies[i] = (CUgraphNode)n->needs[i];
		if (edgeData)
			edgeData[i] = (CUgraphEdgeData){0};
	}
	return STORE(numDependencies, n->needs_count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies) { return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies); }

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	FIND(node, n, known(NODE, hNode), INVALID);
	if (numDependentNodes == NULL)
		return leave(INVALID);
	size_t k = 0;
	for (struct task *t = n->graph->tasks; t; t = t->next)
		for (size_t i = 0; i < t->node->needs_count; i++)
			if (t->node->needs[i] == n) {
				if (dependentNodes && k < *numDependentNodes) {
					dependentNodes[k] = (CUgraphNode)t->node;
					if (edgeData)
						edgeData[k] = (CUgraphEdgeData){0};
				}
				k++;
			}
	return STORE(numDependentNodes, k);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes) { return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes); }

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	(void)edgeData;
	return cuGraphAddDependencies(hGraph, from, to, numDependencies);
}

static bool forget_need(struct node *n, const struct node *need)
{
	for (size_t i = 0; i < n->needs_count; i++)
		if (n->needs[i] == need) {
			n->needs[i] = n->needs[--n->needs_count];
			return true;
		}
	return false;
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hGraph, false);
	for (size_t i = 0; i < numDependencies; i++) {
		struct node *a = known(NODE, from[i]), *b = known(NODE, to[i]);
		if (g == NULL || a == NULL || b == NULL || b->graph != g || !forget_need(b, a))
			return leave(INVALID);
	}
	return leave(g ? OK : INVALID);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	(void)edgeData;
	return cuGraphRemoveDependencies(hGraph, from, to, numDependencies);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
	FIND(node, n, known(NODE, hNode), INVALID);
	if (n->graph->executable)
		return leave(INVALID);
	for (struct task **t = &n->graph->tasks; *t;) {
		forget_need((*t)->node, n);
		if (*t != n->task) {
			t = &(*t)->next;
			continue;
		}
		*t = n->task->next;
		if (n->graph->last == &n->task->next)
			n->graph->last = t;
	}
	n->graph->count--;
	n->o.gone = true;
	return leave(OK);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, uint32_t *isEnabled)
{
	pthread_mutex_lock(&lock);
	struct graph *x = graph_of(hGraphExec, true);
	struct node *n = x ? copy_of(x, (struct node *)hNode) : NULL;
	if (n && isEnabled)
		*isEnabled = !n->disabled;
	return leave(n && isEnabled ? OK : INVALID);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	FIND(node, n, node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL), INVALID);
	if (nodeParams == NULL)
		return leave(INVALID);
	const struct fakecuda_launch *l = &n->task->launch;
	*nodeParams = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)n->task->function, .gridDimX = l->grid[0], .gridDimY = l->grid[1], .gridDimZ = l->grid[2], .blockDimX = l->block[0],
		.blockDimY = l->block[1], .blockDimZ = l->block[2], .sharedMemBytes = l->shared, .kernelParams = (void **)n->task->params};
	return leave(OK);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUresult e = nodeParams ? cuGraphKernelNodeGetParams_v2(hNode, &p) : INVALID;
	if (e == OK)
		memcpy(nodeParams, &p, sizeof *nodeParams);
	return e;
}
