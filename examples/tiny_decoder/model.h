// The model that tiny_decoder runs: its sizes, its weights, and its computation on the host.
#ifndef TINY_DECODER_MODEL_H
#define TINY_DECODER_MODEL_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tiny {

const uint32_t numLayers = 12;
const uint32_t hidden = 64;
const uint32_t heads = 4;
const uint32_t headSize = hidden / heads;
const uint32_t inner = 4 * hidden; // of the feed-forward part
const uint32_t vocabulary = 256;
const float epsilon = 1e-5f;
const float attentionScale = 0.25f; // 1 / sqrt(headSize)
const int32_t firstToken = 1;

// A constant array of the model, on the host and on the device.
struct Tensor {
	std::vector<float> host;
	void *device = nullptr;

	size_t bytes() const { return host.size() * sizeof(float); }
};

struct Linear {
	Tensor w, b;
};

struct Norm {
	Tensor gamma, beta;
};

struct Layer {
	Norm attentionNorm, mlpNorm;
	Linear query, key, value, projection, up, down;
};

struct Model {
	Tensor embedding; // a row for each token
	Tensor angles;    // of rope: a row for each position
	std::vector<Layer> layers;
	Norm finalNorm;
	Linear logits;

	// Fills everything from a fixed seed, for up to `context` positions.
	explicit Model(uint32_t context);

	// All tensors, in the order in which they go to the device.
	std::vector<Tensor *> tensors();
};

// The same computation on the host with the same float operations: the results must agree bit by bit.
class Reference {
public:
	Reference(const Model &model, uint32_t context);

	// Computes the logits for a token at the next position.
	const std::vector<float> &step(int32_t token);

private:
	const Model &model;
	uint32_t position = 0;
	std::vector<std::vector<float>> keys, values; // per layer: position, head, element
	std::vector<float> logits;
};

// The token with the highest logit, the first one of equals.
int32_t argmax(const float *logits);

} // namespace tiny

#endif
