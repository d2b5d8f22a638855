/* Windows, and pools of their elements: largest ones with their places, means, and the gradients. */
#include "compute.h"

bool int_of(const block *b, uint32_t param, uint32_t k, int64_t *v)
{
	uint32_t n;
	const int64_t *all = ints_of(b, param, &n);

	if (!n || (n > 1 && k >= n))
		return false;
	*v = all[n == 1 ? 0 : k];
	return true;
}

/* Sizes are limited so that products of them do not overflow. */
bool window_of(const block *b, const int *params, int num_dims, window *w)
{
	int64_t *to[] = {w->size, w->stride, w->padding, w->dilation};

	for (int i = 0; i < 4; i++)
		for (int d = 0; d < WINDOW; d++) {
			int k = d - (WINDOW - num_dims);
			if (i > 0)
				to[i][d] = i == 2 ? 0 : 1;
			else if (params[0] >= 0)
				to[i][d] = 1;
			/* No stride is that of windows side by side. */
			uint32_t n = 0;
			if (i == 1 && params[1] >= 0)
				(void)ints_of(b, (uint32_t)params[1], &n);
			if (i == 1 && params[0] >= 0 && !n)
				to[i][d] = w->size[d];
			else if (k >= 0 && params[i] >= 0 && !int_of(b, (uint32_t)params[i], (uint32_t)k, &to[i][d]))
				return false;
			if (to[i][d] < (i == 2 ? 0 : 1) || to[i][d] > INT32_MAX)
				return false;
		}
	return true;
}

/* A pool takes planes to planes. */
typedef struct pool {
	tensor in, out;
	window w;
	int64_t planes, from[WINDOW], to[WINDOW], from_size, to_size;
} pool;

/* Checks that the leading dims of both tensors are the same, and splits them from those of the planes. */
static bool planes_of(pool *p, int num_dims)
{
	int outer = p->in.num_dims - num_dims;

	if (outer < 1 || outer > 2 || p->out.num_dims != p->in.num_dims || !is_real(p->in.dtype) || p->in.dtype != p->out.dtype)
		return false;
	p->planes = p->from_size = p->to_size = 1;
	for (int d = 0; d < outer; d++) {
		if (p->in.dims[d] != p->out.dims[d])
			return false;
		p->planes *= p->in.dims[d];
	}
	for (int d = 0; d < WINDOW; d++) {
		int k = outer + d - (WINDOW - num_dims);
		p->from[d] = k < outer ? 1 : p->in.dims[k];
		p->to[d] = k < outer ? 1 : p->out.dims[k];
		p->from_size *= p->from[d];
		p->to_size *= p->to[d];
	}
	return p->from_size > 0;
}

/* Checks the dims of the result. With ceil the last window may begin at any element, or before it. */
static bool windows_fit(const pool *p, bool ceil)
{
	if ((double)p->w.size[0] * (double)p->w.size[1] * (double)p->w.size[2] > (double)MAX_COUNT)
		return false;
	for (int d = 0; d < WINDOW; d++) {
		const window *w = &p->w;
		int64_t span = p->from[d] + 2 * w->padding[d] - w->dilation[d] * (w->size[d] - 1) - 1;
		if (span < 0 || 2 * w->padding[d] > w->size[d])
			return false;
		int64_t n = (span + (ceil ? w->stride[d] - 1 : 0)) / w->stride[d] + 1;
		if (ceil && (n - 1) * w->stride[d] >= p->from[d] + w->padding[d])
			n--;
		if (n != p->to[d])
			return false;
	}
	return true;
}

/* The place in a plane of an element of window number i; -1 if it is outside. */
static int64_t place_of(const pool *p, int64_t i, int64_t tap)
{
	const window *w = &p->w;
	int64_t at[WINDOW], place = 0;

	for (int d = WINDOW - 1; d >= 0; d--) {
		at[d] = i % p->to[d] * w->stride[d] - w->padding[d] + tap % w->size[d] * w->dilation[d];
		i /= p->to[d];
		tap /= w->size[d];
		if (at[d] < 0 || at[d] >= p->from[d])
			return -1;
	}
	for (int d = 0; d < WINDOW; d++)
		place = place * p->from[d] + at[d];
	return place;
}

static int64_t taps_of(const pool *p) { return p->w.size[0] * p->w.size[1] * p->w.size[2]; }

