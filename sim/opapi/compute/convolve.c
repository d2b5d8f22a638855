/*
 * Convolutions over one to three dims, and their gradients.
 *
 * One loop does them all: a wide tensor [N, channels, W...], a narrow one [N, filters, Y...] and a weight [filters, channels / groups, K...] have products
 * at the same places, and one of the three takes the sums. A convolution makes the narrow one; a transposed convolution makes the wide one.
 *
 * Sums are in 64 bits and in an order that depends on dims alone.
 */
#include "compute.h"

enum { WIDE, WEIGHT, NARROW, SIDES };

typedef struct convolution {
	tensor side[SIDES];
	int64_t filters, channels, groups; /* channels of a group */
	int64_t wide[WINDOW], narrow[WINDOW], wide_size, narrow_size;
	window w;
	double *v[SIDES];
} convolution;

/* The sizes of the dims from the third one. Missing dims, in front, are 1. */
static int64_t sizes_of(const tensor *t, int64_t *to)
{
	int64_t all = 1;

	for (int d = 0; d < WINDOW; d++) {
		int from = t->num_dims - WINDOW + d;
		to[d] = from < 2 ? 1 : t->dims[from];
		all *= to[d];
	}
	return all;
}

/* Reads stride, padding and dilation, which begin at a parameter, then transposed, outputPadding and groups. */
static bool shape_of(const block *b, uint32_t first, convolution *c)
{
	number transposed = number_of(b, first + 3, 0), groups = number_of(b, first + 5, 0);
	const tensor *wide = &c->side[WIDE], *narrow = &c->side[NARROW], *weight = &c->side[WEIGHT];
	int n = wide->num_dims;

	if (n < 3 || n > 2 + WINDOW || narrow->num_dims != n || weight->num_dims != n || !transposed.given || !groups.given || groups.whole < 1 ||
	    !is_real(wide->dtype) || !is_real(narrow->dtype) || !is_real(weight->dtype))
		return false;
	c->groups = groups.whole;
	c->filters = weight->dims[0];
	c->channels = weight->dims[1];
	if (wide->dims[0] != narrow->dims[0] || narrow->dims[1] != c->filters || c->filters % c->groups || wide->dims[1] / c->groups != c->channels || wide->dims[1] % c->groups)
		return false;
	c->wide_size = sizes_of(wide, c->wide);
	c->narrow_size = sizes_of(narrow, c->narrow);
	sizes_of(weight, c->w.size);
	if (!window_of(b, (int[]){-1, (int)first, (int)first + 1, (int)first + 2}, n - 2, &c->w))
		return false;
	for (int d = 0; d < WINDOW; d++) {
		int64_t more = 0;
		if (transposed.whole && d >= WINDOW + 2 - n && !int_of(b, first + 4, (uint32_t)(d - (WINDOW + 2 - n)), &more))
			return false;
		int64_t span = c->wide[d] + 2 * c->w.padding[d] - c->w.dilation[d] * (c->w.size[d] - 1) - 1;
		bool fits = transposed.whole ? more >= 0 && more <= span && span - more == (c->narrow[d] - 1) * c->w.stride[d] : span >= 0 && span / c->w.stride[d] + 1 == c->narrow[d];
		if (!fits)
			return false;
	}
	return true;
}

/* The products of a weight with a row of the wide tensor and one of the narrow. */
static void add_row(int side, double *x, int64_t stride, double *w, double *y, int64_t n)
{
	double sum = 0, factor = *w;

	switch (side) {
	case WIDE:
		for (int64_t i = 0; i < n; i++)
			x[i * stride] += factor * y[i];
		break;
	case NARROW:
		for (int64_t i = 0; i < n; i++)
			y[i] += factor * x[i * stride];
		break;
	case WEIGHT:
		for (int64_t i = 0; i < n; i++)
			sum += x[i * stride] * y[i];
		*w += sum;
	}
}

