/* Stream capture, graphs, and graph runs. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

struct graph *new_graph(bool executable)
{
	struct graph *g = make(GRAPH, sizeof *g);
	g->executable = executable;
	g->last = &g->tasks;
	return g;
}

struct graph *graph_of(const void *h, bool executable)
{
	struct graph *g = known(GRAPH, h);
	return g && g->executable == executable ? g : NULL;
}

/* Reports if all are nodes of one graph. */
bool nodes_of(const struct graph *g, const CUgraphNode *nodes, size_t count)
{
	bool ok = count == 0 || nodes != NULL;
	for (size_t i = 0; ok && i < count; i++) {
		struct node *n = known(NODE, nodes[i]);
		ok = n != NULL && n->graph == g;
	}
	return ok;
}

/* Captures a stream into a graph after some of its nodes, or into a new graph if g is NULL. Call with the lock held. */
static CUresult begin_capture(struct stream *s, struct graph *g, const CUgraphNode *behind, size_t count)
{
	if (s->capture || s->legacy)
		return s->legacy ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_ILLEGAL_STATE;
	if (g && !nodes_of(g, behind, count))
		return INVALID;
	s->capture = g ? g : new_graph(false);
	s->tails = (struct tails){.count = 0};
	add_tails(&s->tails, (struct node *const *)behind, count);
	s->began = true;
	return OK;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	(void)mode;
	ON_STREAM(s, hStream);
	return leave(begin_capture(s, NULL, NULL, 0));
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
	(void)dependencyData, (void)mode;
	ON_STREAM(s, hStream);
	struct graph *g = graph_of(hGraph, false);
	return leave(g ? begin_capture(s, g, dependencies, numDependencies) : INVALID);
}

/* The other outputs are stored only for a stream that is being captured. */
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
	if (status == NULL)
		return INVALID;
	ON_STREAM(s, hStream);
	*status = s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	if (s->capture == NULL)
		return leave(OK);
	if (id)
		*id = (uint64_t)s->capture;
	if (graph)
		*graph = (CUgraph)s->capture;
	if (dependencies)
		*dependencies = (const CUgraphNode *)s->tails.nodes;
	if (edges)
		*edges = NULL; /* no edge has data */
	if (count)
		*count = s->tails.count;
	return leave(OK);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
{
	return cuStreamGetCaptureInfo_v3(hStream, status, id, graph, dependencies, NULL, count);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *status, uint64_t *id) { return cuStreamGetCaptureInfo_v3(hStream, status, id, NULL, NULL, NULL, NULL); }

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned flags)
{
	enum { ADD, SET };
	(void)dependencyData;
	if (flags > SET)
		return INVALID;
	ON_STREAM(s, hStream);
	if (s->capture == NULL)
		return leave(CUDA_ERROR_ILLEGAL_STATE);
	if (!nodes_of(s->capture, dependencies, numDependencies))
		return leave(INVALID);
	if (flags == SET)
		s->tails.count = 0;
	add_tails(&s->tails, (struct node *const *)dependencies, numDependencies);
	return leave(OK);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned flags)
{
	return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies, flags);
}

CUresult cuStreamBeginCapture(CUstream hStream) { return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL); }

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	ON_STREAM(s, hStream);
	if (s->capture == NULL || !s->began)
		return leave(CUDA_ERROR_ILLEGAL_STATE);
	struct graph *g = s->capture;
	EACH(stream, other, STREAM)
		if (other->capture == g) {
			other->capture = NULL;
			other->began = false;
		}
	return STORE(phGraph, (CUgraph)g);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	ON_STREAM(s, hStream);
	return STORE(captureStatus, s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static __thread CUstreamCaptureMode mine = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureMode was = mine;
	mine = *mode;
	*mode = was;
	return OK;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned flags)
{
	if (phGraph == NULL || flags)
		return INVALID;
	pthread_mutex_lock(&lock);
	return STORE(phGraph, (CUgraph)new_graph(false));
}

