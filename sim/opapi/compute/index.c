/* Operators that pick elements by numbers in memory. Numbers out of range leave the result as if the operator were not computed. */
#include "compute.h"

/* Reads a tensor of whole numbers. Each must be below a limit, or be the one that is skipped. NULL if one is not. */
static int64_t *indices_of(const tensor *t, int64_t limit, const int64_t *skipped)
{
	int64_t *all = malloc((size_t)(count_of(t) + 1) * sizeof *all), *to = all;
	rows r;

	if (!all)
		return NULL;
	for (rows_begin(&r, 1, &t); !r.done; rows_next(&r)) {
		load_whole(to, r.at[0], r.step[0], t->dtype, r.length);
		for (int64_t i = 0; i < r.length; i++, to++)
			if ((*to < 0 || *to >= limit) && !(skipped && *to == *skipped)) {
				free(all);
				return NULL;
			}
	}
	return all;
}

void move(const tensor *to, const tensor *from)
{
	const tensor *list[] = {to, from};
	rows r;
	size_t width = (size_t)width_of(to->dtype);

	for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++)
			memmove(r.at[0] + i * r.step[0], r.at[1] + i * r.step[1], width);
}

/* A number has one dim here, as in frameworks. */
static tensor at_least_1d(const tensor *t) { return t->num_dims ? *t : with_dims(t, 1); }

/* weight, indices, out: out[i, ...] is row indices[i]. kind 1: self, dim, index, out along a dim */
static bool pick(const tensor *from, const tensor *index, const tensor *out, int dim, bool dry)
{
	int k = index->num_dims;

	/* out has the dims of from, with those of the index in place of one. */
	if (from->dtype != out->dtype || is_real(index->dtype) || from->num_dims < 1 || out->num_dims != from->num_dims - 1 + k)
		return false;
	for (int d = 0; d < out->num_dims; d++)
		if (out->dims[d] != (d < dim ? from->dims[d] : d < dim + k ? index->dims[d - dim] : from->dims[d - k + 1]))
			return false;
	if (dry)
		return true;
	int64_t *at = indices_of(index, from->dims[dim], NULL);
	if (!at)
		return false;
	/* One part of the result for each index. */
	tensor places = *out, to = *out, source = *from;
	places.num_dims = k;
	for (int d = 0; d < k; d++) {
		places.dims[d] = out->dims[dim + d];
		places.strides[d] = out->strides[dim + d];
	}
	to.num_dims = source.num_dims = 0;
	for (int d = 0; d < from->num_dims; d++) {
		if (d == dim)
			continue;
		int of = d < dim ? d : d - 1 + k;
		to.dims[to.num_dims] = out->dims[of];
		to.strides[to.num_dims++] = out->strides[of];
		source.dims[source.num_dims] = from->dims[d];
		source.strides[source.num_dims++] = from->strides[d];
	}
	const tensor *list[] = {&places};
	const int64_t *next = at;
	rows r;
	for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++) {
			to.at = r.at[0] + i * r.step[0];
			source.at = from->at + *next++ * from->strides[dim];
			move(&to, &source);
		}
	free(at);
	return true;
}

bool embedding(const block *b, const operator *o, bool dry)
{
	tensor weight, index, out;

	(void)o;
	return tensor_of(b, 0, 0, &weight) && tensor_of(b, 1, 0, &index) && tensor_of(b, 2, 0, &out) && weight.num_dims == 2 && pick(&weight, &index, &out, 0, dry);
}

bool index_select(const block *b, const operator *o, bool dry)
{
	tensor self, index, out;
	number at = number_of(b, 1, 0);
	int dim;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &index) || !tensor_of(b, 3, 0, &out))
		return false;
	self = at_least_1d(&self);
	index = at_least_1d(&index);
	out = at_least_1d(&out);
	return at.given && index.num_dims == 1 && dim_of(&self, at.whole, &dim) && pick(&self, &index, &out, dim, dry);
}

/* self, dim, index, out: the element at a place along a dim, for each element of the index. */
bool gather(const block *b, const operator *o, bool dry)
{
	tensor self, index, out;
	number at = number_of(b, 1, 0);
	int dim;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &index) || !tensor_of(b, 3, 0, &out) || !at.given || !dim_of(&self, at.whole, &dim) || !same_dims(&index, &out) ||
	    self.dtype != out.dtype || is_real(index.dtype))
		return false;
	self = at_least_1d(&self);
	index = at_least_1d(&index);
	out = at_least_1d(&out);
	if (self.num_dims != out.num_dims)
		return false;
	for (int d = 0; d < out.num_dims; d++)
		if (d != dim && out.dims[d] > self.dims[d])
			return false;
	if (dry)
		return true;
	int64_t *places = indices_of(&index, self.dims[dim], NULL), step = self.strides[dim];
	if (!places)
		return false;
	tensor source = self;
	memcpy(source.dims, out.dims, sizeof out.dims);
	source.strides[dim] = 0;
	const tensor *list[] = {&out, &source};
	const int64_t *next = places;
	rows r;
	for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++)
			memmove(r.at[0] + i * r.step[0], r.at[1] + i * r.step[1] + *next++ * step, (size_t)width_of(out.dtype));
	free(places);
	return true;
}

