/* The kernels of a small transformer decoder, for one token at a time. */
#include <math.h>
#include <string.h>

#include "../common/portable_exp.h"
#include "decoder_args.h"
#include "kernel.h"

#define FLOATS(n) ((uint64_t)(n) * sizeof(float))

static const aclsim_arg embed_args[] = {
	{"token", ACLSIM_INPUT, 8},
	{"table", ACLSIM_INPUT, 8},
	{"out", ACLSIM_OUTPUT, 8},
	{"hidden", ACLSIM_SCALAR, 4},
	{"reserved", ACLSIM_SCALAR, 4},
};

static uint32_t embed_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const embed_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 0, a->token, sizeof *a->token);
	if (!a->token)
		return list.count;
	reads(&list, 1, a->table + (int64_t)*a->token * a->hidden, FLOATS(a->hidden));
	writes(&list, 2, a->out, FLOATS(a->hidden));
	return list.count;
}

void embed(const aclsim_launch *launch, uint32_t block)
{
	const embed_block *a = launch->args;
	const float *row = a->table + (int64_t)*a->token * a->hidden;
	share s = share_of(a->hidden, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		a->out[i] = row[i];
}

static const aclsim_arg layer_norm_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"gamma", ACLSIM_INPUT, 8},
	{"beta", ACLSIM_INPUT, 8},
	{"y", ACLSIM_OUTPUT, 8},
	{"workspace", ACLSIM_WORKSPACE, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t layer_norm_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const layer_norm_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 5, a->tiling, sizeof *a->tiling);
	if (!a->tiling)
		return list.count;
	reads(&list, 0, a->x, FLOATS(a->tiling->count));
	reads(&list, 1, a->gamma, FLOATS(a->tiling->count));
	reads(&list, 2, a->beta, FLOATS(a->tiling->count));
	writes(&list, 3, a->y, FLOATS(a->tiling->count));
	updates(&list, 4, a->workspace, FLOATS(2));
	return list.count;
}

/* The sums run over the whole vector, so this is work for one block. */
void layer_norm(const aclsim_launch *launch, uint32_t block)
{
	const layer_norm_block *a = launch->args;
	uint32_t count = a->tiling->count;
	float sum = 0, squares = 0;

	if (block)
		return;
	for (uint32_t i = 0; i < count; i++)
		sum += a->x[i];
	a->workspace[0] = sum / (float)count;
	for (uint32_t i = 0; i < count; i++) {
		float d = a->x[i] - a->workspace[0];

		squares += d * d;
	}
	a->workspace[1] = 1.0f / sqrtf(squares / (float)count + a->tiling->epsilon);
	for (uint32_t i = 0; i < count; i++)
		a->y[i] = (a->x[i] - a->workspace[0]) * a->workspace[1] * a->gamma[i] + a->beta[i];
}

static const aclsim_arg linear_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"w", ACLSIM_INPUT, 8},
	{"y", ACLSIM_OUTPUT, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t linear_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const linear_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 3, a->tiling, sizeof *a->tiling);
	if (!a->tiling)
		return list.count;
	reads(&list, 0, a->x, FLOATS(a->tiling->inner));
	reads(&list, 1, a->w, FLOATS((uint64_t)a->tiling->inner * a->tiling->columns));
	writes(&list, 2, a->y, FLOATS(a->tiling->columns));
	return list.count;
}

void linear(const aclsim_launch *launch, uint32_t block)
{
	const linear_block *a = launch->args;
	uint64_t inner = a->tiling->inner, columns = a->tiling->columns;
	share s = share_of(columns, launch, block);

	for (uint64_t j = s.from; j < s.to; j++)
		a->y[j] = 0;
	for (uint64_t i = 0; i < inner; i++)
		for (uint64_t j = s.from; j < s.to; j++)
			a->y[j] += a->x[i] * a->w[i * columns + j];
}

