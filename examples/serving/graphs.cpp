// Captured graphs. Attention runs in task groups: each run waits before attention until the task has its new arguments.
#include "serving.h"

static Graph *current;

static void describeOperators(bool on)
{
	aclrtStreamAttrValue v = {};
	v.cacheOpInfoSwitch = on;
	OK(aclrtSetStreamAttribute(streams.capture, ACL_STREAM_ATTR_CACHE_OP_INFO, &v));
}

// The graph waits, and makes its next run wait again.
static void awaitUpdate(const Update &u)
{
	if (u.event) {
		OK(aclrtStreamWaitEvent(streams.capture, u.event));
		OK(aclrtResetEvent(u.event, streams.capture));
		return;
	}
	OK(aclrtValueWait(u.word, 1, ACL_STREAM_WAIT_VALUE_EQ, streams.capture));
	OK(aclrtValueWrite(u.word, 0, 0, streams.capture));
}

namespace graphs {

Graph *capturing() { return current; }

Graph *capture(const std::function<void()> &body)
{
	Graph *g = new Graph{};
	queue.drain();
	describeOperators(true);
	OK(aclmdlRICaptureBegin(streams.capture, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	current = g;
	truth::captures(g);
	body();
	queue.drain();
	faults::inject(Point::capture);
	truth::captures(nullptr);
	current = nullptr;
	describeOperators(false);
	OK(aclmdlRICaptureEnd(streams.capture, &g->model));
	return g;
}

void attentionTask(Graph &g, size_t layer, const std::function<void()> &op)
{
	Update u = {nullptr, nullptr, nullptr, layer};
	if (options.events) {
		OK(aclrtCreateEventWithFlag(&u.event, ACL_EVENT_EXTERNAL));
	} else {
		aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED; // the capture's mode forbids allocation
		OK(aclmdlRICaptureThreadExchangeMode(&mode));
		u.word = memory::device(32, "values");
		OK(aclrtMemset(u.word, 32, 0, 32));
		OK(aclmdlRICaptureThreadExchangeMode(&mode));
	}
	queue.push([=] { awaitUpdate(u); });
	queue.drain();
	bool group = !faults::is("captured-lengths");
	if (group)
		OK(aclmdlRICaptureTaskGrpBegin(streams.capture));
	op();
	queue.drain();
	if (group)
		OK(aclmdlRICaptureTaskGrpEnd(streams.capture, &u.group));
	else
		faults::blamesKernel("aclnnFusedInferAttentionScoreV3");
	g.updates.push_back(u);
}

void run(const Graph &g)
{
	queue.drain();
	OK(aclmdlRIExecuteAsync(g.model, streams.main));
	truth::ran(g);
}

void update(const Graph &g, const std::function<void(aclrtStream, size_t)> &op)
{
	if (faults::now("update-late")) {
		faults::blames(options.events ? "aclrtRecordEvent" : "aclrtValueWrite");
		hostWork(20000);
	}
	for (const Update &u : g.updates) {
		size_t layer = faults::now("update-swapped") ? g.updates.size() - 1 - u.layer : u.layer;
		queue.drain();
		truth::updates(true);
		if (u.group) {
			OK(aclmdlRICaptureTaskUpdateBegin(streams.update, u.group));
			op(streams.update, layer);
			if (faults::now("update-count")) {
				faults::blamesKernel("aclnnFusedInferAttentionScoreV3");
				op(streams.update, layer);
			}
			queue.drain();
			OK(aclmdlRICaptureTaskUpdateEnd(streams.update));
		}
		truth::updates(false);
		if (layer != u.layer)
			faults::blamesKernel("aclnnFusedInferAttentionScoreV3");
		if (u.layer == 1 && (faults::now("value-lost") || faults::now("event-lost"))) {
			faults::blames("aclmdlRIExecuteAsync", 0, "", u.word);
			continue;
		}
		queue.push([=] {
			if (u.event)
				OK(aclrtRecordEvent(u.event, streams.update));
			else
				OK(aclrtValueWrite(u.word, 1, 0, streams.update));
		});
	}
}

} // namespace graphs
