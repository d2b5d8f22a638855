// The model and its steps. Requests of random length come and go; each step decodes one token of each request, or reads prompts.
#include "serving.h"

#include <algorithm>
#include <random>

Buffers buffers;
std::vector<void *> caches;

namespace {

struct Layer {
	void *norm1, *qkv, *out, *norm2, *up, *down;
};

struct Request {
	int64_t length; // tokens so far
	size_t left;    // tokens to come
};

const size_t GRID[] = {1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128};
const size_t MOST = 256; // tokens in a step

std::mt19937 chance;
size_t below(size_t n) { return chance() % n; }

void *embeddings, *headWeights;
std::vector<Layer> layers;
std::vector<Request> requests;
std::map<size_t, std::vector<Graph *>> captured; // pieces by size
std::vector<aclrtEvent> forks; // pairs for the side stream, one a layer

void *weight(size_t rows, size_t columns)
{
	void *p = memory::device(rows * columns * 2, "weights");
	std::vector<uint16_t> v(rows * columns);
	for (uint16_t &x : v)
		x = static_cast<uint16_t>(0x3000 + below(256));
	OK(aclrtMemcpy(p, v.size() * 2, v.data(), v.size() * 2, ACL_MEMCPY_HOST_TO_DEVICE));
	return p;
}

void *buffer(size_t bytes)
{
	void *p = memory::device(bytes, "buffers");
	OK(aclrtMemset(p, bytes, 0, bytes));
	return p;
}

// ---- the model ----

void norm(aclrtStream s, void *gamma, int64_t n)
{
	Buffers &b = buffers;
	if (!options.unfused)
		return ops::addRmsNorm(s, b.hidden, b.residual, gamma, b.normed, b.rstd, n);
	ops::add(s, b.hidden, b.residual, b.residual, n);
	ops::rmsNorm(s, b.residual, gamma, b.normed, b.rstd, n);
}

void beforeAttention(aclrtStream s, size_t l, int64_t n)
{
	Buffers &b = buffers;
	norm(s, layers[l].norm1, n);
	ops::matmul(s, b.normed, layers[l].qkv, b.qkv, n, HIDDEN, 3 * HIDDEN);
	char *keys = static_cast<char *>(b.qkv) + n * HIDDEN * 2;
	if (!options.side)
		return ops::storeKeys(s, keys, caches[l], b.slots, n);
	// Keys and values are stored on the side stream, which events join to this one.
	aclrtEvent fork = forks[2 * l], join = forks[2 * l + 1];
	bool unjoined = graphs::capturing() && faults::is("capture-unjoined") && l == 1;
	bool unordered = !graphs::capturing() && faults::now("join-lost") && l == 1;
	queue.push([=] {
		OK(aclrtRecordEvent(fork, s));
		OK(aclrtStreamWaitEvent(streams.side, fork));
	});
	ops::storeKeys(streams.side, keys, caches[l], b.slots, n);
	queue.push([=] {
		if (unjoined)
			return;
		OK(aclrtRecordEvent(join, streams.side));
		if (!unordered)
			OK(aclrtStreamWaitEvent(s, join));
	});
	if (unjoined)
		faults::blames("aclmdlRICaptureEnd", 107025);
	if (unordered)
		faults::blamesKernel("aclnnScatterPaKvCache", "race-between-streams");
}

std::vector<int64_t> lengths(size_t n)
{
	std::vector<int64_t> v;
	for (size_t i = 0; i < n; i++)
		v.push_back(i < requests.size() ? requests[i].length : 1);
	return v;
}

void attention(aclrtStream s, size_t l, size_t n) { ops::attention(s, buffers.qkv, caches[l], buffers.blocks, buffers.attended, lengths(n)); }

void afterAttention(aclrtStream s, size_t l, int64_t n)
{
	Buffers &b = buffers;
	ops::matmul(s, b.attended, layers[l].out, b.hidden, n, HIDDEN, HIDDEN);
	peers::reduce(s, b.hidden, n * HIDDEN / 2);
	norm(s, layers[l].norm2, n);
	ops::matmul(s, b.normed, layers[l].up, b.wide, n, HIDDEN, 4 * HIDDEN);
	ops::swiGlu(s, b.wide, b.narrow, n);
	ops::matmul(s, b.narrow, layers[l].down, b.hidden, n, 2 * HIDDEN, HIDDEN);
}

void embed(aclrtStream s, int64_t n)
{
	ops::indexSelect(s, embeddings, buffers.ids, buffers.hidden, n);
	ops::fill(s, buffers.residual, n * HIDDEN / 2, 0);
}

void forward(aclrtStream s, size_t n, Graph *g)
{
	int64_t rows = static_cast<int64_t>(n);
	embed(s, rows);
	for (size_t l = 0; l < options.layers; l++) {
		beforeAttention(s, l, rows);
		if (g)
			graphs::attentionTask(*g, l, [&] { attention(s, l, n); });
		else
			attention(s, l, n);
		afterAttention(s, l, rows);
	}
}

// ---- graphs ----

void captureSize(size_t n)
{
	int64_t rows = static_cast<int64_t>(n);
	forward(streams.capture, n, nullptr); // the warm-up
	queue.drain();
	OK(aclrtSynchronizeStream(streams.capture));
	std::vector<Graph *> &pieces = captured[n];
	if (options.decode == Decode::full) {
		pieces.push_back(graphs::capture([&] { forward(streams.capture, n, graphs::capturing()); }));
		return;
	}
	for (size_t l = 0; l <= options.layers; l++)
		pieces.push_back(graphs::capture([&] {
			if (l == 0)
				embed(streams.capture, rows);
			else
				afterAttention(streams.capture, l - 1, rows);
			if (l < options.layers)
				beforeAttention(streams.capture, l, rows);
		}));
}

void runGraphs(size_t n, const std::vector<Graph *> &pieces)
{
	if (options.outputs) {
		queue.drain();
		OK(aclrtSynchronizeStreamWithTimeout(streams.main, -1));
	}
	for (size_t l = 0; l < pieces.size(); l++) {
		graphs::run(*pieces[l]);
		if (options.decode == Decode::piecewise && l < options.layers)
			attention(streams.main, l, n);
	}
	graphs::update(*pieces[0], [&](aclrtStream s, size_t l) { attention(s, l, n); });
}

// ---- steps ----

void upload(void *to, const std::vector<int32_t> &v)
{
	size_t bytes = MOST * 4;
	int32_t *host = static_cast<int32_t *>(memory::pinned(bytes));
	std::copy(v.begin(), v.end(), host);
	size_t count = v.size() * 4;
	queue.push([=] { OK(aclrtMemcpyAsync(to, bytes, host, count, ACL_MEMCPY_HOST_TO_DEVICE, streams.copy)); });
	memory::copied(host, streams.copy);
}

// What a stream does next comes after all work of another so far.
void follow(aclrtStream s, aclrtStream other, bool waits = true)
{
	aclrtEvent e = newEvent(ACL_EVENT_SYNC);
	queue.push([=] {
		OK(aclrtRecordEvent(e, other));
		if (waits)
			OK(aclrtStreamWaitEvent(s, e));
	});
	queue.drain();
	watch(e);
}

// The step's inputs go up on the copy stream. An event orders them before the work on the main stream.
void prepare(size_t n)
{
	std::vector<int32_t> v(n);
	for (void *to : {buffers.positions, buffers.lengths, buffers.slots, buffers.ids}) {
		for (int32_t &x : v)
			x = static_cast<int32_t>(below(to == buffers.ids ? VOCABULARY : CACHE_SLOTS));
		upload(to, v);
	}
	bool unordered = faults::now("inputs-unordered");
	follow(streams.main, streams.copy, !unordered);
	if (unordered)
		faults::blames("aclrtMemcpyAsync", 0, "race-between-streams");
}

// The next tokens and their copy to the host. Logits and tokens are in blocks; the copy stream may use the tokens too.
void sample(size_t n)
{
	int64_t rows = static_cast<int64_t>(n);
	aclrtStream on = options.outputs ? streams.copy : streams.main;
	void *logits = memory::block(n * VOCABULARY * 2, streams.main), *tokens = memory::block(n * 4, streams.main), *host = memory::pinned(MOST * 4);
	ops::matmul(streams.main, buffers.hidden, headWeights, logits, rows, HIDDEN, VOCABULARY);
	ops::argMax(streams.main, logits, tokens, rows);
	ops::copy(streams.main, buffers.ids, tokens, rows);
	follow(streams.copy, streams.main); // the next step writes inputs there
	queue.push([=] { OK(aclrtMemcpyAsync(host, MOST * 4, tokens, n * 4, ACL_MEMCPY_DEVICE_TO_HOST, on)); });
	if (options.outputs)
		memory::used(tokens, on);
	memory::giveBack(tokens);
	memory::giveBack(logits);
	if (!options.outputs) {
		queue.drain();
		OK(aclrtSynchronizeStream(streams.main));
		return;
	}
	memory::copied(host, on);
	aclrtEvent arrived = newEvent(ACL_EVENT_SYNC);
	queue.push([=] { OK(aclrtRecordEvent(arrived, on)); });
	queue.drain();
	output.push([=] {
		OK(aclrtSynchronizeEvent(arrived));
		OK(aclrtDestroyEvent(arrived));
	});
}

void decode()
{
	size_t n = requests.size();
	auto fit = captured.lower_bound(n);
	bool eager = fit == captured.end();
	size_t padded = eager ? n : fit->first;
	truth::step("decode", eager ? "eager" : options.decode == Decode::full ? "full" : "piecewise", n, padded);
	prepare(padded);
	faults::inject(Point::step);
	if (eager)
		forward(streams.main, padded, nullptr);
	else
		runGraphs(padded, fit->second);
	faults::inject(Point::submit);
	sample(padded);
	for (size_t i = requests.size(); i--;) {
		requests[i].length++;
		if (!--requests[i].left)
			requests.erase(requests.begin() + static_cast<long>(i));
	}
}

void prefill(size_t arrived)
{
	size_t tokens = 0;
	for (size_t i = 0; i < arrived; i++) {
		Request r = {static_cast<int64_t>(4 + below(13)), 3 + below(10)};
		tokens += static_cast<size_t>(r.length);
		requests.push_back(r);
	}
	tokens = std::min(tokens, MOST);
	truth::step("prefill", "eager", tokens, tokens);
	peers::fetch(tokens);
	prepare(tokens);
	faults::inject(Point::step);
	forward(streams.main, tokens, nullptr);
	faults::inject(Point::submit);
	sample(tokens);
}

} // namespace

