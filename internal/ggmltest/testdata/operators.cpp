// The operators of aclnn.h, computed by the simulator's ready kernels: a library as thin as the program needs.
//
// A tensor is contiguous, or the transposed view of a contiguous matrix. Only Matmul takes the view; it transposes its operand into
// the workspace.
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "aclnn.h"
#include "call.h"

using std::vector;

struct aclTensor {
	vector<int64_t> dims, strides;
	char *at;

	int64_t count() const
	{
		int64_t n = 1;
		for (int64_t d : dims)
			n *= d;
		return n;
	}
	uint32_t columns() const { return static_cast<uint32_t>(dims.back()); }
	uint32_t rows() const { return static_cast<uint32_t>(count() / dims.back()); }
};

struct aclTensorList {
	vector<const aclTensor *> tensors;
};

struct aclScalar {
	float value;
};

struct aclIntArray {
	vector<int64_t> values;
};

// Phase one makes it, phase two runs and ends it.
struct aclOpExecutor {
	std::function<void(char *workspace, aclrtStream stream)> run;
};

aclTensor *aclCreateTensor(const int64_t *dims, uint64_t count, aclDataType, const int64_t *strides, int64_t offset, aclFormat, const int64_t *, uint64_t,
			   void *base)
{
	return new aclTensor{{dims, dims + count}, {strides, strides + count}, static_cast<char *>(base) + offset * 4};
}

aclTensorList *aclCreateTensorList(const aclTensor *const *tensors, uint64_t count) { return new aclTensorList{{tensors, tensors + count}}; }
aclScalar *aclCreateScalar(void *value, aclDataType) { return new aclScalar{*static_cast<float *>(value)}; }
aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t count) { return new aclIntArray{{values, values + count}}; }

template <class T> static aclnnStatus destroy(const T *t)
{
	delete t;
	return 0;
}

aclnnStatus aclDestroyTensor(const aclTensor *t) { return destroy(t); }
aclnnStatus aclDestroyScalar(const aclScalar *s) { return destroy(s); }
aclnnStatus aclDestroyIntArray(const aclIntArray *a) { return destroy(a); }
aclnnStatus aclDestroyTensorList(const aclTensorList *l)
{
	for (const aclTensor *t : l->tensors)
		delete t;
	return destroy(l);
}

// The binary is loaded for each device, when the device needs its first kernel.
static aclrtFuncHandle kernel(const char *name)
{
	static std::map<int32_t, aclrtBinHandle> binaries;
	static std::map<std::pair<int32_t, std::string>, aclrtFuncHandle> functions;
	static std::mutex lock;
	std::lock_guard<std::mutex> hold(lock);
	int32_t device;
	CALL(aclrtGetDevice, &device);
	aclrtFuncHandle &f = functions[{device, name}];
	if (!f) {
		aclrtBinHandle &b = binaries[device];
		if (!b)
			CALL(aclrtBinaryLoadFromFile, std::getenv("DECODER_KERNELS"), nullptr, &b);
		CALL(aclrtBinaryGetFunction, b, name, &f);
	}
	return f;
}

template <class Arguments> static void launch(const char *name, aclrtStream stream, Arguments a)
{
	CALL(aclrtLaunchKernelWithHostArgs, kernel(name), 2, stream, nullptr, &a, sizeof a, nullptr, 0);
}

struct CopyArguments {
	const void *in;
	void *out;
	uint64_t bytes;
};

struct BinaryArguments {
	const void *a, *b;
	void *out;
	uint64_t count;
};

struct RowsArguments {
	const void *in;
	void *out;
	uint32_t rows, columns;
};

static aclnnStatus prepared(uint64_t *size, aclOpExecutor **executor, uint64_t needed, std::function<void(char *, aclrtStream)> run)
{
	*size = needed;
	*executor = new aclOpExecutor{std::move(run)};
	return 0;
}

static aclnnStatus run(void *workspace, aclOpExecutor *executor, aclrtStream stream)
{
	executor->run(static_cast<char *>(workspace), stream);
	delete executor;
	return 0;
}

#define RUN(name) \
	aclnnStatus aclnn##name(void *workspace, uint64_t, aclOpExecutor *executor, aclrtStream stream) { return run(workspace, executor, stream); }

