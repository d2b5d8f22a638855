/* Operators that compute each element from those at its place, also for lists of tensors. */
#include "compute.h"

/* operands_of views the operands of an operator like its result. */
static bool operands_of(const block *b, const operator *o, uint32_t k, tensor *of, int *n)
{
	*n = 1;
	if (!tensor_of(b, (uint32_t)o->out, k, &of[0]))
		return false;
	for (const char *p = o->in; *p; p++, ++*n) {
		tensor t;
		if (!tensor_of(b, (uint32_t)(*p - '0'), k, &t) || !spread(&t, &of[0], &of[*n]))
			return false;
	}
	return true;
}

/* visit computes all elements. of[0] is the result. */
static void visit(const tensor *of, int n, const operator *o, const number *p, bool real)
{
	const tensor *list[MAX_OPERANDS + 1];
	double values[MAX_OPERANDS + 1][ROW];
	int64_t wholes[MAX_OPERANDS + 1][ROW];
	double *in[MAX_OPERANDS] = {0};
	int64_t *whole_in[MAX_OPERANDS] = {0};
	rows r;

	for (int k = 0; k < n; k++) {
		list[k] = &of[k];
		if (k > 0) {
			in[k - 1] = values[k];
			whole_in[k - 1] = wholes[k];
		}
	}
	for (rows_begin(&r, n, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i += ROW) {
			int64_t length = r.length - i < ROW ? r.length - i : ROW;
			for (int k = 1; k < n; k++) {
				const char *at = r.at[k] + i * r.step[k];
				if (real)
					load_real(values[k], at, r.step[k], of[k].dtype, length);
				else
					load_whole(wholes[k], at, r.step[k], of[k].dtype, length);
			}
			char *to = r.at[0] + i * r.step[0];
			if (real) {
				o->real(values[0], in, p, length);
				store_real(to, r.step[0], of[0].dtype, values[0], length);
			} else {
				o->whole(wholes[0], whole_in, p, length);
				store_whole(to, r.step[0], of[0].dtype, wholes[0], length);
			}
		}
}

/* The numbers of an operator. False if one is absent. */
static bool numbers_of(const block *b, const operator *o, uint32_t k, number *p, bool *real)
{
	for (const char *s = o->scalars; s && *s; s++, p++) {
		const aclsim_operator_param *x = param_of(b, (uint32_t)(*s - '0'));
		*p = number_of(b, (uint32_t)(*s - '0'), x && x->type == 'A' ? k : 0);
		if (!p->given)
			return false;
		*real = *real || p->is_real;
	}
	return true;
}

static bool one(const block *b, const operator *o, uint32_t k, bool dry)
{
	tensor of[MAX_OPERANDS + 1];
	number p[3] = {0};
	int n;
	bool real = !o->whole, by_number = false;

	if (!operands_of(b, o, k, of, &n) || n > MAX_OPERANDS || !numbers_of(b, o, k, p, &by_number))
		return false;
	for (int i = 1; i < n; i++)
		real = real || is_real(of[i].dtype);
	/* Whole numbers are compared with a real one, or multiplied by it, as real numbers. */
	if (!dry)
		visit(of, n, o, p, real || (by_number && (is_real(of[0].dtype) || of[0].dtype == BOOL)));
	return true;
}

bool elementwise(const block *b, const operator *o, bool dry) { return one(b, o, 0, dry); }

bool bitwise(const block *b, const operator *o, bool dry)
{
	tensor of[MAX_OPERANDS + 1];
	int n;

	if (!operands_of(b, o, 0, of, &n))
		return false;
	for (int i = 0; i < n; i++)
		if (is_real(of[i].dtype))
			return false;
	/* the bits that aclnnBitwiseNot changes */
	number ones = {.whole = of[0].dtype == BOOL ? 1 : -1};
	if (!dry)
		visit(of, n, o, &ones, false);
	return true;
}

bool foreach(const block *b, const operator *o, bool dry)
{
	const aclsim_operator_param *p = param_of(b, (uint32_t)o->out);

	for (uint32_t k = 0; p && k < p->count; k++)
		if (!one(b, o, k, true))
			return false;
	for (uint32_t k = 0; p && !dry && k < p->count; k++)
		one(b, o, k, false);
	return p != NULL;
}

bool elements(const block *b, const operator *o, const number *p, bool dry)
{
	tensor of[MAX_OPERANDS + 1];
	int n;
	bool real = true;

	if (!operands_of(b, o, 0, of, &n))
		return false;
	for (int i = 0; i < n; i++)
		real = real && (is_real(of[i].dtype) || i == 0);
	if (!dry && real)
		visit(of, n, o, p, true);
	return real;
}

/* self, other, rtol, atol, equalNan, out */
bool is_close(const block *b, const operator *o, bool dry)
{
	number p[3] = {number_of(b, 2, 0), number_of(b, 3, 0), number_of(b, 4, 0)};
	tensor of[MAX_OPERANDS + 1];
	int n;

	if (!p[0].given || !p[1].given || !p[2].given || !operands_of(b, o, 0, of, &n))
		return false;
	if (!dry)
		visit(of, n, o, p, true);
	return true;
}

/* self, decimals, out */
bool round_decimals(const block *b, const operator *o, bool dry)
{
	number decimals = number_of(b, 1, 0), power = {.real = 1};
	tensor from;

	if (!decimals.given || decimals.whole > 300 || decimals.whole < -300 || !tensor_of(b, 0, 0, &from) || !is_real(from.dtype))
		return false;
	for (int64_t i = 0; i < (decimals.whole < 0 ? -decimals.whole : decimals.whole); i++)
		power.real *= 10;
	power.whole = decimals.whole < 0;
	return elements(b, o, &power, dry);
}

bool clamp(const block *b, const operator *o, bool dry)
{
	tensor of[MAX_OPERANDS + 1];
	/* kind: 0 for both bounds, -1 for the lower one, 1 for the upper one */
	number p[2] = {o->kind > 0 ? (number){0} : number_of(b, 1, 0), o->kind ? o->kind > 0 ? number_of(b, 1, 0) : (number){0} : number_of(b, 2, 0)};
	int n;

	if (!operands_of(b, o, 0, of, &n))
		return false;
	if (!p[0].given)
		p[0] = (number){.real = -INFINITY, .whole = INT64_MIN};
	if (!p[1].given)
		p[1] = (number){.real = INFINITY, .whole = INT64_MAX};
	if (!dry)
		visit(of, n, o, p, is_real(of[0].dtype) || is_real(of[1].dtype));
	return true;
}

/* start, end, step, out */
bool arange(const block *b, const operator *o, bool dry)
{
	tensor t;
	number start = number_of(b, 0, 0), step = number_of(b, 2, 0);
	rows r;
	const tensor *list[] = {&t};
	int64_t at = 0;

	(void)o;
	if (!tensor_of(b, 3, 0, &t) || !start.given || !step.given)
		return false;
	if (dry)
		return true;
	bool whole = !start.is_real && !step.is_real;
	for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, at++) {
			char *to = r.at[0] + i * r.step[0];
			int64_t w = start.whole + at * step.whole;
			double v = start.real + (double)at * step.real;
			if (whole)
				store_whole(to, 0, t.dtype, &w, 1);
			else
				store_real(to, 0, t.dtype, &v, 1);
		}
	return true;
}

