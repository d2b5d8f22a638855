// A small decoder on two devices, with the calls that ggml's CANN backend makes for one: devices and their memory, weights written by
// several threads and rearranged on the default stream, a pool for workspaces, operators in two phases, graphs that are captured once
// for each shape, copies between the devices, pinned memory. Like the backend, it releases streams, memory and graphs after
// aclrtResetDevice and never calls aclFinalize.
//
// It prints each step's logits, compares them with its own computation, and prints to stderr how often it called each function.
#include <cmath>
#include <thread>

#include "backend.h"
#include "decoder.h"

namespace {

constexpr int columns = 32, hidden = 64, words = 96, layers = 2;
constexpr float epsilon = 1e-5f;

// A matrix on a device and its values on the host.
struct Weight {
	Tensor on;
	std::vector<float> values;
};

struct Layer {
	Weight gamma, beta, up, gate, down;
};

struct Model {
	Weight embedding; // on the first device
	Layer layer[layers];
	Weight output; // on the last device
};

// Shared by the threads that write weights to one device.
struct Rearranger {
	std::mutex lock;
	void *workspace = nullptr;
	size_t size = 0;

	void reserve(size_t needed)
	{
		if (needed <= size)
			return;
		clear();
		CALL(aclrtMalloc, &workspace, needed, ACL_MEM_MALLOC_HUGE_FIRST);
		size = needed;
	}
	// The operators on the default stream may still use the workspace.
	void clear()
	{
		if (workspace) {
			CALL(aclrtSynchronizeStream, nullptr);
			CALL(aclrtFree, workspace);
		}
		workspace = nullptr;
		size = 0;
	}
	void rearrange(const Tensor &t)
	{
		Owned<aclTensor> weight = describe(t);
		uint64_t needed = 0;
		aclOpExecutor *executor = nullptr;
		CALL(aclnnTransMatmulWeightGetWorkspaceSize, weight.get(), &needed, &executor);
		std::lock_guard<std::mutex> hold(lock);
		reserve(needed);
		CALL(aclnnTransMatmulWeight, workspace, needed, executor, nullptr);
		// Computations are on other streams. ggml does not wait, so they may read the weight before.
		CALL(aclrtSynchronizeStream, nullptr);
	}
};

Rearranger rearrangers[2];

// Two threads write a half each. The one that comes last rearranges a matrix.
void write(int device, Weight &w, bool matrix)
{
	std::mutex lock;
	size_t written = 0, half = w.on.bytes() / 2;
	auto part = [&](size_t from) {
		useDevice(device);
		CALL(aclrtMemcpy, w.on.data + from, half, reinterpret_cast<const char *>(w.values.data()) + from, half, ACL_MEMCPY_HOST_TO_DEVICE);
		std::lock_guard<std::mutex> hold(lock);
		written += half;
		if (matrix && written == w.on.bytes())
			rearrangers[device].rearrange(w.on);
	};
	std::thread first(part, 0), second(part, half);
	first.join();
	second.join();
}

void load(Buffer &b, Weight &w, int64_t width, int64_t rows, bool matrix)
{
	static uint32_t random = 1;
	if (matrix) {
		int64_t shape[] = {rows, width};
		uint64_t size;
		Owned<aclIntArray> dims(CALL(aclCreateIntArray, shape, 2));
		CALL(aclnnCalculateMatmulWeightSizeV2, dims.get(), ACL_FLOAT, &size);
	}
	w.on = b.tensor(width, rows);
	for (int64_t i = 0; i < width * rows; i++) {
		random = random * 1664525 + 1013904223;
		w.values.push_back(static_cast<float>(random >> 8) / (1 << 24) - 0.5f);
	}
	write(b.device, w, matrix);
}

void normalize(Backend &b, const std::vector<Tensor> &t)
{
	int64_t width = t[0].size[0];
	Owned<aclTensor> in = describe(t[0]), gamma = describe(t[1], 1), beta = describe(t[2], 1), out = describe(t[3]);
	Owned<aclIntArray> shape(CALL(aclCreateIntArray, &width, 1));
	COMPUTE(b, LayerNorm, in.get(), shape.get(), gamma.get(), beta.get(), epsilon, out.get(), nullptr, nullptr);
}

void multiply(Backend &b, const std::vector<Tensor> &t)
{
	Owned<aclTensor> in = describe(t[0]), weight = describe(t[1].transposed()), out = describe(t[2]);
	COMPUTE(b, Matmul, in.get(), weight.get(), out.get(), 2);
}

void join(Backend &b, const std::vector<Tensor> &t)
{
	aclTensor *parts[] = {describe(t[0]).release(), describe(t[1]).release()};
	Owned<aclTensorList> list(CALL(aclCreateTensorList, parts, 2));
	Owned<aclTensor> out = describe(t[2]);
	COMPUTE(b, Cat, list.get(), 0, out.get());
}

void softmax(Backend &b, const std::vector<Tensor> &t)
{
	Owned<aclTensor> in = describe(t[0]), out = describe(t[1]);
	COMPUTE(b, Softmax, in.get(), -1, out.get());
}

Owned<aclScalar> one()
{
	float value = 1;
	return Owned<aclScalar>(CALL(aclCreateScalar, &value, ACL_FLOAT));
}

void add(Backend &b, const std::vector<Tensor> &t)
{
	Owned<aclTensor> left = describe(t[0]), right = describe(t[1]), out = describe(t[2]);
	Owned<aclScalar> alpha = one();
	COMPUTE(b, Add, left.get(), right.get(), alpha.get(), out.get());
}

void addTo(Backend &b, const std::vector<Tensor> &t)
{
	Owned<aclTensor> sum = describe(t[0]), right = describe(t[1]);
	Owned<aclScalar> alpha = one();
	COMPUTE(b, InplaceAdd, sum.get(), right.get(), alpha.get());
}

void select(Backend &b, const std::vector<Tensor> &t)
{
	Owned<aclTensor> table = describe(t[0]), index = describe(t[1], 1), out = describe(t[2]);
	COMPUTE(b, IndexSelect, table.get(), 0, index.get(), out.get());
}

// The nodes of a layer, which changes x. Temporary tensors come from the buffer, which starts at the same place for each step: equal
// shapes have equal addresses.
void layerNodes(std::vector<Node> &nodes, Buffer &b, const Layer &l, const Tensor &x)
{
	int64_t tokens = x.size[1];
	Tensor normal = b.tensor(columns, tokens), up = b.tensor(hidden, tokens), gate = b.tensor(hidden, tokens), both = b.tensor(hidden, 2 * tokens),
	       soft = b.tensor(hidden, 2 * tokens), sum = b.tensor(hidden, tokens), down = b.tensor(columns, tokens);
	nodes.push_back({"normalize", {x, l.gamma.on, l.beta.on, normal}, normalize});
	nodes.push_back({"multiply", {normal, l.up.on, up}, multiply});
	nodes.push_back({"multiply", {normal, l.gate.on, gate}, multiply});
	nodes.push_back({"join", {up, gate, both}, join});
	nodes.push_back({"softmax", {both, soft}, softmax});
	nodes.push_back({"add", {soft.rows(0, tokens), soft.rows(tokens, tokens), sum}, add});
	nodes.push_back({"multiply", {sum, l.down.on, down}, multiply});
	nodes.push_back({"add to", {x, down}, addTo});
}

// From one device to the other, which must be the current one. Both may access the other's memory then.
void copyBetween(Backend &from, Backend &to, const Tensor &in, const Tensor &out)
{
	int32_t can = 0;
	CALL(aclrtDeviceCanAccessPeer, &can, from.device, to.device);
	if (!can)
		std::abort();
	CALL(aclrtDeviceEnablePeerAccess, from.device, 0);
	useDevice(from.device);
	CALL(aclrtDeviceEnablePeerAccess, to.device, 0);
	CALL(aclrtMemcpyAsync, out.data, out.bytes(), in.data, in.bytes(), ACL_MEMCPY_DEVICE_TO_DEVICE, from.stream());
	CALL(aclrtSynchronizeStream, from.stream());
}

// The same on the host.
std::vector<float> product(const std::vector<float> &in, const Weight &w)
{
	size_t k = static_cast<size_t>(w.on.size[0]), n = static_cast<size_t>(w.on.size[1]), rows = in.size() / k;
	std::vector<float> out(rows * n);
	for (size_t r = 0; r < rows; r++) {
		for (size_t c = 0; c < n; c++) {
			for (size_t i = 0; i < k; i++)
				out[r * n + c] += in[r * k + i] * w.values[c * k + i];
		}
	}
	return out;
}

void hostSoftmax(float *row, size_t n)
{
	float most = row[0], sum = 0;
	for (size_t i = 0; i < n; i++)
		most = std::fmax(most, row[i]);
	for (size_t i = 0; i < n; i++)
		sum += row[i] = std::exp(row[i] - most);
	for (size_t i = 0; i < n; i++)
		row[i] /= sum;
}

void hostLayer(std::vector<float> &x, const Layer &l)
{
	std::vector<float> normal = x;
	for (size_t r = 0; r < x.size(); r += columns) {
		float mean = 0, variance = 0;
		for (size_t i = 0; i < columns; i++)
			mean += x[r + i] / columns;
		for (size_t i = 0; i < columns; i++)
			variance += (x[r + i] - mean) * (x[r + i] - mean) / columns;
		for (size_t i = 0; i < columns; i++)
			normal[r + i] = (x[r + i] - mean) / std::sqrt(variance + epsilon) * l.gamma.values[i] + l.beta.values[i];
	}
	std::vector<float> up = product(normal, l.up), gate = product(normal, l.gate);
	for (size_t r = 0; r < up.size(); r += hidden) {
		hostSoftmax(&up[r], hidden);
		hostSoftmax(&gate[r], hidden);
	}
	for (size_t i = 0; i < up.size(); i++)
		up[i] += gate[i];
	std::vector<float> down = product(up, l.down);
	for (size_t i = 0; i < x.size(); i++)
		x[i] += down[i];
}

std::vector<float> hostLogits(const Model &m, const int32_t *ids, size_t tokens)
{
	std::vector<float> x;
	for (size_t t = 0; t < tokens; t++)
		x.insert(x.end(), &m.embedding.values[static_cast<size_t>(ids[t]) * columns], &m.embedding.values[static_cast<size_t>(ids[t] + 1) * columns]);
	for (const Layer &l : m.layer)
		hostLayer(x, l);
	return product(x, m.output);
}

// The step in which mapped memory grows is known before a device is selected.
size_t listDevices()
{
	int32_t count = 0;
	size_t step = 0;
	CALL(aclrtGetDeviceCount, reinterpret_cast<uint32_t *>(&count));
	for (int32_t i = 0; i < count; i++) {
		size_t free, total;
		aclrtPhysicalMemProp prop = {};
		prop.memAttr = ACL_HBM_MEM_HUGE;
		prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		prop.location.id = static_cast<uint32_t>(i);
		CALL(aclrtMemGetAllocationGranularity, &prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &step);
		useDevice(i);
		CALL(aclrtGetMemInfo, ACL_HBM_MEM, &free, &total);
		std::printf("device %d: %s, %zu MiB\n", i, CALL(aclrtGetSocName), total >> 20);
	}
	if (count != 2)
		std::abort();
	return step;
}

// One step: tokens through both devices, logits to pinned memory. Events keep a step's input until the step before has used it.
struct Run {
	Model model;
	Buffer weights[2] = {{0, 1 << 20}, {1, 1 << 20}}, work[2] = {{0, 1 << 20}, {1, 1 << 20}};
	Backend backends[2];
	aclrtEvent done[2];
	void *pinned = nullptr;
	size_t right = 0, all = 0;