/* The products of the weights of a filter and a channel with their planes. */
static void add_planes(const convolution *c, int side, double *x, double *w, double *y)
{
	const window *k = &c->w;
	int64_t from[WINDOW], to[WINDOW], at[WINDOW];

	for (at[0] = 0; at[0] < k->size[0]; at[0]++)
		for (at[1] = 0; at[1] < k->size[1]; at[1]++)
			for (at[2] = 0; at[2] < k->size[2]; at[2]++, w++) {
				int64_t off[WINDOW];
				for (int d = 0; d < WINDOW; d++) {
					off[d] = at[d] * k->dilation[d] - k->padding[d];
					from[d] = off[d] < 0 ? (-off[d] + k->stride[d] - 1) / k->stride[d] : 0;
					to[d] = c->wide[d] > off[d] ? (c->wide[d] - off[d] + k->stride[d] - 1) / k->stride[d] : 0;
					to[d] = to[d] < c->narrow[d] ? to[d] : c->narrow[d];
				}
				for (int64_t i = from[0]; i < to[0]; i++)
					for (int64_t j = from[1]; j < to[1] && from[2] < to[2]; j++) {
						int64_t z = i * k->stride[0] + off[0], row = j * k->stride[1] + off[1], column = from[2] * k->stride[2] + off[2];
						add_row(side, x + (z * c->wide[1] + row) * c->wide[2] + column, k->stride[2], w, y + (i * c->narrow[1] + j) * c->narrow[2] + from[2],
							to[2] - from[2]);
					}
			}
}

/* Adds the products of some items of a batch, and of some filters, to one side. */
static void add_products(const convolution *c, int side, int64_t from, int64_t to, int64_t first, int64_t last)
{
	int64_t taps = c->w.size[0] * c->w.size[1] * c->w.size[2], per_group = c->filters / c->groups;

	for (int64_t n = from; n < to; n++)
		for (int64_t f = first; f < last; f++)
			for (int64_t k = 0; k < c->channels; k++)
				add_planes(c, side, c->v[WIDE] + ((n * c->groups + f / per_group) * c->channels + k) * c->wide_size, c->v[WEIGHT] + (f * c->channels + k) * taps,
					   c->v[NARROW] + (n * c->filters + f) * c->narrow_size);
}

/* A part of a tensor along its first dim, and its elements. */
static void write_part(const tensor *t, const double *v, int64_t from, int64_t to)
{
	tensor part = *t;

	if (from == to)
		return;
	part.at += from * t->strides[0];
	part.dims[0] = to - from;
	write_all(&part, v + from * (count_of(&part) / (to - from)));
}

/* This thread's share of a number of things. */
static void share_of(int64_t all, int64_t *from, int64_t *to)
{
	*from = all * share.i / share.n;
	*to = all * (share.i + 1) / share.n;
}

/* Computes a side from the two others. bias is NULL if there is none. */
static bool make_side(convolution *c, int side, const tensor *bias)
{
	tensor *t = &c->side[side];
	int64_t from, to, plane = side == WIDE ? c->wide_size : c->narrow_size;

	share_of(t->dims[0], &from, &to);
	c->v[side] = calloc((size_t)count_of(t) + 1, sizeof(double));
	double *more = bias ? read_all(bias) : NULL;
	bool done = c->v[side] && (more || !bias);
	if (done && side == WEIGHT)
		add_products(c, side, 0, c->side[WIDE].dims[0], from, to);
	else if (done)
		add_products(c, side, from, to, 0, c->filters);
	for (int64_t i = from; done && bias && i < to; i++)
		for (int64_t k = 0; k < t->dims[1] * plane; k++)
			c->v[side][i * t->dims[1] * plane + k] += more[k / plane];
	if (done)
		write_part(t, c->v[side], from, to);
	free(more);
	free(c->v[side]);
	c->v[side] = NULL;
	return done;
}

/* Sets the shares that a convolution is worth. */
static bool worth(const convolution *c, int sides)
{
	double products = (double)count_of(&c->side[WEIGHT]) * (double)count_of(&c->side[NARROW]) / (double)(c->filters ? c->filters : 1);
	int64_t items = c->side[WIDE].dims[0] > c->filters ? c->side[WIDE].dims[0] : c->filters, wanted = 1 + (int64_t)(products * sides * 0x1p-20);

	share.wanted = wanted < items ? wanted : items > 1 ? items : 1;
	return true;
}

