/* Operators that combine elements along dims. */
#include "compute.h"

/* split moves the dims of a mask behind the others. The views have as many dims as t: kept, then reduced. */
static void split(const tensor *t, uint32_t reduced, tensor *kept, tensor *inner)
{
	*kept = *inner = *t;
	kept->num_dims = inner->num_dims = 0;
	for (int d = 0; d < t->num_dims; d++) {
		tensor *to = reduced >> d & 1 ? inner : kept;
		to->dims[to->num_dims] = t->dims[d];
		to->strides[to->num_dims++] = t->strides[d];
	}
}

/* mask_of returns the dims of a parameter, all if it lists none. */
static bool mask_of(const block *b, int param, const tensor *t, uint32_t *mask)
{
	uint32_t n = 0;
	const int64_t *dims = param < 0 ? NULL : ints_of(b, (uint32_t)param, &n);

	*mask = n ? 0 : (1u << t->num_dims) - 1;
	for (uint32_t i = 0; i < n; i++) {
		int d;
		if (!dim_of(t, dims[i], &d))
			return false;
		if (t->num_dims)
			*mask |= 1u << d;
	}
	return true;
}

typedef struct sum {
	double real;
	int64_t whole;
} sum;

/* measure replaces elements by what the sum of a norm has for them. */
static void measure(double *v, int64_t n, double power)
{
	if (power == 1 || isinf(power))
		for (int64_t i = 0; i < n; i++)
			v[i] = fabs(v[i]);
	else if (power == 2)
		for (int64_t i = 0; i < n; i++)
			v[i] *= v[i];
	else if (power == 0)
		for (int64_t i = 0; i < n; i++)
			v[i] = v[i] != 0;
	else
		for (int64_t i = 0; i < n; i++)
			v[i] = own_pow(fabs(v[i]), power);
}

static void combine_reals(sum *s, const double *v, int64_t n, int kind)
{
	switch (kind) {
	case ALL:
	case ANY:
		for (int64_t i = 0; i < n; i++)
			s->whole = kind == ALL ? s->whole && v[i] != 0 : s->whole || v[i] != 0;
		break;
	case MAX:
		for (int64_t i = 0; i < n; i++)
			s->real = v[i] > s->real || v[i] != v[i] ? v[i] : s->real;
		break;
	case MIN:
		for (int64_t i = 0; i < n; i++)
			s->real = v[i] < s->real || v[i] != v[i] ? v[i] : s->real;
		break;
	case PROD:
		for (int64_t i = 0; i < n; i++)
			s->real *= v[i];
		break;
	default:
		s->real += sum_of(v, n);
	}
}

static void combine_wholes(sum *s, const int64_t *v, int64_t n, int kind)
{
	for (int64_t i = 0; i < n; i++)
		switch (kind) {
		case ALL:
			s->whole = s->whole && v[i];
			break;
		case ANY:
			s->whole = s->whole || v[i];
			break;
		case MAX:
			s->whole = v[i] > s->whole ? v[i] : s->whole;
			break;
		case MIN:
			s->whole = v[i] < s->whole ? v[i] : s->whole;
			break;
		case PROD:
			s->whole = (int64_t)((uint64_t)s->whole * (uint64_t)v[i]);
			break;
		default:
			s->whole = (int64_t)((uint64_t)s->whole + (uint64_t)v[i]);
		}
}

