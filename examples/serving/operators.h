// Operators in two phases: phase one on the caller, or with --queue 2 on the task queue; phase two on the task queue.
#pragma once

#include "threads.h"
#include "aclnn/acl_meta.h"
#include <utility>

namespace ops {
using T = const aclTensor *;
using L = const aclTensorList *;
using I = const aclIntArray *;

// Declares both phases. Only the parameters of phase one differ.
#define PHASES(name, ...)                                                                          \
	extern "C" aclnnStatus name##GetWorkspaceSize(__VA_ARGS__, uint64_t *, aclOpExecutor **); \
	extern "C" aclnnStatus name(void *, uint64_t, aclOpExecutor *, aclrtStream)
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

// An argument of a phase one, destroyed after it.
template <class H, aclnnStatus (*destroy)(const H *)> struct Argument {
	H *handle;
	operator H *() const { return handle; }
	~Argument() { destroy(handle); }
};

using Dims = std::vector<int64_t>;

inline thread_local std::string made; // the tensors that a thread has made for the next operator, as "float16[4,256]"
inline aclTensor *newTensor(void *p, const Dims &dims, aclDataType type)
{
	Dims strides(dims.size(), 1);
	for (size_t i = dims.size(); i-- > 1;)
		strides[i - 1] = strides[i] * dims[i];
	const char *between = "[";
	made += (made.empty() ? "" : ", ") + std::string(type == ACL_FLOAT16 ? "float16" : type == ACL_FLOAT ? "float32" : "int32");
	for (int64_t d : dims)
		made += std::exchange(between, ",") + std::to_string(d);
	made += "]";
	return aclCreateTensor(dims.data(), dims.size(), type, strides.data(), 0, ACL_FORMAT_ND, dims.data(), dims.size(), p);
}

inline Argument<aclTensor, aclDestroyTensor> tensor(void *p, const Dims &dims, aclDataType type = ACL_FLOAT16) { return {newTensor(p, dims, type)}; }
inline Argument<aclScalar, aclDestroyScalar> scalar(float v) { return {aclCreateScalar(&v, ACL_FLOAT)}; }
inline Argument<aclIntArray, aclDestroyIntArray> ints(const Dims &v) { return {aclCreateIntArray(v.data(), v.size())}; }
inline Argument<aclTensorList, aclDestroyTensorList> list(void *p, const Dims &dims) // of one tensor, which it owns
{
	T t = newTensor(p, dims, ACL_FLOAT16);
	return {aclCreateTensorList(&t, 1)};
}

inline void launch(aclrtStream s, const char *name, std::function<aclnnStatus(uint64_t *, aclOpExecutor **)> one,
                   aclnnStatus (*two)(void *, uint64_t, aclOpExecutor *, aclrtStream))
{
	truth("launch", name, s);
	auto prepare = [=] {
		uint64_t size;
		aclOpExecutor *executor;
		example_check(one(&size, &executor), name, __FILE__, __LINE__);
		return truth("tensors", name, std::exchange(made, "")), executor;
	};
	auto execute = [=](aclOpExecutor *executor) { example_check(two(nullptr, 0, executor, s), name, __FILE__, __LINE__); };
	if (options.queue == 2)
		return queue.push([=] { execute(prepare()); });
	queue.push([=, executor = prepare()] { execute(executor); });
}

#define LAUNCH(stream, name, ...) launch(stream, #name, [=](uint64_t *size, aclOpExecutor **e) { return name##GetWorkspaceSize(__VA_ARGS__, size, e); }, name)

inline void fill(aclrtStream s, void *out, int64_t n) { LAUNCH(s, aclnnInplaceFillScalar, tensor(out, {n}, ACL_INT32), scalar(0)); }
inline void copy(aclrtStream s, void *to, void *from, int64_t n) { LAUNCH(s, aclnnInplaceCopy, tensor(to, {n}, ACL_INT32), tensor(from, {n}, ACL_INT32)); }

inline void matmul(aclrtStream s, void *a, void *b, void *out, int64_t n, int64_t in, int64_t columns)
{
	LAUNCH(s, aclnnMatmul, tensor(a, {n, in}), tensor(b, {in, columns}), tensor(out, {n, columns}), 1);
}
} // namespace ops