/* grad, indices, numWeights, paddingIdx, scaleGradByFreq, out: the sum of the rows with one index. */
bool embedding_backward(const block *b, const operator *o, bool dry)
{
	tensor grad, index, out;
	number padding = number_of(b, 3, 0), scale = number_of(b, 4, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &grad) || !tensor_of(b, 1, 0, &index) || !tensor_of(b, 5, 0, &out) || out.num_dims != 2 || grad.num_dims < 1 || is_real(index.dtype) ||
	    !is_real(grad.dtype) || grad.dims[grad.num_dims - 1] != out.dims[1] || count_of(&grad) != count_of(&index) * out.dims[1] || !padding.given || !scale.given)
		return false;
	if (dry)
		return true;
	int64_t width = out.dims[1], n = count_of(&index), *at = indices_of(&index, out.dims[0], &padding.whole), *times = calloc((size_t)out.dims[0] + 1, sizeof *times);
	double *all = read_all(&grad), *to = calloc((size_t)count_of(&out) + 1, sizeof *to);
	bool done = at && times && all && to;
	for (int64_t i = 0; done && i < n; i++)
		if (at[i] != padding.whole)
			times[at[i]]++;
	for (int64_t i = 0; done && i < n; i++)
		for (int64_t k = 0; at[i] != padding.whole && k < width; k++)
			to[at[i] * width + k] += all[i * width + k] / (scale.whole ? (double)times[at[i]] : 1);
	const tensor *list[] = {&out};
	const double *from = to;
	rows r;
	if (done)
		for (rows_begin(&r, 1, list); !r.done; rows_next(&r), from += r.length)
			store_real(r.at[0], r.step[0], out.dtype, from, r.length);
	free(at);
	free(times);
	free(all);
	free(to);
	return done;
}

enum { NONE, MEAN_OF, SUM_OF };

typedef struct nll {
	tensor self, target, weight;
	int64_t n, classes, ignored, *targets;
	int reduction;
	double *weights;
} nll;

/* Reads self, target and weight, which begin at a parameter, and reduction and ignoreIndex after them. */
static bool nll_of(const block *b, uint32_t first, nll *x, bool dry)
{
	number reduction = number_of(b, first + 3, 0), ignored = number_of(b, first + 4, 0);

	if (!tensor_of(b, first, 0, &x->self) || !tensor_of(b, first + 1, 0, &x->target) || !tensor_of(b, first + 2, 0, &x->weight) || !reduction.given || !ignored.given)
		return false;
	x->reduction = (int)reduction.whole;
	x->ignored = ignored.whole;
	if (x->self.num_dims < 1 || x->self.num_dims == 3 || x->self.num_dims > 4 || x->reduction < NONE || x->reduction > SUM_OF || is_real(x->target.dtype))
		return false;
	x->classes = x->self.dims[x->self.num_dims > 1];
	x->n = count_of(&x->self) / (x->classes ? x->classes : 1);
	if (count_of(&x->target) != x->n || count_of(&x->weight) != x->classes)
		return false;
	if (dry)
		return true;
	x->targets = indices_of(&x->target, x->classes, &x->ignored);
	x->weights = read_all(&x->weight);
	return true;
}

static void nll_end(nll *x)
{
	free(x->targets);
	free(x->weights);
}

static double weight_of(const nll *x, int64_t i) { return x->targets[i] == x->ignored ? 0 : x->weights[x->targets[i]]; }

/* The element of row i and class k: classes are the second dim, or the only one. */
static char *element_of(const tensor *t, int64_t i, int64_t k)
{
	char *at = t->at + k * t->strides[t->num_dims > 1];

	for (int d = t->num_dims - 1; d >= 0; d--)
		if (d != (t->num_dims > 1)) {
			at += i % t->dims[d] * t->strides[d];
			i /= t->dims[d];
		}
	return at;
}