/* The first of the largest elements of a window, a NaN before all: its place, and its number in the window. */
static int64_t largest_of(const pool *p, const double *plane, int64_t i, int64_t *tap)
{
	int64_t best = -1;

	for (int64_t k = 0, n = taps_of(p); k < n; k++) {
		int64_t at = place_of(p, i, k);
		if (at < 0 || (best >= 0 && !(plane[at] > plane[best] || (plane[at] != plane[at] && plane[best] == plane[best]))))
			continue;
		best = at;
		*tap = k;
	}
	return best;
}

/*
 * The mask of a pool: [planes, elements of a window, bytes] of int8. The simulator's own: bit i of a row is 1 if its element is the largest of
 * window i.
 */
static bool mask_fits(const pool *p, const tensor *mask)
{
	return mask->dtype == I8 && mask->num_dims == p->in.num_dims && count_of(mask) > 0 && mask->dims[mask->num_dims - 2] == taps_of(p) &&
	       mask->dims[mask->num_dims - 1] >= (p->to_size + 7) / 8 && count_of(mask) / taps_of(p) / mask->dims[mask->num_dims - 1] == p->planes;
}

static bool places_fit(const pool *p, const tensor *places, bool masked)
{
	return masked ? mask_fits(p, places) : (places->dtype == I32 || places->dtype == I64) && same_dims(places, &p->out);
}

/* self, kernelSize, stride, padding, dilation, ceilMode, out, indices. kind: dims, and MASKED for the mask of the largest elements */
bool max_pool(const block *b, const operator *o, bool dry)
{
	pool p;
	tensor places;
	number ceil = number_of(b, 5, 0);
	bool masked = o->kind & MASKED;
	int dims = o->kind & ~MASKED;

	if (!tensor_of(b, 0, 0, &p.in) || !tensor_of(b, 6, 0, &p.out) || !tensor_of(b, 7, 0, &places) || !ceil.given || !planes_of(&p, dims) ||
	    !window_of(b, (int[]){1, 2, 3, 4}, dims, &p.w) || !windows_fit(&p, ceil.whole) || !places_fit(&p, &places, masked))
		return false;
	if (dry)
		return true;
	int64_t n = count_of(&p.out), all = count_of(&places), taps = taps_of(&p), bytes = masked ? places.dims[places.num_dims - 1] : 0;
	double *v = read_all(&p.in), *to = malloc((size_t)(n + 1) * sizeof *to), *at = calloc((size_t)all + 1, sizeof *at);
	bool done = v && to && at;
	for (int64_t i = 0; done && i < n; i++) {
		const double *plane = v + i / p.to_size * p.from_size;
		int64_t window = i % p.to_size, tap = 0, best = largest_of(&p, plane, window, &tap);
		to[i] = best < 0 ? -INFINITY : plane[best];
		if (masked)
			at[(i / p.to_size * taps + tap) * bytes + window / 8] += 1 << window % 8;
		else
			at[i] = (double)best;
	}
	for (int64_t i = 0; done && masked && i < all; i++)
		at[i] -= at[i] > INT8_MAX ? 256 : 0;
	if (done) {
		write_all(&p.out, to);
		write_all(&places, at);
	}
	free(v);
	free(to);
	free(at);
	return done;
}

/* gradOutput, self, indices, kernelSize, stride, padding, dilation, ceilMode, gradInput. kind as for max_pool */
bool max_pool_backward(const block *b, const operator *o, bool dry)
{
	pool p;
	tensor places, out;
	number ceil = number_of(b, 7, 0);
	bool masked = o->kind & MASKED;
	int dims = o->kind & ~MASKED;

	if (!tensor_of(b, 0, 0, &p.out) || !tensor_of(b, 1, 0, &p.in) || !tensor_of(b, 2, 0, &places) || !tensor_of(b, 8, 0, &out) || !ceil.given || !planes_of(&p, dims) ||
	    !same_dims(&out, &p.in) || !is_real(out.dtype) || !window_of(b, (int[]){3, 4, 5, 6}, dims, &p.w) || !windows_fit(&p, ceil.whole) || !places_fit(&p, &places, masked))
		return false;
	if (dry)
		return true;
	int64_t n = count_of(&p.out), taps = taps_of(&p), bytes = masked ? places.dims[places.num_dims - 1] : 0;
	double *grad = read_all(&p.out), *at = read_all(&places), *to = calloc((size_t)count_of(&out) + 1, sizeof *to);
	bool done = grad && at && to;
	for (int64_t i = 0; done && i < n; i++) {
		int64_t window = i % p.to_size, plane = i / p.to_size, place = masked ? -1 : (int64_t)at[i];
		for (int64_t tap = 0; masked && tap < taps; tap++)
			if ((uint8_t)(int64_t)at[(plane * taps + tap) * bytes + window / 8] >> window % 8 & 1)
				place = place_of(&p, window, tap);
		if (place >= 0 && place < p.from_size)
			to[plane * p.from_size + place] += grad[i];
	}
	if (done)
		write_all(&out, to);
	free(grad);
	free(at);
	free(to);
	return done;
}