/* start, end, steps, out */
bool linspace(const block *b, const operator *o, bool dry)
{
	tensor t;
	number start = number_of(b, 0, 0), end = number_of(b, 1, 0);

	(void)o;
	if (!tensor_of(b, 3, 0, &t) || !start.given || !end.given || t.num_dims != 1 || !is_real(t.dtype))
		return false;
	int64_t n = t.dims[0];
	double step = n > 1 ? (end.real - start.real) / (double)(n - 1) : 0;
	for (int64_t i = 0; !dry && i < n; i++) {
		double v = i < n / 2 ? start.real + step * (double)i : n > 1 ? end.real - step * (double)(n - 1 - i) : start.real;
		store_real(t.at + i * t.strides[0], 0, t.dtype, &v, 1);
	}
	return true;
}

/* self, target, reduction, out: the squares of differences, their mean or sum. */
bool mse_loss(const block *b, const operator *o, bool dry)
{
	tensor self, target, out;
	number reduction = number_of(b, 2, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 1, 0, &target) || !tensor_of(b, 3, 0, &out) || !same_dims(&self, &target) || !is_real(self.dtype) || !reduction.given ||
	    reduction.whole < 0 || reduction.whole > 2 || (reduction.whole == 0 ? !same_dims(&self, &out) : count_of(&out) != 1))
		return false;
	if (dry)
		return true;
	const tensor *list[] = {&self, &target, reduction.whole ? &self : &out};
	double sum = 0, n = (double)count_of(&self);
	rows r;
	for (rows_begin(&r, 3, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++) {
			double x, y;
			load_real(&x, r.at[0] + i * r.step[0], 0, self.dtype, 1);
			load_real(&y, r.at[1] + i * r.step[1], 0, target.dtype, 1);
			x = (x - y) * (x - y);
			sum += x;
			if (!reduction.whole)
				store_real(r.at[2] + i * r.step[2], 0, out.dtype, &x, 1);
		}
	if (reduction.whole) {
		sum = reduction.whole == 1 ? sum / n : sum;
		store_real(out.at, 0, out.dtype, &sum, 1);
	}
	return true;
}

