/*
 * Random numbers. The stream is the simulator's own: an element depends on the seed, the offset and its place, and is the same on every processor.
 */
#include "compute.h"

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

typedef struct stream {
	uint64_t key;
} stream;

static uint64_t bits_at(const stream *s, uint64_t i) { return mix(s->key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15)); }

/* A number from 0 to 1, with as many bits as a significand of the type has, so that it is below 1 when it is stored. */
static double unit_at(const stream *s, uint64_t i, int32_t dtype)
{
	int bits = dtype == F16 ? 11 : dtype == BF16 ? 8 : dtype == F64 ? 53 : 24;

	return ldexp((double)(bits_at(s, i) >> (64 - bits)), -bits);
}

/* seed and offset, or a tensor with each and an offset that is added */
static bool stream_of(const block *b, uint32_t seed, bool tensors, stream *s)
{
	number n[3] = {number_of(b, seed, 0), number_of(b, seed + 1, 0), {.given = true}};

	if (tensors)
		n[2] = number_of(b, seed + 2, 0);
	if (!n[0].given || !n[1].given || !n[2].given || n[0].is_real || n[1].is_real)
		return false;
	s->key = mix(mix((uint64_t)n[0].whole + 1) ^ ((uint64_t)n[1].whole + (uint64_t)n[2].whole));
	return true;
}

static const double TWO_PI = 0x1.921fb54442d18p+2;

/* selfRef, two numbers (from and to, or mean and deviation), seed, offset; or tensors with them and an offset. */
bool random_fill(const block *b, const operator *o, bool dry)
{
	bool tensors = o->kind >= OF_TENSORS;
	number low = number_of(b, 1, 0), high = number_of(b, 2, 0);
	tensor t;
	stream s;

	if (!tensor_of(b, 0, 0, &t) || !low.given || !high.given || !stream_of(b, 3, tensors, &s) || (o->kind % OF_TENSORS == WHOLE_NUMBERS && high.whole <= low.whole) ||
	    (o->kind % OF_TENSORS != WHOLE_NUMBERS && !is_real(t.dtype)))
		return false;
	if (dry)
		return true;
	const tensor *list[] = {&t};
	uint64_t at = 0, range = (uint64_t)high.whole - (uint64_t)low.whole;
	rows r;
	for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, at++) {
			char *to = r.at[0] + i * r.step[0];
			double v = 0;
			int64_t whole;
			switch (o->kind % OF_TENSORS) {
			case WHOLE_NUMBERS:
				whole = (int64_t)((uint64_t)low.whole + bits_at(&s, at) % range);
				store_whole(to, 0, t.dtype, &whole, 1);
				continue;
			case UNIFORM:
				v = low.real + unit_at(&s, at, t.dtype) * (high.real - low.real);
				break;
			case NORMAL:
				v = sqrt(-2 * own_log(1 - unit_at(&s, 2 * at, F64))) * own_cos(TWO_PI * unit_at(&s, 2 * at + 1, F64));
				v = low.real + v * high.real;
			}
			store_real(to, 0, t.dtype, &v, 1);
		}
	return true;
}

/* selfRef, prob, seed, offset */
bool bernoulli(const block *b, const operator *o, bool dry)
{
	tensor t, prob, wide;
	stream s;
	number p = number_of(b, 1, 0);
	bool each = !p.given;

	(void)o;
	if (!tensor_of(b, 0, 0, &t) || !stream_of(b, 2, false, &s) || (each && (!tensor_of(b, 1, 0, &prob) || !spread(&prob, &t, &wide))))
		return false;
	if (dry)
		return true;
	const tensor *list[] = {&t, each ? &wide : &t};
	uint64_t at = 0;
	rows r;
	for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, at++) {
			if (each)
				load_real(&p.real, r.at[1] + i * r.step[1], 0, prob.dtype, 1);
			int64_t v = unit_at(&s, at, F64) < p.real;
			store_whole(r.at[0] + i * r.step[0], 0, t.dtype, &v, 1);
		}
	return true;
}