/* How a mean of a window is made. */
typedef struct mean {
	bool adaptive, with_padding;
	int64_t divisor; /* 0 for the number of elements */
} mean;

/* The elements of window number i, and what their sum is divided by. */
static double range_of(const pool *p, const mean *m, int64_t i, int64_t *from, int64_t *to)
{
	double size = 1;

	for (int d = WINDOW - 1; d >= 0; d--) {
		int64_t k = i % p->to[d], start = k * p->w.stride[d] - p->w.padding[d], end = start + p->w.size[d], limit = p->from[d] + p->w.padding[d];
		if (m->adaptive) {
			start = k * p->from[d] / p->to[d];
			end = limit = ((k + 1) * p->from[d] + p->to[d] - 1) / p->to[d];
		}
		i /= p->to[d];
		end = end < limit ? end : limit;
		from[d] = start < 0 ? 0 : start;
		to[d] = end < p->from[d] ? end : p->from[d];
		size *= (double)(m->with_padding ? end - start : to[d] - from[d]);
	}
	return m->divisor ? (double)m->divisor : size;
}

/* Adds the mean of each window to the result, or the gradient of each mean to the elements of its window. */
static void add_means(const pool *p, const mean *m, double *x, double *y, bool backward)
{
	int64_t from[WINDOW], to[WINDOW];

	for (int64_t i = 0, n = p->planes * p->to_size; i < n; i++) {
		double sum = 0, size = range_of(p, m, i % p->to_size, from, to), *plane = x + i / p->to_size * p->from_size;
		for (int64_t a = from[0]; a < to[0]; a++)
			for (int64_t b = from[1]; b < to[1]; b++)
				for (int64_t c = from[2]; c < to[2]; c++) {
					double *at = &plane[(a * p->from[1] + b) * p->from[2] + c];
					sum += *at;
					if (backward)
						*at += y[i] / size;
				}
		if (!backward)
			y[i] = sum / size;
	}
}

static bool compute_means(const pool *p, const mean *m, const tensor *out, bool backward)
{
	double *x = backward ? calloc((size_t)count_of(&p->in) + 1, sizeof *x) : read_all(&p->in);
	double *y = backward ? read_all(&p->out) : calloc((size_t)count_of(&p->out) + 1, sizeof *y);
	bool done = x && y;

	if (done) {
		add_means(p, m, x, y, backward);
		write_all(out, backward ? x : y);
	}
	free(x);
	free(y);
	return done;
}

/* [gradOutput,] self, kernelSize, stride, padding, ceilMode, countIncludePad, divisorOverride, [cubeMathType,] out. kind: dims, and BACKWARD */
bool average_pool(const block *b, const operator *o, bool dry)
{
	pool p;
	tensor out;
	bool backward = o->kind & BACKWARD;
	int dims = o->kind & ~BACKWARD, first = backward ? 2 : 1;
	number ceil = number_of(b, (uint32_t)first + 3, 0), padded = number_of(b, (uint32_t)first + 4, 0), divisor = number_of(b, (uint32_t)first + 5, 0);

	if (!tensor_of(b, backward, 0, &p.in) || !tensor_of(b, backward ? 0 : (uint32_t)o->out, 0, &p.out) || !tensor_of(b, (uint32_t)o->out, 0, &out) || !ceil.given || !padded.given ||
	    !divisor.given || !planes_of(&p, dims) || !same_dims(&out, backward ? &p.in : &p.out) || !is_real(out.dtype) ||
	    !window_of(b, (int[]){first, first + 1, first + 2, -1}, dims, &p.w) || !windows_fit(&p, ceil.whole))
		return false;
	return dry || compute_means(&p, &(mean){.with_padding = padded.whole, .divisor = divisor.whole}, &out, backward);
}