/* fold combines the elements of a view that begins at a place, ROW at a time, however its rows are long: the order depends on dims alone. */
static sum fold(const tensor *inner, char *at, int kind, double power, bool whole)
{
	double values[ROW];
	int64_t wholes[ROW], filled = 0;
	tensor t = *inner;
	const tensor *list[] = {&t};
	bool largest = kind == MAX || (kind == NORM && power == INFINITY), smallest = kind == MIN || (kind == NORM && power == -INFINITY);
	int how = largest ? MAX : smallest ? MIN : kind;
	sum s = {largest ? -INFINITY : smallest ? INFINITY : kind == PROD, largest ? INT64_MIN : smallest ? INT64_MAX : kind == ALL || kind == PROD};
	rows r;

	t.at = at;
	for (rows_begin(&r, 1, list);; rows_next(&r)) {
		for (int64_t i = 0, n; !r.done && i < r.length; i += n, filled += n) {
			if (filled == ROW) {
				whole ? combine_wholes(&s, wholes, ROW, how) : combine_reals(&s, values, ROW, how);
				filled = 0;
			}
			n = r.length - i < ROW - filled ? r.length - i : ROW - filled;
			if (whole)
				load_whole(wholes + filled, r.at[0] + i * r.step[0], r.step[0], t.dtype, n);
			else
				load_real(values + filled, r.at[0] + i * r.step[0], r.step[0], t.dtype, n);
			if (kind == NORM)
				measure(values + filled, n, power);
		}
		if (r.done)
			break;
	}
	whole ? combine_wholes(&s, wholes, filled, how) : combine_reals(&s, values, filled, how);
	if (kind == ALL || kind == ANY)
		s.real = (double)s.whole;
	if (kind == NORM && power == 2)
		s.real = sqrt(s.real);
	else if (kind == NORM && power != 1 && power != 0 && !isinf(power))
		s.real = own_pow(s.real, 1 / power);
	if (kind == NORM && largest && count_of(inner) == 0)
		s.real = 0;
	return s;
}

static bool reduced(const tensor *in, const tensor *out, uint32_t mask, int kind, double power, bool dry)
{
	tensor kept, inner;
	rows r;
	const tensor *list[] = {&kept};
	int64_t number = 0;
	char **places;

	split(in, mask, &kept, &inner);
	int64_t n = count_of(&kept);
	if (n != count_of(out))
		return false;
	if (dry)
		return true;
	if (n == 0)
		return true;
	/* The result has the kept dims, with or without dims of 1 for the others: its elements have the order of the kept ones. */
	places = malloc((size_t)n * sizeof *places);
	if (!places)
		return false;
	for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++)
			places[number++] = r.at[0] + i * r.step[0];
	number = 0;
	list[0] = out;
	bool whole = !is_real(in->dtype) && !is_real(out->dtype) && kind != NORM && kind != MEAN;
	for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++) {
			sum s = fold(&inner, places[number++], kind, power, whole);
			if (kind == MEAN)
				s.real /= (double)count_of(&inner);
			if (whole)
				store_whole(r.at[0] + i * r.step[0], 0, out->dtype, &s.whole, 1);
			else
				store_real(r.at[0] + i * r.step[0], 0, out->dtype, &s.real, 1);
		}
	free(places);
	return true;
}

/* self, dims (in scalars), ..., out */
bool reduce(const block *b, const operator *o, bool dry)
{
	tensor in, out;
	uint32_t mask;
	int dims = o->scalars ? o->scalars[0] - '0' : -1;

	if (!tensor_of(b, 0, 0, &in) || !tensor_of(b, (uint32_t)o->out, 0, &out) || !mask_of(b, dims, &in, &mask))
		return false;
	if ((o->kind == MAX || o->kind == MIN) && (count_of(&in) == 0 || in.dtype != out.dtype))
		return false;
	return reduced(&in, &out, mask, o->kind, 0, dry);
}

typedef struct winner {
	double real;
	int64_t whole, at;
} winner;