/* self, target, weight, reduction, ignoreIndex, out, totalWeight */
bool nll_loss(const block *b, const operator *o, bool dry)
{
	nll x = {0};
	tensor out, total;

	(void)o;
	if (!tensor_of(b, 5, 0, &out) || !tensor_of(b, 6, 0, &total) || count_of(&total) != 1 || !nll_of(b, 0, &x, dry) || count_of(&out) != (x.reduction == NONE ? x.n : 1))
		return false;
	if (dry)
		return true;
	double sum = 0, weights = 0, *each = calloc((size_t)x.n + 1, sizeof *each);
	bool done = x.targets && x.weights && each;
	for (int64_t i = 0; done && i < x.n; i++) {
		double v = 0, w = weight_of(&x, i);
		if (x.targets[i] != x.ignored) {
			load_real(&v, element_of(&x.self, i, x.targets[i]), 0, x.self.dtype, 1);
			v = -w * v;
		}
		sum += v;
		weights += w;
		each[i] = v;
	}
	if (done) {
		sum = x.reduction == MEAN_OF ? sum / weights : sum;
		write_all(&out, x.reduction == NONE ? each : &sum);
		store_real(total.at, 0, total.dtype, &weights, 1);
	}
	free(each);
	nll_end(&x);
	return done;
}

/* gradOutput, self, target, weight, reduction, ignoreIndex, totalWeight, out */
bool nll_loss_backward(const block *b, const operator *o, bool dry)
{
	nll x = {0};
	tensor grad, out;
	number total = number_of(b, 6, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &grad) || !tensor_of(b, 7, 0, &out) || !total.given || !nll_of(b, 1, &x, dry) || !same_dims(&out, &x.self) ||
	    count_of(&grad) != (x.reduction == NONE ? x.n : 1))
		return false;
	if (dry)
		return true;
	double *grads = read_all(&grad);
	bool done = x.targets && x.weights && grads;
	for (int64_t i = 0; done && i < x.n; i++) {
		double g = grads[x.reduction == NONE ? i : 0], zero = 0;
		if (x.reduction == MEAN_OF)
			g /= total.real;
		for (int64_t k = 0; k < x.classes; k++)
			store_real(element_of(&out, i, k), 0, out.dtype, &zero, 1);
		if (x.targets[i] == x.ignored)
			continue;
		g *= -weight_of(&x, i);
		store_real(element_of(&out, i, x.targets[i]), 0, out.dtype, &g, 1);
	}
	free(grads);
	nll_end(&x);
	return done;
}

/* copy_to makes the result begin as another tensor, unless it is that one. */
static void copy_to(const tensor *out, const tensor *from)
{
	if (out->at != from->at)
		move(out, from);
}

/*
 * self, dim, index, src, [reduce,] [out]: puts or adds each element of src at a place along a dim. Places with several elements take them in
 * order.
 */
bool scatter(const block *b, const operator *o, bool dry)
{
	tensor self, index, src, out;
	number at = number_of(b, 1, 0), how = o->kind & ADDS ? (number){.whole = 1, .given = true} : number_of(b, 4, 0);
	int dim;

	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &index) || !tensor_of(b, 3, 0, &src) || !tensor_of(b, (uint32_t)o->out, 0, &out) || !at.given || !how.given ||
	    !same_dims(&self, &out) || self.dtype != out.dtype || src.dtype != self.dtype || is_real(index.dtype) || how.whole < 0 || how.whole > 1)
		return false;
	self = at_least_1d(&self);
	index = at_least_1d(&index);
	src = at_least_1d(&src);
	out = at_least_1d(&out);
	if (!dim_of(&self, at.whole, &dim) || self.num_dims != index.num_dims || self.num_dims != src.num_dims)
		return false;
	for (int d = 0; d < self.num_dims; d++)
		if (index.dims[d] > src.dims[d] || (d != dim && index.dims[d] > self.dims[d]))
			return false;
	if (dry)
		return true;
	int64_t *places = indices_of(&index, self.dims[dim], NULL), step = out.strides[dim];
	if (!places)
		return false;
	copy_to(&out, &self);
	tensor to = out;
	memcpy(to.dims, index.dims, sizeof index.dims);
	memcpy(src.dims, index.dims, sizeof index.dims);
	to.strides[dim] = 0;
	const tensor *list[] = {&to, &src};
	const int64_t *next = places;
	rows r;
	for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++) {
			char *element = r.at[0] + i * r.step[0] + *next++ * step;
			if (how.whole)
				add_element(element, r.at[1] + i * r.step[1], out.dtype, &(number){.real = 1, .whole = 1});
			else
				memmove(element, r.at[1] + i * r.step[1], (size_t)width_of(out.dtype));
		}
	free(places);
	return true;
}

