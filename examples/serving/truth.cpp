// What the program did, written from what it did: acltrace's results are compared with this file.
#include "serving.h"

#include <sys/syscall.h>

namespace {

struct Step {
	std::string kind, how;
	size_t tokens, padded;
	std::map<std::string, size_t> eager, inGraphs;
};

struct Memory {
	size_t bytes;
	std::string owner;
};

// Never destroyed: threads may still use it when the program ends.
struct State {
	std::mutex lock;
	std::vector<Step> steps;
	bool inStep = false, updating = false;
	Graph *captured = nullptr;
	std::map<std::string, size_t> outside; // eager launches in no step: warm-up
	size_t graphs = 0, runs = 0, updates = 0;
	std::map<const void *, Memory> memory, live;
	std::map<std::string, int> threads;
	bool faulty = false;
	Culprit culprit;
};
State &state = *new State;

void counts(FILE *f, const char *key, const std::map<std::string, size_t> &m)
{
	fprintf(f, "\"%s\": {", key);
	const char *comma = "";
	for (const auto &[name, n] : m) {
		fprintf(f, "%s\"%s\": %zu", comma, name.c_str(), n);
		comma = ", ";
	}
	fputs("}", f);
}

} // namespace

int threadId() { return static_cast<int>(syscall(SYS_gettid)); }

namespace truth {

void stepBegins(const char *kind, const char *how, size_t tokens, size_t padded)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.steps.push_back({kind, how, tokens, padded, {}, {}});
	state.inStep = true;
}

void stepEnds()
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.inStep = false;
}

void launched(const char *name)
{
	std::lock_guard<std::mutex> hold(state.lock);
	if (state.updating)
		state.updates++;
	else if (state.captured)
		state.captured->kernels[name]++;
	else if (state.inStep)
		state.steps.back().eager[name]++;
	else
		state.outside[name]++;
}

void captures(Graph *g)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.captured = g;
	state.graphs += g != nullptr;
}

void updates(bool on)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.updating = on;
}

void ran(const Graph &g)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.runs++;
	for (const auto &[name, n] : g.kernels)
		(state.inStep ? state.steps.back().inGraphs : state.outside)[name] += n;
}

void allocated(const void *p, size_t bytes, const char *owner)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.memory[p] = {bytes, owner};
}

void freed(const void *p)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.memory.erase(p);
}

void thread(const char *name)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.threads[name] = threadId();
}

// aclrtGetMemInfo marks the moment in the trace.
void live()
{
	size_t unused, total;
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &unused, &total));
	std::lock_guard<std::mutex> hold(state.lock);
	state.live = state.memory;
}

void culprit(const Culprit &c)
{
	std::lock_guard<std::mutex> hold(state.lock);
	state.culprit = c;
	state.faulty = true;
}

bool faulty()
{
	std::lock_guard<std::mutex> hold(state.lock);
	return state.faulty;
}

void write()
{
	if (options.truth.empty())
		return;
	std::lock_guard<std::mutex> hold(state.lock);
	FILE *f = fopen(options.truth.c_str(), "w");
	if (!f) {
		perror(options.truth.c_str());
		_exit(1);
	}
	fprintf(f, "{\"pid\": %d, \"graphs\": %zu, \"runs\": %zu, \"updates\": %zu,\n\"threads\": {", static_cast<int>(getpid()), state.graphs, state.runs, state.updates);
	const char *comma = "";
	for (const auto &[name, tid] : state.threads) {
		fprintf(f, "%s\"%s\": %d", comma, name.c_str(), tid);
		comma = ", ";
	}
	fputs("},\n", f);
	counts(f, "outside", state.outside);
	fputs(",\n\"steps\": [", f);
	comma = "";
	for (const Step &s : state.steps) {
		fprintf(f, "%s\n{\"kind\": \"%s\", \"how\": \"%s\", \"tokens\": %zu, \"padded\": %zu, ", comma, s.kind.c_str(), s.how.c_str(), s.tokens, s.padded);
		counts(f, "eager", s.eager);
		fputs(", ", f);
		counts(f, "in_graphs", s.inGraphs);
		fputs("}", f);
		comma = ",";
	}
	fputs("],\n\"live\": [", f);
	comma = "";
	for (const auto &[p, m] : state.live) {
		fprintf(f, "%s\n{\"owner\": \"%s\", \"address\": %zu, \"bytes\": %zu}", comma, m.owner.c_str(), reinterpret_cast<size_t>(p), m.bytes);
		comma = ",";
	}
	fputs("]", f);
	if (state.faulty) {
		const Culprit &c = state.culprit;
		fprintf(f, ",\n\"culprit\": {\"call\": \"%s\", \"kernel\": \"%s\", \"thread\": %d, \"other_thread\": %d, \"address\": %zu, \"stream\": %zu, \"code\": %d, \"also\": \"%s\"}",
			c.call.c_str(), c.kernel.c_str(), c.thread, c.otherThread, reinterpret_cast<size_t>(c.address), reinterpret_cast<size_t>(c.stream), c.code, c.also.c_str());
	}
	fputs("}\n", f);
	fclose(f);
}

} // namespace truth

void serving_check(int code, const char *call, const char *file, int line)
{
	if (!code)
		return;
	const char *text = aclGetRecentErrMsg();
	fprintf(stderr, "%s:%d: %s returned %d: %s\n", file, line, call, code, text ? text : "no message");
	truth::write();
	_exit(1);
}