namespace engine {

void start()
{
	chance.seed(options.seed);
	embeddings = weight(VOCABULARY, HIDDEN);
	for (size_t l = 0; l < options.layers; l++) {
		layers.push_back({weight(1, HIDDEN), weight(HIDDEN, 3 * HIDDEN), weight(HIDDEN, HIDDEN), weight(1, HIDDEN), weight(HIDDEN, 4 * HIDDEN), weight(2 * HIDDEN, HIDDEN)});
		caches.push_back(memory::device(2 * CACHE_SLOTS * HIDDEN * 2, "keys and values"));
		OK(aclrtMemset(caches.back(), 2 * CACHE_SLOTS * HIDDEN * 2, 0, 2 * CACHE_SLOTS * HIDDEN * 2));
	}
	headWeights = weight(HIDDEN, VOCABULARY);
	const size_t row = MOST * HIDDEN * 2;
	Buffers &b = buffers;
	for (void **p : {&b.ids, &b.positions, &b.slots, &b.lengths, &b.tokens, &b.rstd})
		*p = buffer(MOST * 4);
	b.blocks = buffer(MOST * 16);
	for (void **p : {&b.hidden, &b.residual, &b.normed, &b.attended})
		*p = buffer(row);
	b.qkv = buffer(3 * row), b.wide = buffer(4 * row), b.narrow = buffer(2 * row);
	for (size_t i = 0; options.side && i < 2 * options.layers; i++)
		forks.push_back(newEvent(ACL_EVENT_SYNC));
	if (options.decode != Decode::eager)
		for (size_t i = options.sizes; i--;) // the largest first
			captureSize(GRID[i]);
}

void run()
{
	const size_t largest = GRID[options.sizes - 1], most = options.requests ? options.requests : largest;
	for (size_t step = 0; step < options.steps; step++) {
		progress++;
		faults::setStep(step);
		if (requests.size() < most && (requests.empty() || below(8) == 0))
			prefill(1 + below(most - requests.size()));
		else
			decode();
	}
	queue.drain();
	output.drain();
	OK(aclrtSynchronizeStream(streams.main));
}

void end()
{
	for (auto &[size, pieces] : captured)
		for (Graph *g : pieces) {
			OK(aclmdlRIDestroy(g->model));
			for (const Update &u : g->updates)
				if (u.event)
					OK(aclrtDestroyEvent(u.event));
		}
	for (aclrtEvent e : forks)
		OK(aclrtDestroyEvent(e));
}

} // namespace engine