/* self, dim, index, source, alpha, out: adds slices of source at places along a dim. */
bool index_add(const block *b, const operator *o, bool dry)
{
	tensor self, index, src, out;
	number at = number_of(b, 1, 0), alpha = number_of(b, 4, 0);
	int dim;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &index) || !tensor_of(b, 3, 0, &src) || !tensor_of(b, 5, 0, &out) || !at.given || !alpha.given ||
	    !same_dims(&self, &out) || self.dtype != out.dtype || src.dtype != self.dtype || is_real(index.dtype))
		return false;
	self = at_least_1d(&self);
	index = at_least_1d(&index);
	src = at_least_1d(&src);
	out = at_least_1d(&out);
	if (!dim_of(&self, at.whole, &dim) || index.num_dims != 1 || self.num_dims != src.num_dims || src.dims[dim] != index.dims[0])
		return false;
	for (int d = 0; d < self.num_dims; d++)
		if (d != dim && self.dims[d] != src.dims[d])
			return false;
	if (dry)
		return true;
	int64_t *places = indices_of(&index, self.dims[dim], NULL);
	if (!places)
		return false;
	copy_to(&out, &self);
	for (int64_t k = 0; k < index.dims[0]; k++) {
		tensor to = out, from = src;
		to.at += places[k] * out.strides[dim];
		from.at += k * src.strides[dim];
		to.dims[dim] = from.dims[dim] = 1;
		const tensor *list[] = {&to, &from};
		rows r;
		for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
			for (int64_t i = 0; i < r.length; i++)
				add_element(r.at[0] + i * r.step[0], r.at[1] + i * r.step[1], out.dtype, &alpha);
	}
	free(places);
	return true;
}

/* selfRef, indices, maxNorm, normType: rows with a larger norm are scaled to it. */
bool embedding_renorm(const block *b, const operator *o, bool dry)
{
	tensor self, index;
	number limit = number_of(b, 2, 0), power = number_of(b, 3, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 1, 0, &index) || self.num_dims != 2 || !is_real(self.dtype) || is_real(index.dtype) || !limit.given || !power.given)
		return false;
	if (dry)
		return true;
	int64_t n = self.dims[1], *rows_of = indices_of(&index, self.dims[0], NULL);
	double *row = malloc((size_t)(2 * n + 1) * sizeof *row), *part = row + n;
	bool *seen = calloc((size_t)self.dims[0] + 1, sizeof *seen), done = rows_of && row && seen;
	for (int64_t i = 0, all = count_of(&index); done && i < all; i++) {
		char *at = self.at + rows_of[i] * self.strides[0];
		if (seen[rows_of[i]])
			continue;
		seen[rows_of[i]] = true;
		load_real(row, at, self.strides[1], self.dtype, n);
		for (int64_t k = 0; k < n; k++)
			part[k] = own_pow(fabs(row[k]), power.real);
		double norm = own_pow(sum_of(part, n), 1 / power.real);
		for (int64_t k = 0; k < n && norm > limit.real; k++)
			row[k] *= limit.real / (norm + 1e-7);
		store_real(at, self.strides[1], self.dtype, row, n);
	}
	free(rows_of);
	free(row);
	free(seen);
	return done;
}

/* selfRef, dim, index, source: row index[i] of a dim becomes row i of source */
bool index_copy(const block *b, const operator *o, bool dry)
{
	tensor self, index, source;
	number at = number_of(b, 1, 0);
	int dim;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &index) || !tensor_of(b, 3, 0, &source) || self.dtype != source.dtype || is_real(index.dtype) || !at.given)
		return false;
	self = at_least_1d(&self);
	index = at_least_1d(&index);
	source = at_least_1d(&source);
	if (index.num_dims != 1 || self.num_dims != source.num_dims || !dim_of(&self, at.whole, &dim) || source.dims[dim] != index.dims[0])
		return false;
	tensor to = self, from = source;
	squeeze(&to, dim);
	squeeze(&from, dim);
	if (!same_dims(&to, &from))
		return false;
	if (dry)
		return true;
	int64_t *places = indices_of(&index, self.dims[dim], NULL);
	for (int64_t i = 0; places && i < index.dims[0]; i++) {
		to.at = self.at + places[i] * self.strides[dim];
		from.at = source.at + i * source.strides[dim];
		move(&to, &from);
	}
	free(places);
	return places != NULL;
}

/* self, dim, index, out: as index_select, with an index of any dims */
bool pick_rows(const block *b, const operator *o, bool dry)
{
	tensor self, index, out;
	number at = number_of(b, 1, 0);
	int dim;

	(void)o;
	return tensor_of(b, 0, 0, &self) && tensor_of(b, 2, 0, &index) && tensor_of(b, 3, 0, &out) && at.given && dim_of(&self, at.whole, &dim) && pick(&self, &index, &out, dim, dry);
}