/* self, dim, keepdim, then out and indices, or indices alone: the largest or smallest element along a dim, and its place. */
bool best(const block *b, const operator *o, bool dry)
{
	tensor in, out, places, kept, inner;
	number at = number_of(b, 1, 0);
	bool has_values = o->out == 4, largest = o->kind == MAX;
	int dim;

	if (!tensor_of(b, 0, 0, &in) || !tensor_of(b, has_values ? 4 : 3, 0, &places) || (has_values && !tensor_of(b, 3, 0, &out)) || !at.given || !dim_of(&in, at.whole, &dim) ||
	    is_real(places.dtype) || (has_values && out.dtype != in.dtype) || count_of(&in) == 0)
		return false;
	split(&in, in.num_dims ? 1u << dim : 0, &kept, &inner);
	if (count_of(&kept) != count_of(&places) || (has_values && count_of(&out) != count_of(&places)))
		return false;
	if (dry)
		return true;
	int64_t n = count_of(&kept), number = 0, length = in.num_dims ? in.dims[dim] : 1, step = in.num_dims ? in.strides[dim] : 0;
	winner *all = malloc((size_t)n * sizeof *all);
	if (!all)
		return false;
	const tensor *list[] = {&kept};
	rows r;
	for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, number++) {
			winner w = {0};
			for (int64_t k = 0; k < length; k++) {
				double v;
				int64_t whole;
				const char *from = r.at[0] + i * r.step[0] + k * step;
				load_real(&v, from, 0, in.dtype, 1);
				load_whole(&whole, from, 0, in.dtype, 1);
				bool wins = is_real(in.dtype) ? (largest ? v > w.real : v < w.real) || (v != v && w.real == w.real) : largest ? whole > w.whole : whole < w.whole;
				if (k == 0 || wins)
					w = (winner){v, whole, k};
			}
			all[number] = w;
		}
	for (int pass = 0; pass < 1 + has_values; pass++) {
		const tensor *to = pass ? &out : &places;
		number = 0;
		for (rows_begin(&r, 1, &to); !r.done; rows_next(&r))
			for (int64_t i = 0; i < r.length; i++, number++) {
				char *place = r.at[0] + i * r.step[0];
				if (!pass)
					store_whole(place, 0, to->dtype, &all[number].at, 1);
				else if (is_real(to->dtype))
					store_real(place, 0, to->dtype, &all[number].real, 1);
				else
					store_whole(place, 0, to->dtype, &all[number].whole, 1);
			}
	}
	free(all);
	return true;
}

/* self, ord, dims, ..., out */
bool norm_of(const block *b, const operator *o, bool dry)
{
	tensor in, out;
	uint32_t mask;
	number power = number_of(b, 1, 0);

	if (!tensor_of(b, 0, 0, &in) || !tensor_of(b, (uint32_t)o->out, 0, &out) || !power.given || !is_real(in.dtype) || !mask_of(b, 2, &in, &mask))
		return false;
	return reduced(&in, &out, mask, NORM, power.real, dry);
}

/* x, scalar, out */
bool foreach_norm(const block *b, const operator *o, bool dry)
{
	const aclsim_operator_param *p = param_of(b, 2);
	number power = number_of(b, 1, 0);

	(void)o;
	if (!p || !power.given)
		return false;
	for (int pass = 0; pass < 2 - dry; pass++)
		for (uint32_t k = 0; k < p->count; k++) {
			tensor in, out;
			if (!tensor_of(b, 0, k, &in) || !tensor_of(b, 2, k, &out) || !is_real(in.dtype) ||
			    !reduced(&in, &out, (1u << in.num_dims) - 1, NORM, power.real, !pass))
				return false;
		}
	return true;
}

/* A line of a tensor along a dim. */
typedef struct line {
	char *at[3];
	int64_t step[3], n;
} line;

