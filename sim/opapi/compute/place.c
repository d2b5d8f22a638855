/* Operators that move elements to other places: by lists of indices, in reverse, and sums along a dim. */
#include "compute.h"

/* A tensor that is indexed along some dims: the dims of its indices, which the result has in their place or in front, and the other dims. */
typedef struct indexed {
	tensor self, rest, indices[MAX_DIMS];
	int dims[MAX_DIMS], num_indices, num_dims, front; /* num_dims of the indices, and the dims of the result before them */
	int64_t spread_dims[MAX_DIMS];
} indexed;

/* indexed_of reads self, and a list of tensors of whole numbers, of which absent and empty ones stand for all elements. */
static bool indexed_of(const block *b, uint32_t list, indexed *x)
{
	const aclsim_operator_param *p = param_of(b, list);
	int after = -1;
	bool adjacent = true;

	*x = (indexed){0};
	if (!tensor_of(b, 0, 0, &x->self) || !p || (int)p->count > x->self.num_dims)
		return false;
	for (uint32_t k = 0; k < p->count; k++) {
		tensor *t = &x->indices[x->num_indices];
		if (!tensor_of(b, list, k, t) || count_of(t) == 0)
			continue;
		if (t->dtype != I64 && t->dtype != I32)
			return false;
		adjacent = adjacent && (after < 0 || after == (int)k);
		after = (int)k + 1;
		x->num_dims = t->num_dims > x->num_dims ? t->num_dims : x->num_dims;
		x->dims[x->num_indices++] = (int)k;
	}
	if (!x->num_indices)
		return false;
	x->front = adjacent ? x->dims[0] : 0;
	for (int d = 0; d < x->num_dims; d++) {
		x->spread_dims[d] = 1;
		for (int k = 0; k < x->num_indices; k++) {
			tensor wide = with_dims(&x->indices[k], x->num_dims);
			if (wide.dims[d] != 1)
				x->spread_dims[d] = wide.dims[d];
		}
	}
	x->rest = x->self;
	x->rest.num_dims = 0;
	for (int d = 0, k = 0; d < x->self.num_dims; d++) {
		if (k < x->num_indices && x->dims[k] == d) {
			k++;
			continue;
		}
		x->rest.dims[x->rest.num_dims] = x->self.dims[d];
		x->rest.strides[x->rest.num_dims++] = x->self.strides[d];
	}
	return x->num_dims + x->rest.num_dims <= MAX_DIMS;
}

/* shape_of returns a view with the dims of the result. */
static tensor shape_of(const indexed *x)
{
	tensor t = {.num_dims = x->num_dims + x->rest.num_dims};

	for (int d = 0; d < t.num_dims; d++)
		t.dims[d] = d < x->front ? x->rest.dims[d] : d < x->front + x->num_dims ? x->spread_dims[d - x->front] : x->rest.dims[d - x->num_dims];
	return t;
}

/* offsets_of returns the offset in self of each element of the indices. NULL if one is out of range. */
static int64_t *offsets_of(const indexed *x)
{
	tensor like = {.num_dims = x->num_dims};

	memcpy(like.dims, x->spread_dims, sizeof like.dims);
	int64_t n = count_of(&like), *to = calloc((size_t)n + 1, sizeof *to), *values = malloc((size_t)(n + 1) * sizeof *values);
	bool done = to && values;
	for (int k = 0; done && k < x->num_indices; k++) {
		int64_t size = x->self.dims[x->dims[k]], stride = x->self.strides[x->dims[k]], *next = values;
		tensor wide;
		const tensor *list[] = {&wide};
		rows r;
		if (!(done = spread(&x->indices[k], &like, &wide)))
			break;
		for (rows_begin(&r, 1, list); !r.done; rows_next(&r), next += r.length)
			load_whole(next, r.at[0], r.step[0], wide.dtype, r.length);
		for (int64_t i = 0; i < n; i++) {
			int64_t v = values[i] < 0 ? values[i] + size : values[i];
			done = done && v >= 0 && v < size;
			to[i] += done ? v * stride : 0;
		}
	}
	free(values);
	if (done)
		return to;
	free(to);
	return NULL;
}