static CUresult end_graph(const void *h, bool executable)
{
	FIND(graph, g, graph_of(h, executable), INVALID);
	g->o.gone = true; /* an executable graph keeps its own tasks */
	return leave(OK);
}

CUresult cuGraphDestroy(CUgraph hGraph) { return end_graph(hGraph, false); }

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) { return end_graph(hGraphExec, true); }

/* The node type for a captured task. */
CUgraphNodeType node_type(const struct task *t)
{
	return t->run == run_kernel ? CU_GRAPH_NODE_TYPE_KERNEL : t->run == copy ? CU_GRAPH_NODE_TYPE_MEMCPY : t->run == fill ? CU_GRAPH_NODE_TYPE_MEMSET :
		t->run == call ? CU_GRAPH_NODE_TYPE_HOST : CU_GRAPH_NODE_TYPE_EMPTY;
}

struct node *add_node(struct graph *g, struct task *t, CUgraphNodeType type)
{
	struct node *n = make(NODE, sizeof *n);
	n->type = type, n->graph = g, n->task = t;
	t->node = n;
	t->ctx = t->ctx ? t->ctx : current();
	*g->last = t;
	g->last = &t->next;
	g->count++;
	return n;
}

void *same(const void *p, size_t n)
{
	void *q = p ? malloc(n ? n : 1) : NULL;
	if (q)
		memcpy(q, p, n);
	return q;
}

/* An independent copy of a task. */
static struct task *copy_task(const struct task *t)
{
	struct task *n = same(t, sizeof *t);
	n->next = NULL;
	n->node = NULL;
	n->staged = same(t->staged, t->staged ? (t->depth - 1) * t->src_pitch * t->src_plane + (t->height - 1) * t->src_pitch + t->width : 0);
	n->args = same(t->args, t->run == write_values ? t->value * sizeof(CUstreamBatchMemOpParams) : t->function ? t->function->size + 1 : 0);
	n->params = t->params ? calloc(t->function->count + 1, sizeof *t->params) : NULL;
	for (size_t i = 0; t->params && i < t->function->count; i++)
		n->params[i] = n->args + t->function->params[i].at;
	n->graph = t->graph ? copy_graph(t->graph, true) : NULL;
	n->bodies = same(t->bodies, t->bodies_count * sizeof *t->bodies);
	for (uint32_t i = 0; i < t->bodies_count; i++)
		n->bodies[i] = (CUgraph)copy_graph((struct graph *)t->bodies[i], true);
	return n;
}

struct node *copy_of(const struct graph *g, const struct node *origin)
{
	for (struct task *t = g->tasks; t; t = t->next)
		if (t->node->origin == origin)
			return t->node;
	return NULL;
}

struct graph *copy_graph(const struct graph *g, bool executable)
{
	struct graph *x = new_graph(executable);
	for (struct task *t = g->tasks; t; t = t->next) {
		struct node *n = add_node(x, copy_task(t), t->node->type);
		n->origin = t->node;
		n->disabled = t->node->disabled;
	}
	for (struct task *t = x->tasks; t; t = t->next) {
		const struct node *o = t->node->origin;
		t->node->needs = calloc(o->needs_count + 1, sizeof *t->node->needs);
		for (size_t i = 0; i < o->needs_count; i++) {
			struct node *n = copy_of(x, o->needs[i]);
			if (n)
				t->node->needs[t->node->needs_count++] = n;
		}
	}
	return x;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, uint64_t flags)
{
	(void)flags;
	FIND(graph, g, graph_of(hGraph, false), INVALID);
	return STORE(phGraphExec, (CUgraphExec)copy_graph(g, true));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	(void)phErrorNode, (void)logBuffer, (void)bufferSize;
	return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	if (instantiateParams == NULL)
		return INVALID;
	instantiateParams->hErrNode_out = NULL;
	instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return cuGraphInstantiateWithFlags(phGraphExec, hGraph, instantiateParams->flags);
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	FIND(graph, g, graph_of(originalGraph, false), INVALID);
	return STORE(phGraphClone, (CUgraph)copy_graph(g, false));
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
	pthread_mutex_lock(&lock);
	struct graph *g = graph_of(hClonedGraph, false);
	struct node *n = g ? copy_of(g, (struct node *)hOriginalNode) : NULL;
	if (n == NULL || phNode == NULL)
		return leave(INVALID);
	return STORE(phNode, (CUgraphNode)n);
}

