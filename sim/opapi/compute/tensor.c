/* Tensors of argument blocks, their elements, and loops over them. */
#include "compute.h"

#include "../../kernels/half.h"

const aclsim_operator_param *param_of(const block *b, uint32_t i)
{
	return i < b->num_params ? (const aclsim_operator_param *)((const char *)b + b->params) + i : NULL;
}

static bool holds_tensors(const aclsim_operator_param *p) { return p && !p->null && strchr("TtLl", p->type); }

bool is_absent(const block *b, uint32_t i)
{
	const aclsim_operator_param *p = param_of(b, i);

	return !p || p->null;
}

int64_t width_of(int32_t dtype)
{
	switch (dtype) {
	case F64:
	case I64:
		return 8;
	case F32:
	case I32:
		return 4;
	case F16:
	case BF16:
	case I16:
		return 2;
	case I8:
	case U8:
	case BOOL:
		return 1;
	}
	return 0;
}

bool is_real(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16 || dtype == F64; }

/* Formats without blocks, in which channels are the second dim: ND, NCHW, NCDHW and NCL. */
static bool is_plain(int32_t format) { return format == -1 || format == 0 || format == 2 || format == 30 || format == 47; }

bool tensor_of(const block *b, uint32_t i, uint32_t k, tensor *t)
{
	const aclsim_operator_param *p = param_of(b, i);

	if (!holds_tensors(p) || k >= p->count)
		return false;
	const aclsim_operator_tensor *x = (const aclsim_operator_tensor *)((const char *)b + b->tensors) + p->value + k;
	int64_t width = width_of(x->dtype);
	if (x->flags & ACLSIM_OPERATOR_ABSENT || !width || x->num_dims > MAX_DIMS || !is_plain(x->format))
		return false;
	*t = (tensor){.at = (char *)(uintptr_t)x->base, .dtype = (int32_t)x->dtype, .num_dims = x->num_dims};
	const int64_t *dims = (const int64_t *)((const char *)b + x->dims);
	int64_t count = 1;
	bool empty = false;
	for (int d = 0; d < x->num_dims; d++) {
		t->dims[d] = dims[d];
		empty = empty || dims[d] == 0;
		if (dims[d] > MAX_COUNT || count > MAX_COUNT / (dims[d] ? dims[d] : 1))
			return false;
		count *= dims[d] ? dims[d] : 1;
	}
	if (empty) /* its offset and strides may have any value */
		return true;
	t->at += x->offset * width;
	for (int d = 0; d < x->num_dims; d++)
		t->strides[d] = dims[d] > 1 ? dims[x->num_dims + d] * width : 0;
	return true;
}

int64_t count_of(const tensor *t)
{
	int64_t n = 1;

	for (int d = 0; d < t->num_dims; d++)
		n *= t->dims[d];
	return n;
}

bool same_dims(const tensor *a, const tensor *b)
{
	return a->num_dims == b->num_dims && !memcmp(a->dims, b->dims, (size_t)a->num_dims * sizeof *a->dims);
}

tensor with_dims(const tensor *t, int num_dims)
{
	tensor out = *t;
	int more = num_dims - t->num_dims;

	out.num_dims = num_dims;
	for (int d = 0; d < num_dims; d++) {
		out.dims[d] = d < more ? 1 : t->dims[d - more];
		out.strides[d] = d < more ? 0 : t->strides[d - more];
	}
	return out;
}

void squeeze(tensor *t, int dim)
{
	for (int d = dim; d + 1 < t->num_dims; d++) {
		t->dims[d] = t->dims[d + 1];
		t->strides[d] = t->strides[d + 1];
	}
	t->num_dims--;
}

bool spread(const tensor *t, const tensor *to, tensor *out)
{
	if (t->num_dims > to->num_dims)
		return false;
	*out = with_dims(t, to->num_dims);
	for (int d = 0; d < to->num_dims; d++) {
		if (out->dims[d] != to->dims[d] && out->dims[d] != 1)
			return false;
		if (out->dims[d] != to->dims[d]) {
			out->dims[d] = to->dims[d];
			out->strides[d] = 0;
		}
	}
	return true;
}

bool dim_of(const tensor *t, int64_t i, int *dim)
{
	int n = t->num_dims ? t->num_dims : 1; /* a number has one dim here */

	if (i < 0)
		i += n;
	*dim = (int)i;
	return i >= 0 && i < n;
}

#define LOAD(type, value)                                 \
	for (int64_t i = 0; i < n; i++, from += stride) { \
		type v;                                   \
		memcpy(&v, from, sizeof v);               \
		to[i] = value;                            \
	}                                                 \
	return