/* input, weight, bias, stride, padding, dilation, transposed, outputPadding, groups, output, cubeMathType */
bool convolve(const block *b, const operator *o, bool dry)
{
	convolution c = {0};
	tensor bias;
	number transposed = number_of(b, 6, 0);
	int in = transposed.whole ? NARROW : WIDE, out = transposed.whole ? WIDE : NARROW;
	bool biased = !is_absent(b, 2);

	(void)o;
	if (!tensor_of(b, 0, 0, &c.side[in]) || !tensor_of(b, 1, 0, &c.side[WEIGHT]) || !tensor_of(b, 9, 0, &c.side[out]) || !shape_of(b, 3, &c) ||
	    (biased && (!tensor_of(b, 2, 0, &bias) || count_of(&bias) != c.side[out].dims[1] || !is_real(bias.dtype))))
		return false;
	if (dry)
		return worth(&c, 1);
	c.v[in] = read_all(&c.side[in]);
	c.v[WEIGHT] = read_all(&c.side[WEIGHT]);
	bool done = c.v[in] && c.v[WEIGHT] && make_side(&c, out, biased ? &bias : NULL);
	free(c.v[in]);
	free(c.v[WEIGHT]);
	return done;
}

/* The sums of the gradient over all but the channels. */
static bool bias_gradient(const tensor *grad, const double *v, const tensor *out)
{
	int64_t plane = 1, channels = grad->dims[1], from, to;
	double *sums = calloc((size_t)channels + 1, sizeof *sums);

	if (!sums)
		return false;
	for (int d = 2; d < grad->num_dims; d++)
		plane *= grad->dims[d];
	share_of(channels, &from, &to);
	for (int64_t k = from; k < to; k++)
		for (int64_t n = 0; n < grad->dims[0]; n++)
			sums[k] += sum_of(v + (n * channels + k) * plane, plane);
	write_part(out, sums, from, to);
	free(sums);
	return true;
}

/*
 * gradOutput, input, weight, biasSizes, stride, padding, dilation, transposed, outputPadding, groups, outputMask, cubeMathType, gradInput, gradWeight,
 * gradBias
 */
bool convolve_backward(const block *b, const operator *o, bool dry)
{
	convolution c = {0};
	tensor to[3];
	number transposed = number_of(b, 7, 0);
	int in = transposed.whole ? NARROW : WIDE, out = transposed.whole ? WIDE : NARROW;
	bool wanted[3];

	(void)o;
	if (!tensor_of(b, 0, 0, &c.side[out]) || !tensor_of(b, 1, 0, &c.side[in]) || !tensor_of(b, 2, 0, &c.side[WEIGHT]) || !shape_of(b, 4, &c))
		return false;
	const tensor like[] = {c.side[in], c.side[WEIGHT], {.num_dims = 1, .dims = {c.side[out].dims[1]}}};
	for (uint32_t k = 0; k < 3; k++) {
		number mask = number_of(b, 10, k);
		wanted[k] = mask.given && mask.whole;
		if (wanted[k] && (!tensor_of(b, 12 + k, 0, &to[k]) || !same_dims(&to[k], &like[k]) || !is_real(to[k].dtype)))
			return false;
	}
	if (dry)
		return worth(&c, wanted[0] + wanted[1]);
	bool done = true;
	for (int k = 0; k < SIDES; k++)
		done = (c.v[k] = read_all(&c.side[k])) && done;
	if (done && wanted[2])
		done = bias_gradient(&c.side[out], c.v[out], &to[2]);
	for (int k = 0; done && k < 2; k++) {
		int side = k ? WEIGHT : in;
		tensor of = c.side[side];
		double *v = c.v[side];
		if (!wanted[k])
			continue;
		c.side[side] = to[k];
		done = make_side(&c, side, NULL);
		c.side[side] = of;
		c.v[side] = v;
	}
	for (int k = 0; k < SIDES; k++)
		free(c.v[k]);
	return done;
}
