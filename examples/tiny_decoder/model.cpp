#include "model.h"

#include <cmath>

#include "../common/portable_exp.h"

namespace tiny {

namespace {

// xorshift64*, for weights that are the same everywhere.
class Random {
public:
	// Evenly from -scale to scale.
	float next(float scale)
	{
		state ^= state >> 12;
		state ^= state << 25;
		state ^= state >> 27;
		uint32_t bits = static_cast<uint32_t>((state * 2685821657736338717u) >> 40); // 24 bits
		return (static_cast<float>(bits) / 8388608.0f - 1.0f) * scale;
	}

	void fill(Tensor &t, size_t count, float scale, float offset = 0)
	{
		t.host.resize(count);
		for (float &x : t.host)
			x = offset + next(scale);
	}

	void fill(Linear &l, size_t rows, size_t columns, float scale)
	{
		fill(l.w, rows * columns, scale);
		fill(l.b, columns, 0.1f);
	}

	void fill(Norm &n)
	{
		fill(n.gamma, hidden, 0.2f, 1.0f);
		fill(n.beta, hidden, 0.1f);
	}

private:
	uint64_t state = 0x9e3779b97f4a7c15u;
};

typedef std::vector<float> Vector;

Vector layerNorm(const Vector &x, const Norm &n)
{
	float sum = 0, squares = 0;
	for (float v : x)
		sum += v;
	float mean = sum / static_cast<float>(x.size());
	for (float v : x)
		squares += (v - mean) * (v - mean);
	float scale = 1.0f / std::sqrt(squares / static_cast<float>(x.size()) + epsilon);
	Vector y(x.size());
	for (size_t i = 0; i < x.size(); i++)
		y[i] = (x[i] - mean) * scale * n.gamma.host[i] + n.beta.host[i];
	return y;
}

Vector linear(const Vector &x, const Linear &l)
{
	size_t columns = l.b.host.size();
	Vector y(columns, 0.0f);
	for (size_t i = 0; i < x.size(); i++)
		for (size_t j = 0; j < columns; j++)
			y[j] += x[i] * l.w.host[i * columns + j];
	for (size_t j = 0; j < columns; j++)
		y[j] = y[j] + l.b.host[j];
	return y;
}

void rope(Vector &x, const float *angles)
{
	for (uint32_t head = 0; head < heads; head++) {
		for (uint32_t i = 0; i < headSize / 2; i++) {
			float &lower = x[head * headSize + i], &upper = x[head * headSize + i + headSize / 2];
			float x0 = lower, x1 = upper;
			lower = x0 * angles[2 * i] - x1 * angles[2 * i + 1];
			upper = x0 * angles[2 * i + 1] + x1 * angles[2 * i];
		}
	}
}

Vector attention(const Vector &query, const Vector &keys, const Vector &values, uint32_t context)
{
	Vector out(hidden), weights(context);
	for (uint32_t head = 0; head < heads; head++) {
		float top = 0, sum = 0;
		for (uint32_t p = 0; p < context; p++) {
			float dot = 0;
			for (uint32_t i = 0; i < headSize; i++)
				dot += query[head * headSize + i] * keys[p * hidden + head * headSize + i];
			weights[p] = dot * attentionScale;
			if (p == 0 || weights[p] > top)
				top = weights[p];
		}
		for (float &w : weights) {
			w = portable_exp(w - top);
			sum += w;
		}
		for (float &w : weights)
			w = w / sum;
		for (uint32_t i = 0; i < headSize; i++) {
			float mixed = 0;
			for (uint32_t p = 0; p < context; p++)
				mixed += weights[p] * values[p * hidden + head * headSize + i];
			out[head * headSize + i] = mixed;
		}
	}
	return out;
}

void gelu(Vector &x)
{
	for (float &v : x) {
		float u = 1.5957691f * (v + 0.044715f * v * v * v);
		v = v / (1.0f + portable_exp(-u));
	}
}

void addTo(Vector &x, const Vector &y)
{
	for (size_t i = 0; i < x.size(); i++)
		x[i] = x[i] + y[i];
}

} // namespace

Model::Model(uint32_t context) : layers(numLayers)
{
	Random random;
	random.fill(embedding, vocabulary * hidden, 1.0f);
	for (Layer &l : layers) {
		random.fill(l.attentionNorm);
		random.fill(l.query, hidden, hidden, 0.25f);
		random.fill(l.key, hidden, hidden, 0.25f);
		random.fill(l.value, hidden, hidden, 0.25f);
		random.fill(l.projection, hidden, hidden, 0.25f);
		random.fill(l.mlpNorm);
		random.fill(l.up, hidden, inner, 0.25f);
		random.fill(l.down, inner, hidden, 0.125f);
	}
	random.fill(finalNorm);
	random.fill(logits, hidden, vocabulary, 0.25f);

	angles.host.resize(static_cast<size_t>(context) * headSize);
	for (uint32_t p = 0; p < context; p++) {
		for (uint32_t i = 0; i < headSize / 2; i++) {
			double angle = p * std::pow(10000.0, -2.0 * i / headSize);
			angles.host[p * headSize + 2 * i] = static_cast<float>(std::cos(angle));
			angles.host[p * headSize + 2 * i + 1] = static_cast<float>(std::sin(angle));
		}
	}
}

std::vector<Tensor *> Model::tensors()
{
	std::vector<Tensor *> all = {&embedding, &angles};
	for (Layer &l : layers) {
		for (Norm *n : {&l.attentionNorm, &l.mlpNorm}) {
			all.push_back(&n->gamma);
			all.push_back(&n->beta);
		}
		for (Linear *m : {&l.query, &l.key, &l.value, &l.projection, &l.up, &l.down}) {
			all.push_back(&m->w);
			all.push_back(&m->b);
		}
	}
	for (Tensor *t : {&finalNorm.gamma, &finalNorm.beta, &logits.w, &logits.b})
		all.push_back(t);
	return all;
}

Reference::Reference(const Model &m, uint32_t context)
	: model(m), keys(numLayers), values(numLayers)
{
	for (uint32_t l = 0; l < numLayers; l++) {
		keys[l].reserve(static_cast<size_t>(context) * hidden);
		values[l].reserve(static_cast<size_t>(context) * hidden);
	}
}

const std::vector<float> &Reference::step(int32_t token)
{
	const float *row = &model.embedding.host[static_cast<size_t>(token) * hidden];
	const float *angles = &model.angles.host[static_cast<size_t>(position) * headSize];
	Vector x(row, row + hidden);
	for (uint32_t i = 0; i < numLayers; i++) {
		const Layer &l = model.layers[i];
		Vector normal = layerNorm(x, l.attentionNorm);
		Vector query = linear(normal, l.query), key = linear(normal, l.key), value = linear(normal, l.value);
		rope(query, angles);
		rope(key, angles);
		keys[i].insert(keys[i].end(), key.begin(), key.end());
		values[i].insert(values[i].end(), value.begin(), value.end());
		addTo(x, linear(attention(query, keys[i], values[i], position + 1), l.projection));

		Vector wide = linear(layerNorm(x, l.mlpNorm), l.up);
		gelu(wide);
		addTo(x, linear(wide, l.down));
	}
	logits = linear(layerNorm(x, model.finalNorm), model.logits);
	position++;
	return logits;
}

int32_t argmax(const float *logits)
{
	int32_t best = 0;
	for (int32_t i = 1; i < static_cast<int32_t>(vocabulary); i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

} // namespace tiny