/* self, other, out: whether all elements are equal. */
bool equal(const block *b, const operator *o, bool dry)
{
	tensor x, y, out;
	int64_t same = 1;

	(void)o;
	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, 1, 0, &y) || !tensor_of(b, 2, 0, &out) || count_of(&out) != 1 || is_real(x.dtype) != is_real(y.dtype))
		return false;
	if (dry)
		return true;
	const tensor *list[] = {&x, &y};
	rows r;
	if (!same_dims(&x, &y))
		same = 0;
	else
		for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
			for (int64_t i = 0; i < r.length; i++) {
				double v[2];
				int64_t w[2];
				for (int k = 0; k < 2; k++) {
					load_real(&v[k], r.at[k] + i * r.step[k], 0, list[k]->dtype, 1);
					load_whole(&w[k], r.at[k] + i * r.step[k], 0, list[k]->dtype, 1);
				}
				same = same && (is_real(x.dtype) ? v[0] == v[1] : w[0] == w[1]);
			}
	store_whole(out.at, 0, out.dtype, &same, 1);
	return true;
}

/* self, dtype, out; and the copy of one tensor to another of any type: selfRef, src */
bool cast(const block *b, const operator *o, bool dry)
{
	operator whole = *o;
	tensor from, to;

	if (!tensor_of(b, (uint32_t)(o->in[0] - '0'), 0, &from) || !tensor_of(b, (uint32_t)o->out, 0, &to))
		return false;
	whole.real = o->real;
	whole.whole = is_real(from.dtype) ? NULL : o->whole;
	return one(b, &whole, 0, dry);
}

/* self, diagonal, and the result: the elements on one side of a diagonal. kind is 1 for the upper side. */
bool triangle(const block *b, const operator *o, bool dry)
{
	tensor from, to;
	number diagonal = number_of(b, 1, 0);

	if (!tensor_of(b, 0, 0, &from) || !tensor_of(b, (uint32_t)o->out, 0, &to) || !same_dims(&from, &to) || to.num_dims < 2 || from.dtype != to.dtype || !diagonal.given)
		return false;
	if (dry)
		return true;
	int64_t width = width_of(to.dtype), height = to.dims[to.num_dims - 2], length = to.dims[to.num_dims - 1];
	int64_t down[2] = {to.strides[to.num_dims - 2], from.strides[to.num_dims - 2]}, right[2] = {to.strides[to.num_dims - 1], from.strides[to.num_dims - 1]};
	to.num_dims -= 2;
	from.num_dims -= 2;
	if (!height || !length)
		return true;
	const tensor *list[] = {&to, &from};
	rows r;
	for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
		for (int64_t m = 0; m < r.length; m++)
			for (int64_t i = 0; i < height; i++)
				for (int64_t k = 0; k < length; k++) {
					char *at = r.at[0] + m * r.step[0] + i * down[0] + k * right[0];
					if (o->kind ? k - i >= diagonal.whole : k - i <= diagonal.whole)
						memmove(at, r.at[1] + m * r.step[1] + i * down[1] + k * right[1], (size_t)width);
					else
						memset(at, 0, (size_t)width);
				}
	return true;
}

/* tensors, dim, out: kind is 1 for tensors that become one along a new dim, 0 for an old one. */
bool stack(const block *b, const operator *o, bool dry)
{
	const aclsim_operator_param *p = param_of(b, 0);
	number at = number_of(b, 1, 0);
	tensor out, t;
	int dim;

	if (!p || !at.given || !tensor_of(b, 2, 0, &out) || !dim_of(&out, at.whole, &dim))
		return false;
	for (int pass = 0; pass < 2 - dry; pass++) {
		int64_t from = 0;
		for (uint32_t k = 0; k < p->count; k++) {
			if (!tensor_of(b, 0, k, &t))
				return false;
			if (!o->kind && t.num_dims == 1 && t.dims[0] == 0 && out.num_dims > 1)
				continue; /* an empty tensor of any shape */
			if (t.num_dims + o->kind != out.num_dims)
				return false;
			int64_t size = o->kind ? 1 : t.dims[dim];
			tensor of[2] = {out};
			of[0].dims[dim] = size;
			of[0].at += from * out.strides[dim];
			tensor wide = t;
			if (o->kind) {
				wide.num_dims++;
				for (int d = out.num_dims - 1; d > dim; d--) {
					wide.dims[d] = t.dims[d - 1];
					wide.strides[d] = t.strides[d - 1];
				}
				wide.dims[dim] = 1;
				wide.strides[dim] = 0;
			}
			if (!same_dims(&of[0], &wide) || (from += size) > out.dims[dim])
				return false;
			of[1] = wide;
			if (pass)
				visit(of, 2, o, NULL, is_real(t.dtype));
		}
		if (from != out.dims[dim])
			return false;
	}
	return true;
}