/* self, outputSize, out; gradOutput, self, gradInput. kind as for average_pool */
bool adaptive_average_pool(const block *b, const operator *o, bool dry)
{
	pool p = {.w = {.size = {1, 1, 1}, .stride = {1, 1, 1}}};
	tensor out;
	bool backward = o->kind & BACKWARD;

	if (!tensor_of(b, backward, 0, &p.in) || !tensor_of(b, backward ? 0 : 2, 0, &p.out) || !tensor_of(b, 2, 0, &out) || !planes_of(&p, o->kind & ~BACKWARD) ||
	    !same_dims(&out, backward ? &p.in : &p.out) || !is_real(out.dtype))
		return false;
	return dry || compute_means(&p, &(mean){.adaptive = true}, &out, backward);
}

/* self, kernelShape, strides, autoPad, pads, dilations, ceilMode, out: the largest elements without their places */
bool max_pool_alone(const block *b, const operator *o, bool dry)
{
	pool p;
	number automatic = number_of(b, 3, 0), ceil = number_of(b, 6, 0);
	uint32_t num_pads, num_dilations;
	const int64_t *pads = ints_of(b, 4, &num_pads), *dilations = ints_of(b, 5, &num_dilations);

	(void)o;
	/* Four paddings are those of the begin and of the end. */
	if (!tensor_of(b, 0, 0, &p.in) || !tensor_of(b, 7, 0, &p.out) || !automatic.given || automatic.whole || !ceil.given || !planes_of(&p, 2) ||
	    (num_pads == 4 && (pads[0] != pads[2] || pads[1] != pads[3])) || !window_of(b, (int[]){1, 2, num_pads ? 4 : -1, -1}, 2, &p.w) || !windows_fit(&p, ceil.whole))
		return false;
	for (uint32_t k = 0; k < num_dilations; k++)
		if (dilations[k] != 1)
			return false;
	if (dry)
		return true;
	int64_t n = count_of(&p.out), tap;
	double *v = read_all(&p.in), *to = malloc((size_t)(n + 1) * sizeof *to);
	bool done = v && to;
	for (int64_t i = 0; done && i < n; i++) {
		const double *plane = v + i / p.to_size * p.from_size;
		int64_t best = largest_of(&p, plane, i % p.to_size, &tap);
		to[i] = best < 0 ? -INFINITY : plane[best];
	}
	if (done)
		write_all(&p.out, to);
	free(v);
	free(to);
	return done;
}

/* self, kernelSize, dilation, padding, stride, out: the elements of each window as a column */
bool im2col(const block *b, const operator *o, bool dry)
{
	pool p = {0};
	tensor out;

	(void)o;
	if (!tensor_of(b, 0, 0, &p.in) || !tensor_of(b, 5, 0, &out) || p.in.dtype != out.dtype || !is_real(out.dtype) || p.in.num_dims < 3 || p.in.num_dims > 4 ||
	    out.num_dims != p.in.num_dims - 1 || !window_of(b, (int[]){1, 4, 3, 2}, 2, &p.w) || (double)p.w.size[1] * (double)p.w.size[2] > (double)MAX_COUNT)
		return false;
	int first = p.in.num_dims - 3; /* the dim of the channels */
	p.from[0] = p.to[0] = p.from_size = p.to_size = 1;
	for (int d = 1; d < WINDOW; d++) {
		p.from[d] = p.in.dims[first + d];
		int64_t span = p.from[d] + 2 * p.w.padding[d] - p.w.dilation[d] * (p.w.size[d] - 1) - 1;
		if (span < 0)
			return false;
		p.to[d] = span / p.w.stride[d] + 1;
		p.from_size *= p.from[d];
		p.to_size *= p.to[d];
	}
	int64_t channels = p.in.dims[first], items = first ? p.in.dims[0] : 1, taps = taps_of(&p), n = count_of(&out), at = 0;
	if ((first && out.dims[0] != items) || out.dims[first] != channels * taps || out.dims[first + 1] != p.to_size)
		return false;
	if (dry)
		return true;
	double *v = read_all(&p.in), *to = malloc((size_t)(n + 1) * sizeof *to);
	bool done = v && to;
	for (int64_t plane = 0; done && plane < items * channels; plane++)
		for (int64_t tap = 0; tap < taps; tap++)
			for (int64_t i = 0; i < p.to_size; i++) {
				int64_t from = place_of(&p, i, tap);
				to[at++] = from < 0 ? 0 : v[plane * p.from_size + from];
			}
	if (done)
		write_all(&out, to);
	free(v);
	free(to);
	return done;
}
