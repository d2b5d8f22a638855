// The model and its steps. Requests of random length come and go; each step decodes one token of each request, or reads prompts.
#pragma once

#include "graphs.h"
#include "peers.h"

#include <random>

namespace engine {
struct Layer {
	void *norm1, *qkv, *out, *norm2, *up, *down; // weights
	aclrtEvent fork, join;                       // of the side stream
};

struct Request {
	int64_t length; // tokens so far
	size_t left;    // tokens to come
};

const int64_t GRID[] = {1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128};
const int64_t MOST = 256; // tokens in a step

inline std::mt19937 chance;
inline void *embeddings, *headWeights;
inline std::vector<Layer> layers;
inline std::vector<Request> requests;
inline std::map<int64_t, std::vector<graphs::Graph *>> captured; // by size: the model, or its parts

inline size_t below(size_t n) { return chance() % n; }

inline void *weight(size_t halfs)
{
	std::vector<uint16_t> v(halfs, 0x3000);
	void *p = memory::device(halfs * 2, "weights");
	CHECK(aclrtMemcpy(p, halfs * 2, v.data(), halfs * 2, ACL_MEMCPY_HOST_TO_DEVICE));
	return p;
}

inline void *buffer(size_t bytes, const char *owner = "buffers")
{
	void *p = memory::device(bytes, owner);
	CHECK(aclrtMemset(p, bytes, 0, bytes));
	return p;
}

// What `to` does next comes after all work of `from` so far. Without an event of its own it takes a new one.
inline void order(aclrtStream from, aclrtStream to, bool waits = true, aclrtEvent own = nullptr)
{
	aclrtEvent e = own ? own : newEvent(ACL_EVENT_SYNC);
	queue.push([=] {
		CHECK(aclrtRecordEvent(e, from));
		if (waits)
			CHECK(aclrtStreamWaitEvent(to, e));
	});
	if (!own)
		queue.drain(), watch(e);
}

// The model has parts with attention between them. n is the number of tokens.
using namespace ops;

inline void embed(aclrtStream s, int64_t n)
{
	LAUNCH(s, aclnnIndexSelect, tensor(embeddings, {VOCABULARY, HIDDEN}), 0, tensor(buffers.ids, {n}, ACL_INT32), tensor(buffers.hidden, {n, HIDDEN}));
	fill(s, buffers.residual, n * HIDDEN / 2);
}

inline void norm(aclrtStream s, void *gamma, int64_t n)
{
	Buffers b = buffers;
	Dims rows = {n, HIDDEN};
	if (options.unfused) {
		LAUNCH(s, aclnnAdd, tensor(b.hidden, rows), tensor(b.residual, rows), scalar(1), tensor(b.residual, rows));
		LAUNCH(s, aclnnRmsNorm, tensor(b.residual, rows), tensor(gamma, {HIDDEN}), 1e-6, tensor(b.normed, rows), tensor(b.rstd, {n, 1}, ACL_FLOAT));
		return;
	}
	LAUNCH(s, aclnnAddRmsNorm, tensor(b.hidden, rows), tensor(b.residual, rows), tensor(gamma, {HIDDEN}), 1e-6, tensor(b.normed, rows),
	       tensor(b.rstd, {n, 1}, ACL_FLOAT), tensor(b.residual, rows));
}

// A cache has all keys before all values, and so has the buffer, after the queries.
inline void storeKeys(aclrtStream s, size_t l, int64_t n)
{
	char *cache = caches[l], *keys = static_cast<char *>(buffers.qkv) + n * HIDDEN * 2;
	Dims rows = {n, HIDDEN}, all = {CACHE_SLOTS, HIDDEN};
	LAUNCH(s, aclnnScatterPaKvCache, tensor(keys, rows), tensor(cache, all), tensor(buffers.slots, {n}, ACL_INT32), tensor(keys + n * HIDDEN * 2, rows),
	       tensor(cache + CACHE_SLOTS * HIDDEN * 2, all), nullptr, nullptr, nullptr, const_cast<char *>("Norm"), const_cast<char *>("None"), nullptr, nullptr);
}

inline void beforeAttention(aclrtStream s, size_t l, int64_t n)
{
	norm(s, layers[l].norm1, n);
	matmul(s, buffers.normed, layers[l].qkv, buffers.qkv, n, HIDDEN, 3 * HIDDEN);
	if (!options.side)
		return storeKeys(s, l, n);
	order(s, streams.side, true, layers[l].fork);
	storeKeys(streams.side, l, n);
	bool last = l + 1 == options.layers; // a later join would order this layer too
	if (!last || !graphs::current || !faults::is("capture-unjoined"))
		order(streams.side, s, !last || graphs::current || !faults::now("join-lost"), layers[l].join);
}

inline void attention(aclrtStream s, size_t l, int64_t n)
{
	Buffers b = buffers;
	char *cache = caches[l];
	Dims pages = {CACHE_SLOTS / BLOCK, BLOCK, HIDDEN}, rows = {n, HIDDEN}, lengths(n, 1);
	for (size_t i = 0; i < std::min(lengths.size(), requests.size()); i++)
		lengths[i] = requests[i].length;
	T none = nullptr;
	LAUNCH(s, aclnnFusedInferAttentionScoreV3, tensor(b.qkv, rows), list(cache, pages), list(cache + CACHE_SLOTS * HIDDEN * 2, pages), none, none,
	       nullptr, ints(lengths), none, none, none, none, none, none, none, tensor(b.blocks, {n, 4}, ACL_INT32), none, none, none, none, none, none, none,
	       none, nullptr, none, none, none, 4, 0.125, 2147483647, 0, const_cast<char *>("TND"), 4, 0, 0, BLOCK, 0, false, 0, 0, tensor(b.attended, rows), none);
}

inline void afterAttention(aclrtStream s, size_t l, int64_t n)
{
	Buffers b = buffers;
	matmul(s, b.attended, layers[l].out, b.hidden, n, HIDDEN, HIDDEN);
	peers::reduce(s, b.hidden, n * HIDDEN / 2);
	norm(s, layers[l].norm2, n);
	matmul(s, b.normed, layers[l].up, b.wide, n, HIDDEN, 4 * HIDDEN);
	LAUNCH(s, aclnnSwiGlu, tensor(b.wide, {n, 4 * HIDDEN}), -1, tensor(b.narrow, {n, 2 * HIDDEN}));
	matmul(s, b.narrow, layers[l].down, b.hidden, n, 2 * HIDDEN, HIDDEN);
}

inline void part(aclrtStream s, size_t l, int64_t n)
{
	l ? afterAttention(s, l - 1, n) : embed(s, n);
	if (l < options.layers)
		beforeAttention(s, l, n);
}

// The whole model: its parts, and what `attend` does between them.
inline void forward(const std::function<void(size_t)> &part, const std::function<void(size_t)> &attend)
{
	for (size_t l = 0; l <= options.layers; l++) {
		part(l);
		if (l < options.layers)
			attend(l);
	}
}

inline void runEager(aclrtStream s, int64_t n)
{
	forward([=](size_t l) { part(s, l, n); }, [=](size_t l) { attention(s, l, n); });
}

// With --decode full a graph has the whole model, otherwise one part.
inline void captureSize(int64_t n)
{
	runEager(streams.capture, n); // the warm-up
	queue.drain();
	CHECK(aclrtSynchronizeStream(streams.capture));
	std::vector<graphs::Graph *> &gs = captured[n];
	auto capture = [=](size_t l) { part(streams.capture, l, n); };
	if (options.decode == "full")
		gs.push_back(graphs::capture([&] { forward(capture, [=](size_t l) { graphs::attentionTask([=] { attention(streams.capture, l, n); }); }); }));
	else
		forward([&](size_t l) { gs.push_back(graphs::capture([&] { capture(l); })); }, [](size_t) {});
}

inline void runGraphs(int64_t n)
{
	const std::vector<graphs::Graph *> &gs = captured[n];
	if (options.decode == "piecewise")
		return forward([&](size_t l) { graphs::run(*gs[l]); }, [=](size_t l) { attention(streams.main, l, n); });
	graphs::run(*gs[0]);
	graphs::update(*gs[0], [=](size_t l) { attention(streams.update, l, n); });
}

// The step's inputs go up on the copy stream. An event orders them before the work on the main stream.
inline void prepare(int64_t n)
{
	for (void *to : {buffers.positions, buffers.lengths, buffers.slots, buffers.ids}) {
		int32_t *host = static_cast<int32_t *>(memory::pinned(MOST * 4));
		for (int64_t i = 0; i < n; i++)
			host[i] = static_cast<int32_t>(below(to == buffers.ids ? VOCABULARY : CACHE_SLOTS));
		queue.push([=] { CHECK(aclrtMemcpyAsync(to, MOST * 4, host, n * 4, ACL_MEMCPY_HOST_TO_DEVICE, streams.copy)); });
		memory::used(host, streams.copy);
		memory::giveBack(host);
	}
	order(streams.copy, streams.main, !faults::now("inputs-unordered"));
}

// The next tokens, and their copy to the host on the copy stream. A thread waits for it, if there are helpers.
inline void sample(int64_t n)
{
	void *logits = memory::block(n * VOCABULARY * 2, streams.main), *tokens = memory::block(n * 4, streams.main), *host = memory::pinned(MOST * 4);
	matmul(streams.main, buffers.hidden, headWeights, logits, n, HIDDEN, VOCABULARY);
	LAUNCH(streams.main, aclnnArgMax, tensor(logits, {n, VOCABULARY}), 1, false, tensor(tokens, {n}, ACL_INT32));
	copy(streams.main, buffers.ids, tokens, n);
	order(streams.main, streams.copy);
	queue.push([=] { CHECK(aclrtMemcpyAsync(host, MOST * 4, tokens, n * 4, ACL_MEMCPY_DEVICE_TO_HOST, streams.copy)); });
	for (void *p : {tokens, host})
		memory::used(p, streams.copy);
	for (void *p : {logits, tokens, host})
		memory::giveBack(p);
	aclrtEvent arrived = newEvent(ACL_EVENT_SYNC);
	queue.push([=] { CHECK(aclrtRecordEvent(arrived, streams.copy)); });
	queue.drain();
	output.push([=] {
		CHECK(aclrtSynchronizeEvent(arrived));
		CHECK(aclrtDestroyEvent(arrived));
	});
}

// The only synchronization with the main stream is at its begin.
inline void step(bool prefill, int64_t tokens)
{
	auto fit = prefill ? captured.end() : captured.lower_bound(tokens);
	bool eager = fit == captured.end();
	int64_t n = eager ? tokens : fit->first; // padded
	truth("step", prefill ? "prefill" : "decode", eager ? "eager" : options.decode, tokens, n);
	CHECK(aclrtSynchronizeStreamWithTimeout(streams.main, -1));
	if (prefill)
		peers::fetch(tokens);
	prepare(n);
	faults::inject(faults::Point::step);
	eager ? runEager(streams.main, n) : runGraphs(n);
	faults::inject(faults::Point::submit);
	sample(n);
}

inline void prefill(size_t arrived)
{
	int64_t tokens = 0;
	for (size_t i = 0; i < arrived; i++) {
		requests.push_back({static_cast<int64_t>(4 + below(13)), 3 + below(10)});
		tokens += requests.back().length;
	}
	step(true, std::min(tokens, MOST));
}

inline void decode()
{
	step(false, static_cast<int64_t>(requests.size()));
	for (Request &r : requests)
		r.length++, r.left--;
	requests.erase(std::remove_if(requests.begin(), requests.end(), [](const Request &r) { return !r.left; }), requests.end());
}

inline void start()
{
	chance.seed(static_cast<unsigned>(options.seed));
	embeddings = weight(VOCABULARY * HIDDEN);
	headWeights = weight(HIDDEN * VOCABULARY);
	for (size_t l = 0; l < options.layers; l++) {
		layers.push_back({weight(HIDDEN), weight(3 * HIDDEN * HIDDEN), weight(HIDDEN * HIDDEN), weight(HIDDEN), weight(4 * HIDDEN * HIDDEN),
		                  weight(2 * HIDDEN * HIDDEN), newEvent(ACL_EVENT_SYNC), newEvent(ACL_EVENT_SYNC)});
		caches.push_back(static_cast<char *>(buffer(2 * CACHE_SLOTS * HIDDEN * 2, "keys and values")));
	}
	const size_t row = MOST * HIDDEN * 2;
	Buffers &b = buffers;
	for (void **p : {&b.ids, &b.positions, &b.slots, &b.lengths, &b.rstd})
		*p = buffer(MOST * 4);
	for (void **p : {&b.hidden, &b.residual, &b.normed, &b.attended})
		*p = buffer(row);
	b.blocks = buffer(MOST * 16), b.qkv = buffer(3 * row), b.wide = buffer(4 * row), b.narrow = buffer(2 * row);
	if (options.decode != "eager")
		for (size_t i = options.sizes; i--;) // the largest first
			captureSize(GRID[i]);
}

inline void run()
{
	const size_t most = options.requests ? options.requests : static_cast<size_t>(GRID[options.sizes - 1]);
	signal(SIGALRM, [](int) { abort(); }); // as the watchdogs of frameworks do
	for (faults::step = 0; faults::step < options.steps; faults::step++) {
		if (faults::chosen)
			alarm(3);
		if (requests.size() < most && (requests.empty() || below(8) == 0))
			prefill(1 + below(most - requests.size()));
		else
			decode();
	}
	output.drain();
	CHECK(aclrtSynchronizeStream(streams.main));
	alarm(0);
}

inline void end()
{
	for (auto &[size, gs] : captured)
		for (graphs::Graph *g : gs) {
			CHECK(aclmdlRIDestroy(g->model));
			for (const graphs::Update &u : g->updates)
				CHECK(u.event ? aclrtDestroyEvent(u.event) : 0);
		}
	for (const Layer &l : layers)
		for (aclrtEvent e : {l.fork, l.join})
			CHECK(aclrtDestroyEvent(e));
}
} // namespace engine