/* lines calls a function for each line of tensors with the same dims. */
static bool lines(const tensor *of, int n, int dim, double *room, void (*each)(const line *l, const tensor *of, double *room, int kind), int kind)
{
	tensor outer[3];
	const tensor *list[3];
	line l = {.n = of[0].num_dims ? of[0].dims[dim] : 1};
	rows r;

	if (!l.n)
		return true;
	for (int k = 0; k < n; k++) {
		outer[k] = of[k];
		list[k] = &outer[k];
		if (!of[k].num_dims)
			continue;
		l.step[k] = of[k].strides[dim];
		outer[k].dims[dim] = 1;
	}
	for (rows_begin(&r, n, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++) {
			for (int k = 0; k < n; k++)
				l.at[k] = r.at[k] + i * r.step[k];
			each(&l, of, room, kind);
		}
	return true;
}

static void softmax_line(const line *l, const tensor *of, double *v, int log_of)
{
	double top = -INFINITY, total = 0;

	load_real(v, l->at[1], l->step[1], of[1].dtype, l->n);
	for (int64_t i = 0; i < l->n; i++)
		top = v[i] > top || v[i] != v[i] ? v[i] : top;
	double *e = log_of ? v + l->n : v;
	for (int64_t i = 0; i < l->n; i++) {
		v[i] -= top;
		e[i] = own_exp(v[i]);
	}
	total = sum_of(e, l->n);
	double shift = log_of ? own_log(total) : 0;
	for (int64_t i = 0; i < l->n; i++)
		v[i] = log_of ? v[i] - shift : v[i] / total;
	store_real(l->at[0], l->step[0], of[0].dtype, v, l->n);
}

/* self, dim, out. kind is 1 for the logarithm. */
bool softmax(const block *b, const operator *o, bool dry)
{
	tensor of[2];
	number at = number_of(b, 1, 0);
	int dim;

	if (!tensor_of(b, 2, 0, &of[0]) || !tensor_of(b, 0, 0, &of[1]) || !same_dims(&of[0], &of[1]) || !at.given || !dim_of(&of[0], at.whole, &dim))
		return false;
	if (dry)
		return true;
	double *room = malloc((size_t)(2 * (of[0].num_dims ? of[0].dims[dim] : 1) + 1) * sizeof *room);
	bool done = room && lines(of, 2, dim, room, softmax_line, o->kind);
	free(room);
	return done;
}

static void softmax_backward_line(const line *l, const tensor *of, double *room, int log_of)
{
	double *grad = room, *out = room + l->n, *part = out + l->n;

	load_real(grad, l->at[1], l->step[1], of[1].dtype, l->n);
	load_real(out, l->at[2], l->step[2], of[2].dtype, l->n);
	for (int64_t i = 0; i < l->n; i++)
		part[i] = log_of ? grad[i] : grad[i] * out[i];
	double total = sum_of(part, l->n);
	for (int64_t i = 0; i < l->n; i++)
		grad[i] = log_of ? grad[i] - own_exp(out[i]) * total : out[i] * (grad[i] - total);
	store_real(l->at[0], l->step[0], of[0].dtype, grad, l->n);
}

/* gradOutput, output, dim, out. kind is 1 for the logarithm. */
bool softmax_backward(const block *b, const operator *o, bool dry)
{
	tensor of[3];
	number at = number_of(b, 2, 0);
	int dim;

	if (!tensor_of(b, 3, 0, &of[0]) || !tensor_of(b, 0, 0, &of[1]) || !tensor_of(b, 1, 0, &of[2]) || !same_dims(&of[0], &of[1]) || !same_dims(&of[0], &of[2]) || !at.given ||
	    !dim_of(&of[0], at.whole, &dim))
		return false;
	if (dry)
		return true;
	double *room = malloc((size_t)(3 * (of[0].num_dims ? of[0].dims[dim] : 1) + 1) * sizeof *room);
	bool done = room && lines(of, 3, dim, room, softmax_backward_line, o->kind);
	free(room);
	return done;
}

static bool normalized(const block *b, uint32_t param, const tensor *x, int64_t *rows_n, int64_t *n)
{
	uint32_t num;
	const int64_t *dims = ints_of(b, param, &num);

	if (!dims || !num || (int)num > x->num_dims)
		return false;
	*n = *rows_n = 1;
	for (int d = 0; d < x->num_dims; d++) {
		int k = d - (x->num_dims - (int)num);
		if (k >= 0 && x->dims[d] != dims[k])
			return false;
		*(k >= 0 ? n : rows_n) *= x->dims[d];
	}
	return true;
}

double spread_of(const double *v, int64_t n, double mean)
{
	double part[ROW], sum = 0;

	for (int64_t i = 0; i < n; i += ROW) {
		int64_t length = n - i < ROW ? n - i : ROW;
		for (int64_t k = 0; k < length; k++)
			part[k] = (v[i + k] - mean) * (v[i + k] - mean);
		sum += sum_of(part, length);
	}
	return sum;
}

/* input, normalizedShape, weight, bias, eps, out, mean, rstd */
bool layer_norm(const block *b, const operator *o, bool dry)
{
	tensor x, out, side[2], scale[2];
	int64_t m, n;
	number eps = number_of(b, 4, 0);
	bool has_scale[2], has_side[2], done = false;

	(void)o;
	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, 5, 0, &out) || !same_dims(&x, &out) || !is_real(x.dtype) || !eps.given || !normalized(b, 1, &x, &m, &n))
		return false;
	for (uint32_t k = 0; k < 2; k++) {
		has_scale[k] = !is_absent(b, 2 + k);
		if (has_scale[k] && (!tensor_of(b, 2 + k, 0, &scale[k]) || count_of(&scale[k]) != n))
			return false;
		has_side[k] = !is_absent(b, 6 + k);
		if (has_side[k] && (!tensor_of(b, 6 + k, 0, &side[k]) || count_of(&side[k]) != m))
			return false;
	}
	if (dry)
		return true;
	double *v = read_all(&x), *sides[2] = {calloc((size_t)m + 1, sizeof(double)), calloc((size_t)m + 1, sizeof(double))}, *scales[2] = {NULL, NULL};
	for (int k = 0; k < 2; k++)
		scales[k] = has_scale[k] ? read_all(&scale[k]) : NULL;
	if (v && sides[0] && sides[1] && (scales[0] || !has_scale[0]) && (scales[1] || !has_scale[1])) {
		for (int64_t i = 0; i < m && n > 0; i++) {
			double *row = v + i * n, mean = sum_of(row, n) / (double)n, rstd = 1 / sqrt(spread_of(row, n, mean) / (double)n + eps.real);
			for (int64_t k = 0; k < n; k++)
				row[k] = (row[k] - mean) * rstd * (scales[0] ? scales[0][k] : 1) + (scales[1] ? scales[1][k] : 0);
			sides[0][i] = mean;
			sides[1][i] = rstd;
		}
		write_all(&out, v);
		for (int k = 0; k < 2; k++)
			if (has_side[k])
				write_all(&side[k], sides[k]);
		done = true;
	}
	free(v);
	for (int k = 0; k < 2; k++) {
		free(sides[k]);
		free(scales[k]);
	}
	return done;
}

