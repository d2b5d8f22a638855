// The decoding loop of a small language model: 400 small launches a token, a typical load of inference.
#include "../common/example.h"

#include <chrono>
#include <cstdint>
#include <vector>

#include "../kernels/decoder_args.h"
#include "model.h"

using namespace tiny;

static const char usage[] =
	"usage: tiny_decoder [--tokens N] [--quiet] [--kernels FILE] [--crash-after N] [--sleep-ms N]\n"
	"  --tokens N       tokens to generate (16)\n"
	"  --quiet          only the last line\n"
	"  --kernels FILE   kernel binary (decoder_kernels.o beside the program)\n"
	"  --crash-after N  abort() right after launch N\n"
	"  --sleep-ms N     pause after each token\n";

namespace {

struct Functions {
	aclrtFuncHandle embed, layerNorm, linear, add, gelu, rope, cacheAppend, scores, softmax, values;
};

class Decoder {
public:
	Decoder(Model &model, uint32_t context, const char *kernels);

	// Runs the model on one token; the logits are in logits() until the next step.
	void step(int32_t token, int32_t position);

	const float *logits() const { return hostLogits; }
	void free();

	uint64_t launches = 0;
	uint64_t crashAfter = 0;

private:
	float *buffer(size_t count);
	void launch(aclrtFuncHandle func, uint32_t numBlocks, void *args, size_t size, aclrtPlaceHolderInfo *placeHolder);
	template <typename Args> void launch(aclrtFuncHandle func, uint32_t numBlocks, Args args);
	template <typename Args, typename Tiling>
	void launch(aclrtFuncHandle func, uint32_t numBlocks, Args args, Tiling tiling);

	void norm(const float *in, const Norm &n, float *out);
	void linear(const float *in, const Linear &l, uint32_t rows, uint32_t columns, float *out);
	void add(const float *a, const void *b, uint32_t count, float *out);
	void attention(uint32_t layer, uint32_t length);
	void layer(uint32_t number, uint32_t length);

	Model &model;
	uint32_t context;
	aclrtStream stream;
	aclrtBinHandle binary;
	Functions f;
	std::vector<void *> allocations; // on the device

	// On the device: the inputs of a step, the cache, the values in between, and the result.
	int32_t *devToken, *devPosition;
	std::vector<float *> keys, values; // per layer: head, position, element
	float *x, *normal, *query, *key, *value, *scores, *weights, *mixed, *projected, *wide, *workspace, *devLogits;

	// Pinned, so that copies run in stream order without a wait.
	int32_t *hostToken;
	float *hostLogits;
};

Decoder::Decoder(Model &m, uint32_t positions, const char *kernels) : model(m), context(positions)
{
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtBinaryLoadFromFile(kernels, nullptr, &binary));
	struct {
		const char *name;
		aclrtFuncHandle *func;
	} const wanted[] = {
		{"embed", &f.embed},
		{"layer_norm", &f.layerNorm},
		{"linear", &f.linear},
		{"add", &f.add},
		{"gelu", &f.gelu},
		{"rope", &f.rope},
		{"cache_append", &f.cacheAppend},
		{"attention_scores", &f.scores},
		{"softmax", &f.softmax},
		{"attention_values", &f.values},
	};
	for (const auto &w : wanted)
		CHECK(aclrtBinaryGetFunction(binary, w.name, w.func));