/* Visits the elements of self that the indices name, beside those of a tensor like the result. */
static bool exchange(const indexed *x, const tensor *other, bool into_self, bool add)
{
	int64_t *offsets = offsets_of(x), i = 0;
	size_t width = (size_t)width_of(x->self.dtype);
	tensor places = *other, part = *other;
	const tensor *outer[] = {&places}, *inner[] = {&x->rest, &part};
	rows r, q;

	if (!offsets)
		return false;
	places.num_dims = x->num_dims;
	memcpy(places.dims, other->dims + x->front, sizeof(int64_t) * (size_t)x->num_dims);
	memcpy(places.strides, other->strides + x->front, sizeof(int64_t) * (size_t)x->num_dims);
	for (int k = 0; k < x->num_dims; k++)
		squeeze(&part, x->front);
	for (rows_begin(&r, 1, outer); !r.done; rows_next(&r))
		for (int64_t k = 0; k < r.length; k++, i++)
			for (rows_begin(&q, 2, inner); !q.done; rows_next(&q))
				for (int64_t m = 0; m < q.length; m++) {
					char *self = q.at[0] + offsets[i] + m * q.step[0], *its = q.at[1] + (r.at[0] - other->at) + k * r.step[0] + m * q.step[1];
					if (add)
						add_element(self, its, x->self.dtype, &(number){.real = 1, .whole = 1});
					else
						memmove(into_self ? self : its, into_self ? its : self, width);
				}
	free(offsets);
	return true;
}

/* self, indices, out */
bool index_of(const block *b, const operator *o, bool dry)
{
	indexed x;
	tensor out;

	(void)o;
	if (!tensor_of(b, 2, 0, &out) || !indexed_of(b, 1, &x) || out.dtype != x.self.dtype)
		return false;
	tensor shape = shape_of(&x);
	return same_dims(&shape, &out) && (dry || exchange(&x, &out, false, false));
}

/* selfRef, indices, values, accumulate, unsafe */
bool index_put(const block *b, const operator *o, bool dry)
{
	indexed x;
	tensor values, wide;
	number add = number_of(b, 3, 0);

	(void)o;
	if (!tensor_of(b, 2, 0, &values) || !indexed_of(b, 1, &x) || values.dtype != x.self.dtype || !add.given)
		return false;
	tensor shape = shape_of(&x);
	return spread(&values, &shape, &wide) && (dry || exchange(&x, &wide, true, add.whole));
}

/* self, dims, out */
bool flip(const block *b, const operator *o, bool dry)
{
	tensor x, out;
	uint32_t n;
	const int64_t *dims = ints_of(b, 1, &n);

	(void)o;
	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, 2, 0, &out) || !same_dims(&x, &out) || x.dtype != out.dtype)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		int d;
		if (!dim_of(&x, dims[i], &d))
			return false;
		if (!x.num_dims || !x.dims[d])
			continue;
		x.at += (x.dims[d] - 1) * x.strides[d];
		x.strides[d] = -x.strides[d];
	}
	if (!dry)
		move(&out, &x);
	return true;
}

/* self, dim, dtype, out: the sum of the elements up to each. */
bool cumulate(const block *b, const operator *o, bool dry)
{
	tensor x, out;
	number at = number_of(b, 1, 0);
	int dim;

	(void)o;
	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, 3, 0, &out) || !same_dims(&x, &out) || !at.given || !dim_of(&x, at.whole, &dim))
		return false;
	if (dry)
		return true;
	bool whole = !is_real(x.dtype) && !is_real(out.dtype);
	tensor lines[2] = {out, x};
	int64_t n = out.num_dims ? out.dims[dim] : 1;
	for (int k = 0; k < 2; k++)
		if (out.num_dims)
			lines[k].dims[dim] = n > 0;
	const tensor *list[] = {&lines[0], &lines[1]};
	rows r;
	for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++) {
			double v, sum = 0;
			int64_t w, total = 0;
			for (int64_t k = 0; k < n; k++) {
				char *to = r.at[0] + i * r.step[0] + (out.num_dims ? k * out.strides[dim] : 0);
				const char *from = r.at[1] + i * r.step[1] + (out.num_dims ? k * x.strides[dim] : 0);
				if (whole) {
					load_whole(&w, from, 0, x.dtype, 1);
					total = (int64_t)((uint64_t)total + (uint64_t)w);
					store_whole(to, 0, out.dtype, &total, 1);
				} else {
					load_real(&v, from, 0, x.dtype, 1);
					sum += v;
					store_real(to, 0, out.dtype, &sum, 1);
				}
			}
		}
	return true;
}