/* shape, prob, seed and offset (or tensors), probDataType, out: a bit is 1, with 1 - prob, for an element that is kept. */
bool dropout_mask(const block *b, const operator *o, bool dry)
{
	tensor out;
	stream s;
	number p = number_of(b, 1, 0);

	if (!p.given || !stream_of(b, 2, o->kind, &s) || !tensor_of(b, o->kind ? 6 : 5, 0, &out) || out.dtype != U8 || out.num_dims != 1)
		return false;
	for (int64_t i = 0; !dry && i < out.dims[0]; i++) {
		uint8_t bits = 0;
		for (int k = 0; k < 8; k++)
			bits = (uint8_t)(bits | (unit_at(&s, (uint64_t)(8 * i + k), F64) >= p.real) << k);
		memcpy(out.at + i * out.strides[0], &bits, 1);
	}
	return true;
}

/* self, mask, prob, out: elements whose bit is 1, by 1 - prob */
bool dropout(const block *b, const operator *o, bool dry)
{
	tensor x, mask, out;
	number p = number_of(b, 2, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, 1, 0, &mask) || !tensor_of(b, 3, 0, &out) || !p.given || !same_dims(&x, &out) || !is_real(x.dtype) || mask.dtype != U8 ||
	    mask.num_dims != 1 || mask.dims[0] * 8 < count_of(&x))
		return false;
	if (dry)
		return true;
	const tensor *list[] = {&out, &x};
	int64_t at = 0;
	rows r;
	for (rows_begin(&r, 2, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, at++) {
			double v;
			load_real(&v, r.at[1] + i * r.step[1], 0, x.dtype, 1);
			v = (uint8_t)mask.at[at / 8 * mask.strides[0]] >> at % 8 & 1 ? v / (1 - p.real) : 0;
			store_real(r.at[0] + i * r.step[0], 0, out.dtype, &v, 1);
		}
	return true;
}

/* draw picks a place by weights, whose sum is above 0. */
static int64_t draw(const double *weights, int64_t n, double sum, double at)
{
	int64_t last = 0;

	at *= sum;
	for (int64_t i = 0; i < n; i++) {
		if (weights[i] <= 0)
			continue;
		last = i;
		if ((at -= weights[i]) < 0)
			break;
	}
	return last;
}

/* self, numsamples, replacement, seed and offset (or tensors), out */
bool multinomial(const block *b, const operator *o, bool dry)
{
	tensor x, out;
	stream s;
	number samples = number_of(b, 1, 0), again = number_of(b, 2, 0);

	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, o->kind ? 6 : 5, 0, &out) || !stream_of(b, 3, o->kind, &s) || !samples.given || !again.given || !is_real(x.dtype) ||
	    x.num_dims < 1 || x.num_dims > 2 || out.num_dims != x.num_dims || is_real(out.dtype))
		return false;
	int64_t n = x.dims[x.num_dims - 1], lines = x.num_dims == 2 ? x.dims[0] : 1, wanted = out.dims[out.num_dims - 1];
	if (wanted != samples.whole || (out.num_dims == 2 && out.dims[0] != lines) || (!again.whole && wanted > n))
		return false;
	if (dry)
		return true;
	double *all = read_all(&x);
	int64_t *picks = malloc((size_t)(lines * wanted + 1) * sizeof *picks);
	bool done = all && picks;
	for (int64_t i = 0; done && i < lines * wanted; i++) {
		double *weights = all + i / wanted * n, sum = sum_of(weights, n);
		done = sum > 0 && sum < INFINITY;
		picks[i] = done ? draw(weights, n, sum, unit_at(&s, (uint64_t)i, F64)) : 0;
		if (done && !again.whole)
			weights[picks[i]] = 0;
	}
	const int64_t *from = picks;
	const tensor *list[] = {&out};
	rows r;
	if (done)
		for (rows_begin(&r, 1, list); !r.done; rows_next(&r), from += r.length)
			store_whole(r.at[0], r.step[0], out.dtype, from, r.length);
	free(all);
	free(picks);
	return done;
}
