#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/portable_exp.h"

float *floats(size_t count)
{
	float *p = calloc(count, sizeof *p);

	if (!p) {
		perror("tiny_decoder");
		exit(1);
	}
	return p;
}

/* xorshift64*, for weights that are the same everywhere: evenly from -scale to scale. */
static float random_float(uint64_t *state, float scale)
{
	uint32_t bits;

	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	bits = (uint32_t)((*state * 2685821657736338717u) >> 40); /* 24 bits */
	return ((float)bits / 8388608.0f - 1.0f) * scale;
}

static void fill(uint64_t *state, tensor *t, size_t count, float scale, float offset)
{
	t->host = floats(count);
	t->count = count;
	for (size_t i = 0; i < count; i++)
		t->host[i] = offset + random_float(state, scale);
}

static void fill_linear(uint64_t *state, linear *l, size_t rows, size_t columns, float scale)
{
	fill(state, &l->w, rows * columns, scale, 0);
	fill(state, &l->b, columns, 0.1f, 0);
}

static void fill_norm(uint64_t *state, norm *n)
{
	fill(state, &n->gamma, HIDDEN, 0.2f, 1.0f);
	fill(state, &n->beta, HIDDEN, 0.1f, 0);
}

void model_init(model *m, uint32_t context)
{
	uint64_t state = 0x9e3779b97f4a7c15u;
	weights *w = &m->w;
	double root;
	float *angles;

	_Static_assert(HEAD_SIZE == 16, "10000^(2i / HEAD_SIZE) is the eighth root to the power of i");

	fill(&state, &w->embedding, VOCABULARY * HIDDEN, 1.0f, 0);
	for (layer *l = w->layers; l < w->layers + NUM_LAYERS; l++) {
		fill_norm(&state, &l->attention_norm);
		fill_linear(&state, &l->query, HIDDEN, HIDDEN, 0.25f);
		fill_linear(&state, &l->key, HIDDEN, HIDDEN, 0.25f);
		fill_linear(&state, &l->value, HIDDEN, HIDDEN, 0.25f);
		fill_linear(&state, &l->projection, HIDDEN, HIDDEN, 0.25f);
		fill_norm(&state, &l->mlp_norm);
		fill_linear(&state, &l->up, HIDDEN, INNER, 0.25f);
		fill_linear(&state, &l->down, INNER, HIDDEN, 0.125f);
	}
	fill_norm(&state, &w->final_norm);
	fill_linear(&state, &w->logits, HIDDEN, VOCABULARY, 0.25f);

	/* Position p turns pair i by p / 10000^(2i / HEAD_SIZE). The eighth root is the same everywhere, pow() is not. */
	root = sqrt(sqrt(sqrt(10000.0)));
	w->angles.count = (size_t)context * HEAD_SIZE;
	angles = w->angles.host = floats(w->angles.count);
	for (uint32_t p = 0; p < context; p++) {
		double angle = p;

		for (uint32_t i = 0; i < HEAD_SIZE / 2; i++, angle /= root) {
			angles[p * HEAD_SIZE + 2 * i] = (float)cos(angle);
			angles[p * HEAD_SIZE + 2 * i + 1] = (float)sin(angle);
		}
	}
}

void model_free(model *m)
{
	for (tensor *t = m->all; t < m->all + NUM_TENSORS; t++)
		free(t->host);
}

static void layer_norm(const float *x, const norm *n, float *y)
{
	float sum = 0, squares = 0, mean, scale;

	for (uint32_t i = 0; i < HIDDEN; i++)
		sum += x[i];
	mean = sum / HIDDEN;
	for (uint32_t i = 0; i < HIDDEN; i++)
		squares += (x[i] - mean) * (x[i] - mean);
	scale = 1.0f / sqrtf(squares / HIDDEN + EPSILON);
	for (uint32_t i = 0; i < HIDDEN; i++)
		y[i] = (x[i] - mean) * scale * n->gamma.host[i] + n->beta.host[i];
}

static void product(const float *x, const linear *l, float *y)
{
	size_t columns = l->b.count, rows = l->w.count / columns;

	memset(y, 0, columns * sizeof *y);
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < columns; j++)
			y[j] += x[i] * l->w.host[i * columns + j];
	for (size_t j = 0; j < columns; j++)
		y[j] = y[j] + l->b.host[j];
}