aclnnStatus aclnnIndexSelectGetWorkspaceSize(const aclTensor *self, int64_t, const aclTensor *index, aclTensor *out, uint64_t *size, aclOpExecutor **e)
{
	struct Arguments {
		const void *table, *index;
		void *out;
		uint32_t n, rows, columns;
	} a = {self->at, index->at, out->at, self->rows(), out->rows(), out->columns()};
	return prepared(size, e, 0, [a](char *, aclrtStream s) { launch("gather", s, a); });
}
RUN(IndexSelect)

aclnnStatus aclnnLayerNormGetWorkspaceSize(const aclTensor *in, const aclIntArray *, const aclTensor *weight, const aclTensor *bias, double epsilon,
					   aclTensor *out, aclTensor *, aclTensor *, uint64_t *size, aclOpExecutor **e)
{
	struct Arguments {
		const void *in, *weight, *bias;
		void *out;
		uint32_t rows, columns;
		float epsilon;
	} a = {in->at, weight->at, bias->at, out->at, in->rows(), in->columns(), static_cast<float>(epsilon)};
	return prepared(size, e, 0, [a](char *, aclrtStream s) { launch("layer_norm", s, a); });
}
RUN(LayerNorm)

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out, int8_t, uint64_t *size, aclOpExecutor **e)
{
	uint32_t m = self->rows(), k = self->columns(), n = out->columns();
	if (other->strides.back() == 1)
		std::abort(); // the program passes transposed views only
	const void *a = self->at, *b = other->at;
	void *c = out->at;
	return prepared(size, e, other->count() * sizeof(float), [=](char *workspace, aclrtStream s) {
		launch("transpose", s, RowsArguments{b, workspace, n, k});
		struct {
			const void *a, *b;
			void *c;
			uint32_t m, n, k;
		} arguments = {a, workspace, c, m, n, k};
		launch("matmul", s, arguments);
	});
}
RUN(Matmul)

aclnnStatus aclnnCatGetWorkspaceSize(const aclTensorList *list, int64_t, aclTensor *out, uint64_t *size, aclOpExecutor **e)
{
	vector<CopyArguments> parts;
	char *to = out->at;
	for (const aclTensor *t : list->tensors) {
		uint64_t bytes = t->count() * sizeof(float);
		parts.push_back({t->at, to, bytes});
		to += bytes;
	}
	return prepared(size, e, 0, [parts](char *, aclrtStream s) {
		for (const CopyArguments &p : parts)
			launch("copy", s, p);
	});
}
RUN(Cat)

aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor *self, int64_t, aclTensor *out, uint64_t *size, aclOpExecutor **e)
{
	RowsArguments a = {self->at, out->at, self->rows(), self->columns()};
	return prepared(size, e, 0, [a](char *, aclrtStream s) { launch("softmax", s, a); });
}
RUN(Softmax)

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out, uint64_t *size,
				     aclOpExecutor **e)
{
	if (alpha->value != 1)
		std::abort();
	BinaryArguments a = {self->at, other->at, out->at, static_cast<uint64_t>(out->count())};
	return prepared(size, e, 0, [a](char *, aclrtStream s) { launch("add", s, a); });
}
RUN(Add)

aclnnStatus aclnnInplaceAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other, const aclScalar *alpha, uint64_t *size, aclOpExecutor **e)
{
	return aclnnAddGetWorkspaceSize(self, other, alpha, const_cast<aclTensor *>(self), size, e);
}
RUN(InplaceAdd)

// The matrix keeps its layout here. The real operator rearranges it in place.
aclnnStatus aclnnTransMatmulWeightGetWorkspaceSize(aclTensor *weight, uint64_t *size, aclOpExecutor **e)
{
	void *at = weight->at;
	uint64_t bytes = weight->count() * sizeof(float);
	return prepared(size, e, bytes, [=](char *workspace, aclrtStream s) {
		launch("copy", s, CopyArguments{at, workspace, bytes});
		launch("copy", s, CopyArguments{workspace, at, bytes});
	});
}
RUN(TransMatmulWeight)

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *shape, aclDataType, uint64_t *size)
{
	*size = sizeof(float);
	for (int64_t d : shape->values)
		*size *= d;
	return 0;
}