	for (Tensor *t : model.tensors()) {
		t->device = buffer(t->host.size());
		CHECK(aclrtMemcpy(t->device, t->bytes(), t->host.data(), t->bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
	}

	devToken = reinterpret_cast<int32_t *>(buffer(1));
	devPosition = reinterpret_cast<int32_t *>(buffer(1));
	for (uint32_t l = 0; l < numLayers; l++) {
		keys.push_back(buffer(static_cast<size_t>(context) * hidden));
		values.push_back(buffer(static_cast<size_t>(context) * hidden));
	}
	x = buffer(hidden);
	normal = buffer(hidden);
	query = buffer(hidden);
	key = buffer(hidden);
	value = buffer(hidden);
	scores = buffer(context);
	weights = buffer(context);
	mixed = buffer(hidden);
	projected = buffer(hidden);
	wide = buffer(inner);
	workspace = buffer(context < 2 ? 2 : context); // layer_norm needs two floats, softmax one a position
	devLogits = buffer(vocabulary);

	void *p;
	CHECK(aclrtMallocHost(&p, sizeof *hostToken));
	hostToken = static_cast<int32_t *>(p);
	CHECK(aclrtMallocHost(&p, vocabulary * sizeof(float)));
	hostLogits = static_cast<float *>(p);
}

void Decoder::free()
{
	CHECK(aclrtFreeHost(hostLogits));
	CHECK(aclrtFreeHost(hostToken));
	for (void *p : allocations)
		CHECK(aclrtFree(p));
	CHECK(aclrtBinaryUnLoad(binary));
	CHECK(aclrtDestroyStream(stream));
}

float *Decoder::buffer(size_t count)
{
	void *p;
	CHECK(aclrtMalloc(&p, count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
	allocations.push_back(p);
	return static_cast<float *>(p);
}

void Decoder::launch(aclrtFuncHandle func, uint32_t numBlocks, void *args, size_t size, aclrtPlaceHolderInfo *placeHolder)
{
	CHECK(aclrtLaunchKernelWithHostArgs(func, numBlocks, stream, nullptr, args, size, placeHolder, placeHolder ? 1 : 0));
	launches++;
	if (launches == crashAfter)
		abort();
}

template <typename Args> void Decoder::launch(aclrtFuncHandle func, uint32_t numBlocks, Args args)
{
	launch(func, numBlocks, &args, sizeof args, nullptr);
}

// With tiling data after the arguments; their address is the last argument.
template <typename Args, typename Tiling>
void Decoder::launch(aclrtFuncHandle func, uint32_t numBlocks, Args args, Tiling tiling)
{
	struct {
		Args args;
		Tiling tiling;
	} block = {args, tiling};
	aclrtPlaceHolderInfo placeHolder;
	placeHolder.addrOffset = offsetof(Args, tiling);
	placeHolder.dataOffset = sizeof args;
	launch(func, numBlocks, &block, sizeof block, &placeHolder);
}

void Decoder::norm(const float *in, const Norm &n, float *out)
{
	layer_norm_block args = {in, static_cast<float *>(n.gamma.device), static_cast<float *>(n.beta.device), out, workspace,
	                         nullptr};
	launch(f.layerNorm, 1, args, norm_tiling{hidden, epsilon});
}

// The product and its bias, two launches.
void Decoder::linear(const float *in, const Linear &l, uint32_t rows, uint32_t columns, float *out)
{
	linear_block args = {in, static_cast<float *>(l.w.device), out, nullptr};
	launch(f.linear, columns / hidden, args, linear_tiling{rows, columns});
	add(out, l.b.device, columns, out);
}

void Decoder::add(const float *a, const void *b, uint32_t count, float *out)
{
	add_block args = {a, static_cast<const float *>(b), out, nullptr};
	launch(f.add, 1, args, count_tiling{count});
}

void Decoder::attention(uint32_t number, uint32_t length)
{
	for (uint32_t head = 0; head < heads; head++) {
		const size_t from = static_cast<size_t>(head) * context * headSize; // of this head's part of the cache
		const attention_tiling tiling = {length, headSize, attentionScale, 0};
		launch(f.scores, 1, attention_scores_block{query + head * headSize, keys[number] + from, scores, nullptr}, tiling);
		launch(f.softmax, 1, softmax_block{scores, weights, workspace, nullptr}, count_tiling{length});
		launch(f.values, 1, attention_values_block{weights, values[number] + from, mixed + head * headSize, nullptr}, tiling);
	}
}

// 33 launches.
void Decoder::layer(uint32_t number, uint32_t length)
{
	const Layer &l = model.layers[number];
	const float *angles = static_cast<float *>(model.angles.device);

	norm(x, l.attentionNorm, normal);
	linear(normal, l.query, hidden, hidden, query);
	linear(normal, l.key, hidden, hidden, key);
	linear(normal, l.value, hidden, hidden, value);
	launch(f.rope, 1, rope_block{query, angles, devPosition, heads, headSize});
	launch(f.rope, 1, rope_block{key, angles, devPosition, heads, headSize});
	launch(f.cacheAppend, 1, cache_append_block{key, keys[number], devPosition, heads, headSize, context, 0});
	launch(f.cacheAppend, 1, cache_append_block{value, values[number], devPosition, heads, headSize, context, 0});
	attention(number, length);
	linear(mixed, l.projection, hidden, hidden, projected);
	add(x, projected, hidden, x);

	norm(x, l.mlpNorm, normal);
	linear(normal, l.up, hidden, inner, wide);
	launch(f.gelu, 2, gelu_block{wide, wide, nullptr}, count_tiling{inner});
	linear(wide, l.down, inner, hidden, projected);
	add(x, projected, hidden, x);
}

void Decoder::step(int32_t token, int32_t position)
{
	// A copy from pageable memory blocks until done. It doesn't wait for the stream, which is empty after the previous
	// step's wait.
	CHECK(aclrtMemcpy(devPosition, sizeof position, &position, sizeof position, ACL_MEMCPY_HOST_TO_DEVICE));
	// From pinned memory it goes into the stream, before the launches.
	*hostToken = token;
	CHECK(aclrtMemcpyAsync(devToken, sizeof token, hostToken, sizeof token, ACL_MEMCPY_HOST_TO_DEVICE, stream));

	launch(f.embed, 1, embed_block{devToken, static_cast<float *>(model.embedding.device), x, hidden, 0});
	for (uint32_t i = 0; i < numLayers; i++)
		layer(i, static_cast<uint32_t>(position) + 1);
	norm(x, model.finalNorm, normal);
	linear(normal, model.logits, hidden, vocabulary, devLogits);

	const size_t bytes = vocabulary * sizeof(float);
	CHECK(aclrtMemcpyAsync(hostLogits, bytes, devLogits, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	CHECK(aclrtSynchronizeStream(stream));
}

// Decodes again on the host and compares every token and every logit.
bool verify(const Model &model, uint32_t tokens, const std::vector<int32_t> &output, const std::vector<float> &logits)
{
	Reference reference(model, tokens);
	int32_t token = firstToken;
	for (uint32_t t = 0; t < tokens; t++) {
		const std::vector<float> &want = reference.step(token);
		const float *got = &logits[static_cast<size_t>(t) * vocabulary];
		for (uint32_t i = 0; i < vocabulary; i++) {
			if (memcmp(&got[i], &want[i], sizeof(float))) {
				printf("token %u: logit %u is %.9g, not %.9g\n", t, i, got[i], want[i]);
				return false;
			}
		}
		token = argmax(want.data());
		if (output[t] != token) {
			printf("token %u is %d, not %d\n", t, output[t], token);
			return false;
		}
	}
	return true;
}

} // namespace

int main(int argc, char **argv)
{
	uint32_t tokens = 16;
	bool quiet = false;
	uint64_t crashAfter = 0;
	unsigned sleepMs = 0;
	const char *kernels = nullptr;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--tokens")) {
			tokens = static_cast<uint32_t>(example_number(argc, argv, &i, 1, 100000));
		} else if (!strcmp(argv[i], "--quiet")) {
			quiet = true;
		} else if (!strcmp(argv[i], "--kernels")) {
			kernels = example_text(argc, argv, &i);
		} else if (!strcmp(argv[i], "--crash-after")) {
			crashAfter = example_number(argc, argv, &i, 1, ULONG_MAX);
		} else if (!strcmp(argv[i], "--sleep-ms")) {
			sleepMs = static_cast<unsigned>(example_number(argc, argv, &i, 0, 60000));
		} else {
			fputs(usage, stderr);
			return 2;
		}
	}
	char path[PATH_MAX];
	example_kernel_path(kernels, "decoder_kernels.o", path);

	CHECK(aclInit(nullptr));
	CHECK(aclrtSetDevice(0));
	Model model(tokens);
	Decoder decoder(model, tokens, path);
	decoder.crashAfter = crashAfter;

	// All memory is allocated before the loop: the loop only copies, launches and waits.
	std::vector<int32_t> output(tokens);
	std::vector<float> logits(static_cast<size_t>(tokens) * vocabulary);
	std::chrono::duration<double, std::micro> busy{0};
	int32_t token = firstToken;
	for (uint32_t t = 0; t < tokens; t++) {
		auto start = std::chrono::steady_clock::now();
		decoder.step(token, static_cast<int32_t>(t));
		busy += std::chrono::steady_clock::now() - start;
		memcpy(&logits[static_cast<size_t>(t) * vocabulary], decoder.logits(), vocabulary * sizeof(float));
		output[t] = token = argmax(decoder.logits());
		if (sleepMs)
			usleep(sleepMs * 1000);
	}

	decoder.free();
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());

	if (!quiet) {
		printf("tokens:");
		for (int32_t t : output)
			printf(" %d", t);
		printf("\nlaunches: %llu, %llu a token\ntime: %.0f us a token\n", static_cast<unsigned long long>(decoder.launches),
		       static_cast<unsigned long long>(decoder.launches / tokens), busy.count() / tokens);
	}
	if (!verify(model, tokens, output, logits))
		return 1;
	printf("tiny_decoder: %u tokens right (%llu launches)\n", tokens, static_cast<unsigned long long>(decoder.launches));
	return 0;
}
