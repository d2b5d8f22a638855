/* Halves of a tensor of which one is the gate of the other. */
#include "compute.h"

/*
 * Parameters: x, dim, and more. The result is half of x along the dim. scalars names the parameter that chooses the gate's half; then a second
 * result receives the gate. If it is NULL, the gate is the first half, and there is one result.
 */
bool gated(const block *b, const operator *o, bool dry)
{
	tensor x, of[4]; /* the result, both halves, the gate */
	number at = number_of(b, 1, 0), first = {.whole = 1};
	int dim, n = 3;

	if (!tensor_of(b, 0, 0, &x) || !x.num_dims || !is_real(x.dtype) || !at.given || !dim_of(&x, at.whole, &dim) || !tensor_of(b, (uint32_t)o->out, 0, &of[0]) || of[0].dtype != x.dtype)
		return false;
	if (o->scalars) {
		first = number_of(b, (uint32_t)(o->scalars[0] - '0'), 0);
		if (!first.given || !tensor_of(b, (uint32_t)o->out + 1, 0, &of[n++]) || !same_dims(&of[0], &of[3]) || of[3].dtype != x.dtype)
			return false;
	}
	of[1] = x;
	of[1].dims[dim] /= 2;
	of[2] = of[1];
	of[2].at += of[1].dims[dim] * x.strides[dim];
	if (x.dims[dim] % 2 || !same_dims(&of[0], &of[1]))
		return false;
	const tensor *list[] = {&of[0], &of[first.whole ? 1 : 2], &of[first.whole ? 2 : 1], &of[3]};
	rows r;
	for (rows_begin(&r, n, list); !dry && !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i += ROW) {
			int64_t length = r.length - i < ROW ? r.length - i : ROW;
			double v[2][ROW], gates[ROW], *in[] = {v[0]};
			for (int k = 0; k < 2; k++)
				load_real(v[k], r.at[1 + k] + i * r.step[1 + k], r.step[1 + k], x.dtype, length);
			o->real(gates, in, NULL, length);
			if (n > 3)
				store_real(r.at[3] + i * r.step[3], r.step[3], x.dtype, gates, length);
			for (int64_t k = 0; k < length; k++)
				v[1][k] *= gates[k];
			store_real(r.at[0] + i * r.step[0], r.step[0], x.dtype, v[1], length);
		}
	return true;
}