static void rope(float *x, const float *angles)
{
	for (uint32_t head = 0; head < HEADS; head++) {
		for (uint32_t i = 0; i < HEAD_SIZE / 2; i++) {
			float *lower = &x[head * HEAD_SIZE + i], *upper = lower + HEAD_SIZE / 2;
			float x0 = *lower, x1 = *upper;

			*lower = x0 * angles[2 * i] - x1 * angles[2 * i + 1];
			*upper = x0 * angles[2 * i + 1] + x1 * angles[2 * i];
		}
	}
}

static void attention(const float *query, const float *keys, const float *values, uint32_t context, float *scores, float *out)
{
	for (uint32_t head = 0; head < HEADS; head++) {
		float top = 0, sum = 0;

		for (uint32_t p = 0; p < context; p++) {
			float dot = 0;

			for (uint32_t i = 0; i < HEAD_SIZE; i++)
				dot += query[head * HEAD_SIZE + i] * keys[p * HIDDEN + head * HEAD_SIZE + i];
			scores[p] = dot * ATTENTION_SCALE;
			if (p == 0 || scores[p] > top)
				top = scores[p];
		}
		for (uint32_t p = 0; p < context; p++) {
			scores[p] = portable_exp(scores[p] - top);
			sum += scores[p];
		}
		for (uint32_t p = 0; p < context; p++)
			scores[p] = scores[p] / sum;
		for (uint32_t i = 0; i < HEAD_SIZE; i++) {
			float mixed = 0;

			for (uint32_t p = 0; p < context; p++)
				mixed += scores[p] * values[p * HIDDEN + head * HEAD_SIZE + i];
			out[head * HEAD_SIZE + i] = mixed;
		}
	}
}

static void gelu(float *x)
{
	for (uint32_t i = 0; i < INNER; i++) {
		float v = x[i], u = 1.5957691f * (v + 0.044715f * v * v * v);

		x[i] = v / (1.0f + portable_exp(-u));
	}
}

static void add(float *x, const float *y)
{
	for (uint32_t i = 0; i < HIDDEN; i++)
		x[i] = x[i] + y[i];
}

void reference_init(reference *r, const model *m, uint32_t context)
{
	r->w = &m->w;
	r->position = 0;
	for (uint32_t l = 0; l < NUM_LAYERS; l++) {
		r->keys[l] = floats((size_t)context * HIDDEN);
		r->values[l] = floats((size_t)context * HIDDEN);
	}
	r->scores = floats(context);
}

void reference_free(reference *r)
{
	for (uint32_t l = 0; l < NUM_LAYERS; l++) {
		free(r->keys[l]);
		free(r->values[l]);
	}
	free(r->scores);
}

const float *reference_step(reference *r, int32_t token)
{
	const weights *w = r->w;
	const float *angles = w->angles.host + (size_t)r->position * HEAD_SIZE;
	float x[HIDDEN], normal[HIDDEN], query[HIDDEN], mixed[HIDDEN], wide[INNER];

	memcpy(x, w->embedding.host + (size_t)token * HIDDEN, sizeof x);
	for (uint32_t i = 0; i < NUM_LAYERS; i++) {
		const layer *l = &w->layers[i];
		float *key = r->keys[i] + (size_t)r->position * HIDDEN, *value = r->values[i] + (size_t)r->position * HIDDEN;

		layer_norm(x, &l->attention_norm, normal);
		product(normal, &l->query, query);
		product(normal, &l->key, key);
		product(normal, &l->value, value);
		rope(query, angles);
		rope(key, angles);
		attention(query, r->keys[i], r->values[i], r->position + 1, r->scores, mixed);
		product(mixed, &l->projection, normal);
		add(x, normal);

		layer_norm(x, &l->mlp_norm, normal);
		product(normal, &l->up, wide);
		gelu(wide);
		product(wide, &l->down, normal);
		add(x, normal);
	}
	layer_norm(x, &w->final_norm, normal);
	product(normal, &w->logits, r->logits);
	r->position++;
	return r->logits;
}

int32_t argmax(const float *logits)
{
	int32_t best = 0;

	for (int32_t i = 1; i < VOCABULARY; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}