void load_real(double *to, const char *from, int64_t stride, int32_t dtype, int64_t n)
{
	switch (dtype) {
	case F32:
		LOAD(float, (double)v);
	case F64:
		LOAD(double, v);
	case F16:
		LOAD(uint16_t, (double)from_f16(v));
	case BF16:
		LOAD(uint16_t, (double)from_bf16(v));
	case I64:
		LOAD(int64_t, (double)v);
	case I32:
		LOAD(int32_t, (double)v);
	case I16:
		LOAD(int16_t, (double)v);
	case I8:
		LOAD(int8_t, (double)v);
	case U8:
		LOAD(uint8_t, (double)v);
	case BOOL:
		LOAD(uint8_t, v ? 1 : 0);
	}
}

void load_floats(float *to, const char *from, int64_t stride, int32_t dtype, int64_t n)
{
	double part[ROW];

	switch (dtype) {
	case F32:
		LOAD(float, v);
	case F16:
		LOAD(uint16_t, from_f16(v));
	case BF16:
		LOAD(uint16_t, from_bf16(v));
	}
	for (int64_t i = 0; i < n; i += ROW) {
		int64_t length = n - i < ROW ? n - i : ROW;
		load_real(part, from + i * stride, stride, dtype, length);
		for (int64_t k = 0; k < length; k++)
			to[i + k] = (float)part[k];
	}
}

/* The whole part of a real number. Numbers out of range become the nearest one in it, and NaN 0. */
static int64_t whole_of(double v) { return v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v; }

void load_whole(int64_t *to, const char *from, int64_t stride, int32_t dtype, int64_t n)
{
	switch (dtype) {
	case I64:
		LOAD(int64_t, v);
	case I32:
		LOAD(int32_t, v);
	case I16:
		LOAD(int16_t, v);
	case I8:
		LOAD(int8_t, v);
	case U8:
		LOAD(uint8_t, v);
	case BOOL:
		LOAD(uint8_t, v ? 1 : 0);
	case F32:
		LOAD(float, whole_of((double)v));
	case F64:
		LOAD(double, whole_of(v));
	case F16:
		LOAD(uint16_t, whole_of((double)from_f16(v)));
	case BF16:
		LOAD(uint16_t, whole_of((double)from_bf16(v)));
	}
}

#define STORE(type, value)                              \
	for (int64_t i = 0; i < n; i++, to += stride) { \
		type v = value;                         \
		memcpy(to, &v, sizeof v);               \
	}                                               \
	return

/* Processors make NaNs of different signs. */
static double canonical(double v) { return v != v ? (double)NAN : v; }

void store_real(char *to, int64_t stride, int32_t dtype, const double *from, int64_t n)
{
	switch (dtype) {
	case F32:
		STORE(float, (float)canonical(from[i]));
	case F64:
		STORE(double, canonical(from[i]));
	case F16:
		STORE(uint16_t, to_f16((float)canonical(from[i])));
	case BF16:
		STORE(uint16_t, to_bf16((float)canonical(from[i])));
	case I64:
		STORE(int64_t, whole_of(from[i]));
	case I32:
		STORE(int32_t, (int32_t)whole_of(from[i]));
	case I16:
		STORE(int16_t, (int16_t)whole_of(from[i]));
	case I8:
		STORE(int8_t, (int8_t)whole_of(from[i]));
	case U8:
		STORE(uint8_t, (uint8_t)whole_of(from[i]));
	case BOOL:
		STORE(uint8_t, from[i] != 0);
	}
}

void store_whole(char *to, int64_t stride, int32_t dtype, const int64_t *from, int64_t n)
{
	switch (dtype) {
	case I64:
		STORE(int64_t, from[i]);
	case I32:
		STORE(int32_t, (int32_t)from[i]);
	case I16:
		STORE(int16_t, (int16_t)from[i]);
	case I8:
		STORE(int8_t, (int8_t)from[i]);
	case U8:
		STORE(uint8_t, (uint8_t)from[i]);
	case BOOL:
		STORE(uint8_t, from[i] != 0);
	case F32:
		STORE(float, (float)from[i]);
	case F64:
		STORE(double, (double)from[i]);
	case F16:
		STORE(uint16_t, to_f16((float)from[i]));
	case BF16:
		STORE(uint16_t, to_bf16((float)from[i]));
	}
}

static number number_at(const char *at, int32_t dtype)
{
	number v = {.is_real = is_real(dtype), .given = width_of(dtype) > 0};

	load_real(&v.real, at, 0, dtype, v.given);
	load_whole(&v.whole, at, 0, dtype, v.given);
	return v;
}

