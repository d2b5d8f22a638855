// Captured graphs. Attention runs in task groups: each run waits before attention until the task has its new arguments.
#include "serving.h"

static Graph *current;

namespace graphs {

Graph *capturing() { return current; }

static void describeOperators(aclrtStream s, bool on)
{
	aclrtStreamAttrValue v = {};
	v.cacheOpInfoSwitch = on;
	OK(aclrtSetStreamAttribute(s, ACL_STREAM_ATTR_CACHE_OP_INFO, &v));
}

Graph *capture(size_t size, const std::function<void()> &body)
{
	Graph *g = new Graph{};
	g->size = size;
	queue.drain();
	describeOperators(streams.capture, true);
	OK(aclmdlRICaptureBegin(streams.capture, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	current = g;
	truth::captures(g);
	body();
	faults::inject(Point::capture);
	queue.drain();
	current = nullptr;
	truth::captures(nullptr);
	describeOperators(streams.capture, false);
	OK(aclmdlRICaptureEnd(streams.capture, &g->model));
	return g;
}

// Waits, then makes the next run wait again.
static void awaitUpdate(aclrtStream s, const Update &u)
{
	if (u.event) {
		OK(aclrtStreamWaitEvent(s, u.event));
		OK(aclrtResetEvent(u.event, s));
		return;
	}
	OK(aclrtValueWait(u.word, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
	OK(aclrtValueWrite(u.word, 0, 0, s));
}

void attentionTask(Graph &g, size_t layer, const std::function<void()> &attention)
{
	Update u = {nullptr, nullptr, nullptr, layer};
	if (options.events) {
		OK(aclrtCreateEventWithFlag(&u.event, ACL_EVENT_EXTERNAL));
	} else {
		aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED; // allocation is forbidden in the capture's mode
		OK(aclmdlRICaptureThreadExchangeMode(&mode));
		u.word = memory::device(32, "value words");
		OK(aclrtMemset(u.word, 32, 0, 32));
		OK(aclmdlRICaptureThreadExchangeMode(&mode));
	}
	queue.push([=] { awaitUpdate(streams.capture, u); });
	queue.drain();
	OK(aclmdlRICaptureTaskGrpBegin(streams.capture));
	attention();
	queue.drain();
	OK(aclmdlRICaptureTaskGrpEnd(streams.capture, &u.group));
	g.updates.push_back(u);
}

void run(const Graph &g)
{
	queue.drain();
	OK(aclmdlRIExecuteAsync(g.model, streams.main));
	truth::ran(g);
}

void update(const Graph &g, const std::function<void(aclrtStream, size_t)> &attention)
{
	for (const Update &u : g.updates) {
		queue.drain();
		OK(aclmdlRICaptureTaskUpdateBegin(streams.update, u.group));
		truth::updates(true);
		attention(streams.update, u.layer);
		truth::updates(false);
		queue.drain();
		OK(aclmdlRICaptureTaskUpdateEnd(streams.update));
		if (u.layer == 1 && (faults::now("value-lost") || faults::now("event-lost"))) {
			Culprit c;
			c.call = u.event ? "aclrtStreamWaitEvent" : "aclrtValueWait";
			c.address = u.word;
			c.also = "aclmdlRIExecuteAsync";
			truth::culprit(c);
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
