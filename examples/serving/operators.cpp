// Operators in two phases: phase one on the caller, or with --queue 2 on the task queue; phase two on the task queue.
#include "serving.h"

// Declares both phases. Only the parameters of phase one differ.
#define PHASES(name, ...)                                                                          \
	extern "C" aclnnStatus name##GetWorkspaceSize(__VA_ARGS__, uint64_t *, aclOpExecutor **); \
	extern "C" aclnnStatus name(void *, uint64_t, aclOpExecutor *, aclrtStream)
using T = const aclTensor *;
using L = const aclTensorList *;
using I = const aclIntArray *;
PHASES(aclnnIndexSelect, T, int64_t, T, aclTensor *);
PHASES(aclnnInplaceFillScalar, aclTensor *, const aclScalar *);
PHASES(aclnnRmsNorm, T, T, double, T, T);
PHASES(aclnnAddRmsNorm, T, T, T, double, aclTensor *, aclTensor *, aclTensor *);
PHASES(aclnnAdd, T, T, const aclScalar *, aclTensor *);
PHASES(aclnnMatmul, T, T, aclTensor *, int8_t);
PHASES(aclnnScatterPaKvCache, T, aclTensor *, T, T, aclTensor *, T, T, T, char *, char *, I, I);
PHASES(aclnnFusedInferAttentionScoreV3, T, L, L, T, T, I, I, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, I, T, T, T, int64_t, double, int64_t, int64_t, char *,
       int64_t, int64_t, int64_t, int64_t, int64_t, bool, int64_t, int64_t, T, T);
PHASES(aclnnSwiGlu, T, int64_t, T);
PHASES(aclnnArgMax, T, int64_t, bool, aclTensor *);
PHASES(aclnnInplaceCopy, aclTensor *, T);

namespace {

struct Handles { // of one phase one
	std::vector<std::function<void()>> ends;