	Run(Options o, size_t step) : backends{{0, o, step}, {1, o, step}}
	{
		load(weights[0], model.embedding, columns, words, false);
		for (int i = 0; i < layers; i++) {
			Layer &l = model.layer[i];
			load(weights[i], l.gamma, columns, 1, false);
			load(weights[i], l.beta, columns, 1, false);
			load(weights[i], l.up, columns, hidden, true);
			load(weights[i], l.gate, columns, hidden, true);
			load(weights[i], l.down, hidden, columns, true);
		}
		load(weights[1], model.output, columns, words, true);
		for (Backend &b : backends) {
			useDevice(b.device);
			CALL(aclrtCreateEvent, &done[b.device]);
		}
		CALL(aclrtMallocHost, &pinned, 64 << 10);
	}

	~Run()
	{
		for (aclrtEvent e : done)
			CALL(aclrtDestroyEvent, e);
		CALL(aclrtFreeHost, pinned);
	}

	void step(int number, size_t tokens, bool asGraph)
	{
		Backend &first = backends[0], &last = backends[1];
		for (int i = 0; i < 2; i++) {
			work[i].used = 0;
			useDevice(i);
			rearrangers[i].clear();
		}
		Tensor ids = work[0].tensor(static_cast<int64_t>(tokens), 1, ACL_INT32), x = work[0].tensor(columns, static_cast<int64_t>(tokens)),
		       arrived = work[1].tensor(columns, static_cast<int64_t>(tokens)), logits = work[1].tensor(words, static_cast<int64_t>(tokens));
		std::vector<Node> nodes[2];
		nodes[0].push_back({"select", {model.embedding.on, ids, x}, select});
		layerNodes(nodes[0], work[0], model.layer[0], x);
		layerNodes(nodes[1], work[1], model.layer[1], arrived);
		nodes[1].push_back({"multiply", {arrived, model.output.on, logits}, multiply});

		// The current device is the last one, also for the event of the first.
		CALL(aclrtSynchronizeEvent, done[0]);
		int32_t *in = static_cast<int32_t *>(pinned);
		float *out = reinterpret_cast<float *>(in + 1024);
		for (size_t i = 0; i < tokens; i++)
			in[i] = static_cast<int32_t>((static_cast<size_t>(number) * 7 + i * 13) % words);
		useDevice(0);
		CALL(aclrtStreamWaitEvent, first.stream(), done[0]);
		CALL(aclrtMemcpyAsync, ids.data, ids.bytes(), in, ids.bytes(), ACL_MEMCPY_HOST_TO_DEVICE, first.stream());
		first.compute(nodes[0], asGraph);
		CALL(aclrtRecordEvent, done[0], first.stream());
		last.synchronize();
		copyBetween(first, last, x, arrived);
		last.compute(nodes[1], asGraph);
		CALL(aclrtMemcpyAsync, out, logits.bytes(), logits.data, logits.bytes(), ACL_MEMCPY_DEVICE_TO_HOST, last.stream());
		CALL(aclrtRecordEvent, done[1], last.stream());
		last.synchronize();

		std::vector<float> want = hostLogits(model, in, tokens);
		double sum = 0;
		for (size_t i = 0; i < want.size(); i++) {
			sum += out[i];
			right += std::fabs(out[i] - want[i]) < 1e-3f;
		}
		all += want.size();
		std::printf("step %d: %zu tokens, sum %.6f\n", number, tokens, sum);
	}
};

} // namespace

void decode(Options o)
{
	CALL(aclInit, nullptr);
	size_t step = listDevices();
	{
		Run run(o, step);
		int number = 0;
		run.step(number++, 7, false); // the prompt is never a graph
		for (size_t tokens : {1, 1, 3, 1, 5, 1, 3, 1})
			run.step(number++, tokens, true);
		for (Backend &b : run.backends)
			std::printf("device %d: %d graphs captured, %d runs\n", b.device, b.captured, b.replayed);
		std::printf("%zu of %zu logits right\n", run.right, run.all);
	}
	for (const auto &c : tally.calls)
		std::fprintf(stderr, "%s %d\n", c.first.c_str(), c.second);
}