void await_run(const struct graph *x)
{
	if (x && x->ran.stream)
		await(x->ran);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	FIND(graph, x, graph_of(hGraphExec, true), INVALID);
	struct graph *g = graph_of(hGraph, false);
	if (g == NULL || resultInfo == NULL)
		return leave(INVALID);
	memset(resultInfo, 0, sizeof *resultInfo);
	bool alike = x->count == g->count;
	for (struct task *a = x->tasks, *b = g->tasks; alike && a && b; a = a->next, b = b->next)
		alike = a->run == b->run;
	if (!alike) {
		resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		return leave(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	}
	struct graph *n = copy_graph(g, true);
	await_run(x);
	x->tasks = n->tasks;
	x->last = n->last;
	return leave(OK);
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out, CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info;
	if (hErrorNode_out == NULL || updateResult_out == NULL)
		return INVALID;
	CUresult e = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
	*hErrorNode_out = NULL;
	*updateResult_out = e == OK ? CU_GRAPH_EXEC_UPDATE_SUCCESS : e == INVALID ? CU_GRAPH_EXEC_UPDATE_ERROR : info.result;
	return e;
}

static bool can_run(const struct node *n)
{
	for (size_t i = 0; i < n->needs_count; i++)
		if (!n->needs[i]->ran)
			return false;
	return !n->ran;
}

void run_graph(struct task *t)
{
	for (struct task *k = t->graph->tasks; k; k = k->next)
		k->node->ran = false;
	for (size_t left = t->graph->count; left > 0 && t->ctx->error == OK; left--) {
		struct task *k = t->graph->tasks;
		while (k && !can_run(k->node))
			k = k->next;
		if (k == NULL)
			return; /* a cycle; adding an edge refuses those */
		k->node->ran = true;
		if (k->run && !k->node->disabled) {
			k->ctx = t->ctx;
			k->run(k);
		}
		if (k->event)
			k->event->ns = now();
	}
}

/* Resets conditions to their first values, also in parts. */
static void set_first(const struct graph *g)
{
	for (struct task *k = g->tasks; k; k = k->next) {
		if (k->condition && k->condition->assigned)
			k->condition->value = k->condition->first;
		for (uint32_t i = 0; i < k->bodies_count; i++)
			set_first((struct graph *)k->bodies[i]);
		if (k->graph)
			set_first(k->graph);
	}
}

static void launch_graph(struct task *t)
{
	set_first(t->graph);
	run_graph(t);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	ON_STREAM(s, hStream);
	return leave(graph_of(hGraphExec, true) ? OK : INVALID);
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	ON_STREAM(s, hStream);
	struct graph *x = graph_of(hGraphExec, true);
	if (x == NULL)
		return leave(INVALID);
	struct task *t = new_task(launch_graph);
	t->graph = x;
	/* Waits of its nodes precede the whole run, and records take effect at its end. */
	for (struct task *k = x->tasks; k; k = k->next)
		if (k->node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && k->data && ((struct event *)k->data)->place.stream)
			wait_for(t, ((struct event *)k->data)->place.stream, ((struct event *)k->data)->place.ticket);
	if (x->ran.stream)
		wait_for(t, x->ran.stream, x->ran.ticket);
	struct place p = put(s, t);
	if (p.ticket)
		x->ran = p;
	for (struct task *k = x->tasks; k; k = k->next)
		if (k->event)
			k->event->place = p;
	return leave(OK);
}