static const aclsim_arg add_args[] = {
	{"a", ACLSIM_INPUT, 8},
	{"b", ACLSIM_INPUT, 8},
	{"y", ACLSIM_OUTPUT, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t add_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const add_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 3, a->tiling, sizeof *a->tiling);
	if (!a->tiling)
		return list.count;
	reads(&list, 0, a->a, FLOATS(a->tiling->count));
	reads(&list, 1, a->b, FLOATS(a->tiling->count));
	writes(&list, 2, a->y, FLOATS(a->tiling->count));
	return list.count;
}

void add(const aclsim_launch *launch, uint32_t block)
{
	const add_block *a = launch->args;
	share s = share_of(a->tiling->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		a->y[i] = a->a[i] + a->b[i];
}

static const aclsim_arg gelu_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"y", ACLSIM_OUTPUT, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t gelu_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const gelu_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 2, a->tiling, sizeof *a->tiling);
	if (!a->tiling)
		return list.count;
	reads(&list, 0, a->x, FLOATS(a->tiling->count));
	writes(&list, 1, a->y, FLOATS(a->tiling->count));
	return list.count;
}

void gelu(const aclsim_launch *launch, uint32_t block)
{
	const gelu_block *a = launch->args;
	share s = share_of(a->tiling->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++) {
		float x = a->x[i];
		float u = 1.5957691f * (x + 0.044715f * x * x * x);

		a->y[i] = x / (1.0f + portable_exp(-u));
	}
}

static const aclsim_arg rope_args[] = {
	{"x", ACLSIM_INOUT, 8},
	{"table", ACLSIM_INPUT, 8},
	{"position", ACLSIM_INPUT, 8},
	{"heads", ACLSIM_SCALAR, 4},
	{"head_size", ACLSIM_SCALAR, 4},
};

static uint32_t rope_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const rope_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 2, a->position, sizeof *a->position);
	if (!a->position)
		return list.count;
	updates(&list, 0, a->x, FLOATS((uint64_t)a->heads * a->head_size));
	reads(&list, 1, a->table + (int64_t)*a->position * a->head_size, FLOATS(a->head_size));
	return list.count;
}

void rope(const aclsim_launch *launch, uint32_t block)
{
	const rope_block *a = launch->args;
	const float *angles = a->table + (int64_t)*a->position * a->head_size;
	uint32_t half = a->head_size / 2;
	share s = share_of(a->heads, launch, block);

	for (uint64_t head = s.from; head < s.to; head++) {
		float *x = a->x + head * a->head_size;

		for (uint32_t i = 0; i < half; i++) {
			float cosine = angles[2 * i], sine = angles[2 * i + 1];
			float x0 = x[i], x1 = x[i + half];

			x[i] = x0 * cosine - x1 * sine;
			x[i + half] = x0 * sine + x1 * cosine;
		}
	}
}

static const aclsim_arg cache_append_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"cache", ACLSIM_OUTPUT, 8},
	{"position", ACLSIM_INPUT, 8},
	{"heads", ACLSIM_SCALAR, 4},
	{"head_size", ACLSIM_SCALAR, 4},
	{"capacity", ACLSIM_SCALAR, 4},
	{"reserved", ACLSIM_SCALAR, 4},
};

static float *cache_slot(const cache_append_block *a, uint64_t head)
{
	return a->cache + ((int64_t)head * a->capacity + *a->position) * a->head_size;
}

static uint32_t cache_append_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const cache_append_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 2, a->position, sizeof *a->position);
	if (!a->position)
		return list.count;
	reads(&list, 0, a->x, FLOATS((uint64_t)a->heads * a->head_size));
	for (uint64_t head = 0; head < a->heads; head++)
		writes(&list, 1, cache_slot(a, head), FLOATS(a->head_size));
	return list.count;
}

void cache_append(const aclsim_launch *launch, uint32_t block)
{
	const cache_append_block *a = launch->args;
	share s = share_of(a->heads, launch, block);

	for (uint64_t head = s.from; head < s.to; head++)
		memcpy(cache_slot(a, head), a->x + head * a->head_size, FLOATS(a->head_size));
}