number number_of(const block *b, uint32_t i, uint32_t k)
{
	const aclsim_operator_param *p = param_of(b, i);
	number none = {0};
	tensor t;

	if (!p || p->null)
		return none;
	const char *at = (const char *)b + p->value;
	switch (p->type) {
	case 'T':
	case 't':
		return tensor_of(b, i, 0, &t) && count_of(&t) == 1 ? number_at(t.at, t.dtype) : none;
	case 'S':
	case 'A': {
		if (k >= p->count)
			return none;
		const aclsim_operator_scalar *s = (const aclsim_operator_scalar *)at + k;
		return number_at((const char *)s->value, (int32_t)s->dtype);
	}
	case 'F':
		return k < p->count ? number_at(at + k * sizeof(float), F32) : none;
	case 'I':
		return k < p->count ? number_at(at + k * sizeof(int64_t), I64) : none;
	case 'B':
		return k < p->count ? number_at(at + k, BOOL) : none;
	case 'd':
	case 'f':
		return number_at(at, F64);
	case 'i':
	case 'u':
	case 'j':
	case 'h':
	case 'c':
	case 'b':
		return number_at(at, I64);
	}
	return none;
}

const int64_t *ints_of(const block *b, uint32_t i, uint32_t *n)
{
	const aclsim_operator_param *p = param_of(b, i);

	*n = 0;
	if (!p || p->null || p->type != 'I')
		return NULL;
	*n = p->count;
	return (const int64_t *)((const char *)b + p->value);
}

void rows_begin(rows *r, int n, const tensor *const *of)
{
	*r = (rows){.n = n, .length = 1};
	for (int k = 0; k < n; k++)
		r->at[k] = of[k]->at;
	for (int d = 0; d < of[0]->num_dims; d++) {
		int64_t size = of[0]->dims[d];
		if (size == 0)
			r->done = true;
		if (size == 1)
			continue;
		int last = r->num_dims - 1;
		bool joins = last >= 0;
		for (int k = 0; joins && k < n; k++)
			joins = r->strides[k][last] == of[k]->strides[d] * size;
		if (!joins)
			last = r->num_dims++;
		r->dims[last] = joins ? r->dims[last] * size : size;
		for (int k = 0; k < n; k++)
			r->strides[k][last] = of[k]->strides[d];
	}
	if (r->num_dims > 0) {
		r->num_dims--; /* the last one is the row */
		r->length = r->dims[r->num_dims];
		for (int k = 0; k < n; k++)
			r->step[k] = r->strides[k][r->num_dims];
	}
}

void rows_next(rows *r)
{
	for (int d = r->num_dims - 1; d >= 0; d--) {
		if (++r->index[d] < r->dims[d]) {
			for (int k = 0; k < r->n; k++)
				r->at[k] += r->strides[k][d];
			return;
		}
		for (int k = 0; k < r->n; k++)
			r->at[k] -= r->strides[k][d] * (r->dims[d] - 1);
		r->index[d] = 0;
	}
	r->done = true;
}

double sum_of(const double *v, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i += ROW) {
		double lanes[8] = {0};
		int64_t end = n - i < ROW ? n : i + ROW, k = i;
		for (; k + 8 <= end; k += 8)
			for (int j = 0; j < 8; j++)
				lanes[j] += v[k + j];
		for (int j = 0; k < end; j++, k++)
			lanes[j] += v[k];
		sum += ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
	}
	return sum;
}

double *read_all(const tensor *t)
{
	rows r;
	double *all = malloc((size_t)(count_of(t) + 1) * sizeof *all), *to = all;

	if (!all)
		return NULL;
	for (rows_begin(&r, 1, &t); !r.done; rows_next(&r), to += r.length)
		load_real(to, r.at[0], r.step[0], t->dtype, r.length);
	return all;
}

void write_all(const tensor *t, const double *v)
{
	rows r;

	for (rows_begin(&r, 1, &t); !r.done; rows_next(&r), v += r.length)
		store_real(r.at[0], r.step[0], t->dtype, v, r.length);
}

void add_element(char *to, const char *from, int32_t dtype, const number *factor)
{
	double v[2] = {0};
	int64_t w[2] = {0};

	if (is_real(dtype)) {
		load_real(&v[0], to, 0, dtype, 1);
		load_real(&v[1], from, 0, dtype, 1);
		v[0] += factor->real * v[1];
		store_real(to, 0, dtype, v, 1);
	} else {
		load_whole(&w[0], to, 0, dtype, 1);
		load_whole(&w[1], from, 0, dtype, 1);
		w[0] = (int64_t)((uint64_t)w[0] + (uint64_t)factor->whole * (uint64_t)w[1]);
		store_whole(to, 0, dtype, w, 1);
	}
}
