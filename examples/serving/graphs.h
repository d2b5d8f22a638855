// Captured graphs. Attention runs in task groups: each run waits before attention until the task has its new arguments.
#pragma once

#include "faults.h"

namespace graphs {
struct Update { // of an attention task
	aclrtTaskGrp group;
	void *word;       // the task waits until this is 1
	aclrtEvent event; // or for this event
};

struct Graph {
	aclmdlRI model;
	std::vector<Update> updates; // by layer
};

inline Graph *current; // is captured

inline void describeOperators(bool on)
{
	aclrtStreamAttrValue v = {};
	v.cacheOpInfoSwitch = on;
	CHECK(aclrtSetStreamAttribute(streams.capture, ACL_STREAM_ATTR_CACHE_OP_INFO, &v));
}

inline Graph *capture(const std::function<void()> &body)
{
	Graph *g = current = new Graph{};
	queue.drain();
	describeOperators(true);
	CHECK(aclmdlRICaptureBegin(streams.capture, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	truth("graph", g);
	body();
	queue.drain();
	faults::inject(faults::Point::capture);
	truth("captured");
	describeOperators(false);
	CHECK(aclmdlRICaptureEnd(streams.capture, &g->model));
	current = nullptr;
	return g;
}

inline void attentionTask(const std::function<void()> &op)
{
	Update u = {};
	if (options.events) {
		CHECK(aclrtCreateEventWithFlag(&u.event, ACL_EVENT_EXTERNAL));
	} else {
		aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED; // the capture's mode forbids allocation
		CHECK(aclmdlRICaptureThreadExchangeMode(&mode));
		u.word = memory::device(32, "values");
		CHECK(aclrtMemset(u.word, 32, 0, 32));
		CHECK(aclmdlRICaptureThreadExchangeMode(&mode));
	}
	queue.push([=] { // the graph waits, and makes its next run wait again
		CHECK(u.event ? aclrtStreamWaitEvent(streams.capture, u.event) : aclrtValueWait(u.word, 1, ACL_STREAM_WAIT_VALUE_EQ, streams.capture));
		CHECK(u.event ? aclrtResetEvent(u.event, streams.capture) : aclrtValueWrite(u.word, 0, 0, streams.capture));
	});
	queue.drain();
	bool group = !faults::is("captured-lengths");
	if (group)
		CHECK(aclmdlRICaptureTaskGrpBegin(streams.capture));
	op();
	queue.drain();
	if (group)
		CHECK(aclmdlRICaptureTaskGrpEnd(streams.capture, &u.group));
	current->updates.push_back(u);
}

inline void run(const Graph &g)
{
	queue.drain();
	faults::inject(faults::Point::graph);
	CHECK(aclmdlRIExecuteAsync(g.model, streams.main));
	truth("run", &g);
}

// Gives the tasks of the graph new arguments, and lets them go on. op launches on the update stream.
inline void update(const Graph &g, const std::function<void(size_t layer)> &op)
{
	if (faults::now("update-late"))
		hostWork(20000);
	bool swapped = g.updates.size() > 1 && faults::now("update-swapped"), twice = faults::now("update-count"), lost = faults::now("value-lost") || faults::now("event-lost");
	for (size_t layer = 0; layer < g.updates.size(); layer++) {
		const Update &u = g.updates[layer];
		queue.drain();
		if (u.group) {
			truth("update");
			CHECK(aclmdlRICaptureTaskUpdateBegin(streams.update, u.group));
			for (int i = 0; i <= twice; i++)
				op(swapped ? g.updates.size() - 1 - layer : layer);
			queue.drain();
			CHECK(aclmdlRICaptureTaskUpdateEnd(streams.update));
			truth("updated");
		}
		if (lost && layer + 1 == g.updates.size()) {
			if (u.word)
				truth("named", u.word);
			continue;
		}
		queue.push([=] { CHECK(u.event ? aclrtRecordEvent(u.event, streams.update) : aclrtValueWrite(u.word, 1, 0, streams.update)); });
	}
}
} // namespace graphs
