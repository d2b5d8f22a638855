// A backend for one device, and what it computes: nodes over tensors at fixed addresses. Nodes are submitted to the device's stream
// one by one, or captured as a graph that is used while nodes with the same properties are computed.
#ifndef BACKEND_H
#define BACKEND_H

#include <array>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "aclnn.h"
#include "call.h"
#include "decoder.h"
#include "pool.h"

// The device is selected if the thread has used another one before.
inline void useDevice(int device)
{
	thread_local int current = -1;
	if (device != current)
		CALL(aclrtSetDevice, device);
	current = device;
}

// Dimensions start with the fastest. Strides are bytes.
struct Tensor {
	char *data = nullptr;
	std::array<int64_t, 4> size = {1, 1, 1, 1}, stride = {4, 4, 4, 4};
	int64_t offset = 0; // bytes, for views
	aclDataType type = ACL_FLOAT;

	Tensor() = default;
	Tensor(void *data, int64_t columns, int64_t rows = 1, aclDataType type = ACL_FLOAT) : data(static_cast<char *>(data)), size{columns, rows, 1, 1}, type(type)
	{
		for (int i = 1; i < 4; i++)
			stride[i] = stride[i - 1] * size[i - 1];
	}

	size_t bytes() const { return static_cast<size_t>(stride[3] * size[3]); }
	bool operator==(const Tensor &t) const { return data == t.data && size == t.size && stride == t.stride && offset == t.offset && type == t.type; }

	Tensor transposed() const
	{
		Tensor t = *this;
		std::swap(t.size[0], t.size[1]);
		std::swap(t.stride[0], t.stride[1]);
		return t;
	}
	Tensor rows(int64_t from, int64_t count) const
	{
		Tensor t = *this;
		t.offset += from * stride[1];
		t.size[1] = count;
		return t;
	}
};

// Owners of the operators' arguments. The operators' order of dimensions is the reverse, and strides are elements.
struct Destroyer {
	void operator()(aclTensor *t) const { CALL(aclDestroyTensor, t); }
	void operator()(aclTensorList *l) const { CALL(aclDestroyTensorList, l); }
	void operator()(aclScalar *s) const { CALL(aclDestroyScalar, s); }
	void operator()(aclIntArray *a) const { CALL(aclDestroyIntArray, a); }
};
template <class T> using Owned = std::unique_ptr<T, Destroyer>;

inline Owned<aclTensor> describe(const Tensor &t, int dims = 2)
{
	int64_t size[4], stride[4], storage = 1;
	for (int i = 0; i < dims; i++) {
		size[dims - 1 - i] = t.size[i];
		stride[dims - 1 - i] = t.stride[i] / 4;
		storage += (t.size[i] - 1) * t.stride[i] / 4;
	}
	storage += t.offset / 4;
	return Owned<aclTensor>(CALL(aclCreateTensor, size, static_cast<uint64_t>(dims), t.type, stride, t.offset / 4, ACL_FORMAT_ND, &storage, 1, t.data));
}

struct Backend;

// A node is an operator and its tensors. Nodes with equal names and tensors do the same.
struct Node {
	const char *name;
	std::vector<Tensor> tensors;
	void (*submit)(Backend &, const std::vector<Tensor> &);

	bool operator==(const Node &n) const { return std::strcmp(name, n.name) == 0 && tensors == n.tensors; }
};

struct Graph {
	std::vector<Node> nodes;
	aclmdlRI model = nullptr;

	explicit Graph(std::vector<Node> nodes) : nodes(std::move(nodes)) {}
	~Graph()
	{
		if (model)
			CALL(aclmdlRIDestroy, model);
	}
};

struct Backend {
	int device;
	Options options;
	size_t step; // in which mapped memory grows
	std::list<std::unique_ptr<Graph>> graphs; // most recently used first
	std::unique_ptr<Pool> memory;
	aclrtStream streams[8] = {};
	int captured = 0, replayed = 0;

	Backend(int device, Options options, size_t step) : device(device), options(options), step(step) { useDevice(device); }

	// The device is reset first, and everything on it is released after that. Each aclrtSetDevice counts, so the reset is not the last.
	~Backend()
	{
		useDevice(device);
		CALL(aclrtSynchronizeDevice);
		CALL(aclrtResetDevice, device);
		for (aclrtStream s : streams) {
			if (s)
				CALL(aclrtDestroyStream, s);
		}
	}

	aclrtStream stream()
	{
		if (!streams[0]) {
			CALL(aclrtSetDevice, device);
			CALL(aclrtCreateStream, &streams[0]);
		}
		return streams[0];
	}

	Pool &pool()
	{
		if (!memory) {
			size_t free, total;
			CALL(aclrtGetMemInfo, ACL_HBM_MEM, &free, &total);
			memory.reset(options.mapped ? static_cast<Pool *>(new MappedPool(device, step, free / step * step)) : new BufferPool);
		}
		return *memory;
	}

	void compute(std::vector<Node> nodes, bool asGraph)
	{
		static constexpr size_t most = 2;

		useDevice(device);
		if (!options.graphs || !asGraph) {
			submit(nodes);
			return;
		}
		auto same = graphs.begin();
		while (same != graphs.end() && (*same)->nodes != nodes)
			++same;
		if (same != graphs.end()) {
			graphs.splice(graphs.begin(), graphs, same);
		} else {
			if (graphs.size() == most)
				graphs.pop_back();
			graphs.push_front(std::make_unique<Graph>(std::move(nodes)));
			CALL(aclmdlRICaptureBegin, stream(), ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
			submit(graphs.front()->nodes);
			CALL(aclmdlRICaptureEnd, stream(), &graphs.front()->model);
			captured++;
		}
		CALL(aclmdlRIExecuteAsync, graphs.front()->model, stream());
		replayed++;
	}

	void synchronize()
	{
		useDevice(device);
		CALL(aclrtSynchronizeStream, stream());
	}

private:
	void submit(const std::vector<Node> &nodes)
	{
		for (const Node &n : nodes)
			n.submit(*this, n.tensors);
	}
};

// Both phases of an operator. The workspace returns to the pool when the operator is submitted.
#define COMPUTE(backend, name, ...)                                                                 \
	do {                                                                                        \
		uint64_t size = 0;                                                                  \
		aclOpExecutor *executor = nullptr;                                                  \
		CALL(aclnn##name##GetWorkspaceSize, __VA_ARGS__, &size, &executor);                 \
		Lease workspace((backend).pool(), size);                                            \
		CALL(aclnn##name, workspace.address(), size, executor, (backend).stream());         \
	} while (0)

// A buffer on a device, cut into tensors.
struct Buffer {
	int device;
	size_t size, used = 0;
	void *at = nullptr;

	Buffer(int device, size_t size) : device(device), size(size)
	{
		useDevice(device);
		CALL(aclrtMalloc, &at, size, ACL_MEM_MALLOC_HUGE_FIRST);
		CALL(aclrtMemset, at, size, 0, size);
	}
	~Buffer()
	{
		useDevice(device);
		CALL(aclrtFree, at);
	}

	Tensor tensor(int64_t columns, int64_t rows = 1, aclDataType type = ACL_FLOAT)
	{
		Tensor t(static_cast<char *>(at) + used, columns, rows, type);
		used += Pool::rounded(t.bytes(), 128);
		if (used > size)
			std::abort();
		return t;
	}
};

#endif