	template <class H> H *own(H *h, aclnnStatus (*end)(const H *))
	{
		ends.push_back([=] { end(h); });
		return h;
	}
	static aclTensor *make(void *p, const std::vector<int64_t> &dims, aclDataType type)
	{
		std::vector<int64_t> strides(dims.size(), 1);
		for (size_t i = dims.size(); i-- > 1;)
			strides[i - 1] = strides[i] * dims[i];
		return aclCreateTensor(dims.data(), dims.size(), type, strides.data(), 0, ACL_FORMAT_ND, dims.data(), dims.size(), p);
	}
	aclTensor *tensor(void *p, std::vector<int64_t> dims, aclDataType type = ACL_FLOAT16) { return own(make(p, dims, type), aclDestroyTensor); }
	L list(void *p, std::vector<int64_t> dims) // of one tensor, which it owns
	{
		T t = make(p, dims, ACL_FLOAT16);
		return own(aclCreateTensorList(&t, 1), aclDestroyTensorList);
	}
	I ints(std::vector<int64_t> v) { return own(aclCreateIntArray(v.data(), v.size()), aclDestroyIntArray); }
	const aclScalar *scalar(float v) { return own(aclCreateScalar(&v, ACL_FLOAT), aclDestroyScalar); }
	~Handles()
	{
		for (auto &end : ends)
			end();
	}
};

using One = std::function<aclnnStatus(Handles &, uint64_t *, aclOpExecutor **)>;
using Two = aclnnStatus (*)(void *, uint64_t, aclOpExecutor *, aclrtStream);

void launch(aclrtStream s, const char *name, One one, Two two)
{
	truth::launched(name);
	auto prepare = [=] {
		uint64_t size;
		aclOpExecutor *executor;
		Handles h;
		check(one(h, &size, &executor), name, __FILE__, __LINE__);
		return executor;
	};
	auto execute = [=](aclOpExecutor *executor) { check(two(nullptr, 0, executor, s), name, __FILE__, __LINE__); };
	if (options.queue == 2)
		return queue.push([=] { execute(prepare()); });
	queue.push([=, executor = prepare()] { execute(executor); });
}

// Launches an operator. The arguments of its phase one make handles with h.
#define LAUNCH(stream, name, ...) \
	launch(stream, #name, [=](Handles &h, uint64_t *size, aclOpExecutor **e) { return name##GetWorkspaceSize(__VA_ARGS__, size, e); }, name)

char *second(void *p, int64_t halfs) { return static_cast<char *>(p) + halfs * 2; }

} // namespace

namespace ops {

void indexSelect(aclrtStream s, void *table, void *index, void *out, int64_t n)
{
	LAUNCH(s, aclnnIndexSelect, h.tensor(table, {VOCABULARY, HIDDEN}), 0, h.tensor(index, {n}, ACL_INT32), h.tensor(out, {n, HIDDEN}));
}

void fill(aclrtStream s, void *out, int64_t n, float v) { LAUNCH(s, aclnnInplaceFillScalar, h.tensor(out, {n}, ACL_INT32), h.scalar(v)); }

void rmsNorm(aclrtStream s, void *x, void *gamma, void *y, void *rstd, int64_t n)
{
	LAUNCH(s, aclnnRmsNorm, h.tensor(x, {n, HIDDEN}), h.tensor(gamma, {HIDDEN}), 1e-6, h.tensor(y, {n, HIDDEN}), h.tensor(rstd, {n, 1}, ACL_FLOAT));
}

void addRmsNorm(aclrtStream s, void *x, void *residual, void *gamma, void *y, void *rstd, int64_t n)
{
	LAUNCH(s, aclnnAddRmsNorm, h.tensor(x, {n, HIDDEN}), h.tensor(residual, {n, HIDDEN}), h.tensor(gamma, {HIDDEN}), 1e-6, h.tensor(y, {n, HIDDEN}),
	       h.tensor(rstd, {n, 1}, ACL_FLOAT), h.tensor(residual, {n, HIDDEN}));
}

void add(aclrtStream s, void *x, void *y, void *out, int64_t n)
{
	LAUNCH(s, aclnnAdd, h.tensor(x, {n, HIDDEN}), h.tensor(y, {n, HIDDEN}), h.scalar(1), h.tensor(out, {n, HIDDEN}));
}

void matmul(aclrtStream s, void *a, void *b, void *out, int64_t n, int64_t in, int64_t columns)
{
	LAUNCH(s, aclnnMatmul, h.tensor(a, {n, in}), h.tensor(b, {in, columns}), h.tensor(out, {n, columns}), 1);
}

void storeKeys(aclrtStream s, void *keys, void *cache, void *slots, int64_t n)
{
	LAUNCH(s, aclnnScatterPaKvCache, h.tensor(keys, {n, HIDDEN}), h.tensor(cache, {CACHE_SLOTS, HIDDEN}), h.tensor(slots, {n}, ACL_INT32),
	       h.tensor(second(keys, n * HIDDEN), {n, HIDDEN}), h.tensor(second(cache, CACHE_SLOTS * HIDDEN), {CACHE_SLOTS, HIDDEN}), nullptr, nullptr, nullptr,
	       const_cast<char *>("Norm"), const_cast<char *>("None"), nullptr, nullptr);
}

void attention(aclrtStream s, void *q, void *cache, void *blocks, void *out, std::vector<int64_t> lengths)
{
	int64_t n = static_cast<int64_t>(lengths.size());
	T none = nullptr;
	LAUNCH(s, aclnnFusedInferAttentionScoreV3, h.tensor(q, {n, HIDDEN}), h.list(cache, {CACHE_SLOTS / BLOCK, BLOCK, HIDDEN}),
	       h.list(second(cache, CACHE_SLOTS * HIDDEN), {CACHE_SLOTS / BLOCK, BLOCK, HIDDEN}), none, none, nullptr, h.ints(lengths), none, none, none, none, none,
	       none, none, h.tensor(blocks, {n, 4}, ACL_INT32), none, none, none, none, none, none, none, none, nullptr, none, none, none, 4, 0.125, 2147483647, 0,
	       const_cast<char *>("TND"), 4, 0, 0, BLOCK, 0, false, 0, 0, h.tensor(out, {n, HIDDEN}), none);
}

void swiGlu(aclrtStream s, void *x, void *out, int64_t n) { LAUNCH(s, aclnnSwiGlu, h.tensor(x, {n, 4 * HIDDEN}), -1, h.tensor(out, {n, 2 * HIDDEN})); }

void argMax(aclrtStream s, void *logits, void *tokens, int64_t n)
{
	LAUNCH(s, aclnnArgMax, h.tensor(logits, {n, VOCABULARY}), 1, false, h.tensor(tokens, {n}, ACL_INT32));
}

void copy(aclrtStream s, void *to, void *from, int64_t n) { LAUNCH(s, aclnnInplaceCopy, h.tensor(to, {n}, ACL_INT32), h.tensor(from, {n}, ACL_INT32)); }

} // namespace ops