/* gradOut, input, normalizedShape, mean, rstd, weight, bias, outputMask, gradInput, gradWeight, gradBias */
bool layer_norm_backward(const block *b, const operator *o, bool dry)
{
	static const uint32_t inputs[] = {0, 1, 3, 4, 5};
	tensor in[5], out[3];
	int64_t m, n;
	bool wanted[3], weighted = !is_absent(b, 5), done = true;
	double *v[5] = {0}, *to[3] = {0};

	(void)o;
	for (uint32_t k = 0; k < 5; k++)
		if ((k < 4 || weighted) && !tensor_of(b, inputs[k], 0, &in[k]))
			return false;
	if (!same_dims(&in[0], &in[1]) || !normalized(b, 2, &in[1], &m, &n) || count_of(&in[2]) != m || count_of(&in[3]) != m || (weighted && count_of(&in[4]) != n))
		return false;
	for (uint32_t k = 0; k < 3; k++) {
		number mask = number_of(b, 7, k);
		wanted[k] = mask.given && mask.whole && !is_absent(b, 8 + k);
		if (wanted[k] && (!tensor_of(b, 8 + k, 0, &out[k]) || count_of(&out[k]) != (k ? n : m * n)))
			return false;
	}
	if (dry)
		return true;
	for (int k = 0; k < 5; k++)
		if (k < 4 || weighted)
			done = (v[k] = read_all(&in[k])) && done;
	for (int k = 0; k < 3; k++)
		done = (to[k] = calloc((size_t)(k ? n : m * n) + 1, sizeof(double))) && done;
	for (int64_t i = 0; done && i < m && n > 0; i++) {
		double s1 = 0, s2 = 0, mean = v[2][i], rstd = v[3][i];
		for (int64_t k = 0; k < n; k++) {
			double g = v[0][i * n + k], hat = (v[1][i * n + k] - mean) * rstd, gw = g * (weighted ? v[4][k] : 1);
			s1 += gw;
			s2 += gw * hat;
			to[1][k] += g * hat;
			to[2][k] += g;
		}
		for (int64_t k = 0; k < n; k++) {
			double gw = v[0][i * n + k] * (weighted ? v[4][k] : 1), hat = (v[1][i * n + k] - mean) * rstd;
			to[0][i * n + k] = (gw - (s1 + hat * s2) / (double)n) * rstd;
		}
	}
	for (int k = 0; k < 3; k++) {
		if (done && wanted[k])
			write_all(&out[k], to[k]);
		free(to[k]);
	}
	for (int k = 0; k < 5; k++)
		free(v[k]);
	return done;
}
