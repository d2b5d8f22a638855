// What the program did, written from what it did. acltrace's results are compared with this file.
#include "serving.h"

#include <sys/syscall.h>

using Counts = std::map<std::string, size_t>;

namespace {

struct Step {
	std::string kind, how;
	size_t tokens, padded;
	Counts eager, inGraphs;
};

struct Memory {
	size_t bytes;
	std::string owner;
};

struct State {
	std::recursive_mutex lock;
	std::vector<Step> steps;
	bool updating = false, faulty = false;
	Graph *captured = nullptr;
	Counts outside; // eager launches in no step: warm-up
	size_t graphs = 0, runs = 0, updates = 0;
	std::map<const void *, Memory> memory, live;
	std::map<std::string, int> threads;
	Culprit culprit;
};
State &state = *new State; // never destroyed: threads may use it when the program ends

using Hold = std::lock_guard<std::recursive_mutex>;

// Writes the elements of a container with commas between them.
template <class C, class F> void list(FILE *f, const char *begin, const C &c, const char *end, F element)
{
	fputs(begin, f);
	const char *comma = "";
	for (const auto &e : c) {
		fputs(comma, f);
		element(e);
		comma = ",\n";
	}
	fputs(end, f);
}

void counts(FILE *f, const char *key, const Counts &m)
{
	fprintf(f, "\"%s\": ", key);
	list(f, "{", m, "}", [&](auto &e) { fprintf(f, "\"%s\": %zu", e.first.c_str(), e.second); });
}

size_t number(const void *p) { return reinterpret_cast<size_t>(p); }

} // namespace

int threadId() { return static_cast<int>(syscall(SYS_gettid)); }

void check(int code, const char *call, const char *file, int line)
{
	if (!code)
		return;
	const char *text = aclGetRecentErrMsg();
	fprintf(stderr, "%s:%d: %s returned %d: %s\n", file, line, call, code, text ? text : "no message");
	truth::write();
	_exit(1);
}

namespace truth {

void step(const char *kind, const char *how, size_t tokens, size_t padded) { state.steps.push_back({kind, how, tokens, padded, {}, {}}); }
void captures(Graph *g) { state.captured = g, state.graphs += g != nullptr; }
void updates(bool on) { state.updating = on; }

void launched(const char *name)
{
	if (state.updating)
		state.updates++;
	else
		(state.captured ? state.captured->kernels : state.steps.empty() ? state.outside : state.steps.back().eager)[name]++;
}

void ran(const Graph &g)
{
	state.runs++;
	for (const auto &[name, n] : g.kernels)
		state.steps.back().inGraphs[name] += n;
}

void allocated(const void *p, size_t bytes, const char *owner)
{
	Hold hold(state.lock);
	state.memory[p] = {bytes, owner};
}

void freed(const void *p)
{
	Hold hold(state.lock);
	state.memory.erase(p);
}

void thread(const char *name)
{
	Hold hold(state.lock);
	state.threads[name] = threadId();
}

// The call marks the moment in a trace.
void live()
{
	size_t unused, total;
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &unused, &total));
	state.live = state.memory;
}

void culprit(const Culprit &c)
{
	Hold hold(state.lock);
	state.culprit = c;
	state.faulty = true;
}

bool faulty()
{
	Hold hold(state.lock);
	return state.faulty;
}

void write()
{
	Hold hold(state.lock);
	FILE *f = options.truth.empty() ? nullptr : fopen(options.truth.c_str(), "w");
	if (!f)
		return;
	fprintf(f, "{\"pid\": %d, \"graphs\": %zu, \"runs\": %zu, \"updates\": %zu,\n\"threads\": ", static_cast<int>(getpid()), state.graphs, state.runs, state.updates);
	list(f, "{", state.threads, "},\n", [&](auto &e) { fprintf(f, "\"%s\": %d", e.first.c_str(), e.second); });
	counts(f, "outside", state.outside);
	list(f, ",\n\"steps\": [", state.steps, "],\n", [&](const Step &s) {
		fprintf(f, "{\"kind\": \"%s\", \"how\": \"%s\", \"tokens\": %zu, \"padded\": %zu, ", s.kind.c_str(), s.how.c_str(), s.tokens, s.padded);
		counts(f, "eager", s.eager);
		fputs(", ", f), counts(f, "in_graphs", s.inGraphs);
		fputs("}", f);
	});
	list(f, "\"live\": [", state.live, "]", [&](auto &e) {
		fprintf(f, "{\"owner\": \"%s\", \"address\": %zu, \"bytes\": %zu}", e.second.owner.c_str(), number(e.first), e.second.bytes);
	});
	const Culprit &c = state.culprit;
	if (state.faulty)
		fprintf(f, ",\n\"culprit\": {\"call\": \"%s\", \"kernel\": \"%s\", \"also\": \"%s\", \"code\": %d, \"thread\": %d, \"other_thread\": %d, \"address\": %zu}", c.call.c_str(),
			c.kernel.c_str(), c.also.c_str(), c.code, c.thread, c.otherThread, number(c.address));
	fputs("}\n", f);
	fclose(f);
}

} // namespace truth