static const aclsim_arg attention_scores_args[] = {
	{"query", ACLSIM_INPUT, 8},
	{"keys", ACLSIM_INPUT, 8},
	{"scores", ACLSIM_OUTPUT, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t attention_scores_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const attention_scores_block *a = launch->args;
	const attention_tiling *t = a->tiling;
	extent_list list = {out, max, 0};

	reads(&list, 3, t, sizeof *t);
	if (!t)
		return list.count;
	reads(&list, 0, a->query, FLOATS(t->head_size));
	reads(&list, 1, a->keys, FLOATS((uint64_t)t->context * t->head_size));
	writes(&list, 2, a->scores, FLOATS(t->context));
	return list.count;
}

void attention_scores(const aclsim_launch *launch, uint32_t block)
{
	const attention_scores_block *a = launch->args;
	const attention_tiling *t = a->tiling;
	share s = share_of(t->context, launch, block);

	for (uint64_t p = s.from; p < s.to; p++) {
		float dot = 0;

		for (uint64_t i = 0; i < t->head_size; i++)
			dot += a->query[i] * a->keys[p * t->head_size + i];
		a->scores[p] = dot * t->scale;
	}
}

static const aclsim_arg softmax_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"y", ACLSIM_OUTPUT, 8},
	{"workspace", ACLSIM_WORKSPACE, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t softmax_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const softmax_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 3, a->tiling, sizeof *a->tiling);
	if (!a->tiling)
		return list.count;
	reads(&list, 0, a->x, FLOATS(a->tiling->count));
	writes(&list, 1, a->y, FLOATS(a->tiling->count));
	updates(&list, 2, a->workspace, FLOATS(a->tiling->count));
	return list.count;
}

/* The maximum and the sum run over the whole vector, so this is work for one block. */
void softmax(const aclsim_launch *launch, uint32_t block)
{
	const softmax_block *a = launch->args;
	uint64_t count = a->tiling->count;
	float top, sum = 0;

	if (block || !count)
		return;
	top = a->x[0];
	for (uint64_t i = 1; i < count; i++)
		if (a->x[i] > top)
			top = a->x[i];
	for (uint64_t i = 0; i < count; i++) {
		a->workspace[i] = portable_exp(a->x[i] - top);
		sum += a->workspace[i];
	}
	for (uint64_t i = 0; i < count; i++)
		a->y[i] = a->workspace[i] / sum;
}

static const aclsim_arg attention_values_args[] = {
	{"weights", ACLSIM_INPUT, 8},
	{"values", ACLSIM_INPUT, 8},
	{"out", ACLSIM_OUTPUT, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t attention_values_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const attention_values_block *a = launch->args;
	const attention_tiling *t = a->tiling;
	extent_list list = {out, max, 0};

	reads(&list, 3, t, sizeof *t);
	if (!t)
		return list.count;
	reads(&list, 0, a->weights, FLOATS(t->context));
	reads(&list, 1, a->values, FLOATS((uint64_t)t->context * t->head_size));
	writes(&list, 2, a->out, FLOATS(t->head_size));
	return list.count;
}

void attention_values(const aclsim_launch *launch, uint32_t block)
{
	const attention_values_block *a = launch->args;
	const attention_tiling *t = a->tiling;
	share s = share_of(t->head_size, launch, block);

	for (uint64_t i = s.from; i < s.to; i++) {
		float sum = 0;

		for (uint64_t p = 0; p < t->context; p++)
			sum += a->weights[p] * a->values[p * t->head_size + i];
		a->out[i] = sum;
	}
}

static const aclsim_kernel kernels[] = {
	KERNEL(embed, 0),
	KERNEL(layer_norm, 0),
	KERNEL(linear, 0),
	KERNEL(add, 0),
	KERNEL(gelu, 0),
	KERNEL(rope, 0),
	KERNEL(cache_append, 0),
	KERNEL(attention_scores, 0),
	KERNEL(softmax, 0),
	KERNEL(attention_values, 0),
};

LIBRARY(kernels)
