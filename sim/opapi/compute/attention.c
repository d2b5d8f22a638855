/*
 * Attention: the softmax of scaled products of queries and keys, by values, and its gradients.
 *
 * Dropout, quantized and paged keys, and packed batches are not computed.
 */
#include "compute.h"

/* Which keys a query sees: those that the mask allows, and by its place those of a band. */
enum { MASK_AND_BAND, MASK_ONLY, CAUSAL, CAUSAL_AT_END, BAND_AT_END };

typedef struct attention {
	tensor q, k, v; /* [batch, heads, length, width] */
	tensor mask, plus; /* [batch, heads, length, keys]; plus is added to the products */
	bool masked, added;
	int64_t batch, heads, key_heads, length, keys, width, value_width, mode, before, after;
	const int64_t *key_lengths; /* of the items; NULL for all keys */
	uint32_t num_lengths;
	double scale, *vq, *vk, *vv;
} attention;

/* Views a tensor of a layout as [batch, heads, length, width]. */
static bool arrange(const tensor *t, const char *layout, int64_t heads, tensor *to)
{
	static const struct {
		const char *name;
		int num_dims, batch, length, heads; /* -1: the last dim has heads and width */
	} layouts[] = {{"BNSD", 4, 0, 2, 1}, {"BSND", 4, 0, 1, 2}, {"BSH", 3, 0, 1, -1}, {"SBH", 3, 1, 0, -1}};

	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
		int h = layouts[i].heads, last = layouts[i].num_dims - 1;
		if (strcmp(layout, layouts[i].name))
			continue;
		if (t->num_dims != last + 1 || heads < 1 || t->dims[last] < 1 || !is_real(t->dtype) || (h < 0 ? t->dims[last] % heads : t->dims[h] != heads))
			return false;
		int64_t width = h < 0 ? t->dims[last] / heads : t->dims[last];
		*to = *t;
		to->num_dims = 4;
		const int from[] = {layouts[i].batch, h, layouts[i].length, last};
		for (int d = 0; d < 4; d++) {
			to->dims[d] = from[d] < 0 ? heads : t->dims[from[d]];
			to->strides[d] = from[d] < 0 ? t->strides[last] * width : t->strides[from[d]];
		}
		to->dims[3] = width;
		return true;
	}
	return false;
}

typedef char name_of_layout[8];

/* Copies a text parameter, which does not end with 0. A longer one is no layout. */
static bool layout_of(const block *b, uint32_t i, name_of_layout to)
{
	const aclsim_operator_param *p = param_of(b, i);

	if (!p || p->null || p->type != 's' || p->count >= sizeof(name_of_layout))
		return false;
	memset(to, 0, sizeof(name_of_layout));
	memcpy(to, (const char *)b + p->value, p->count);
	return true;
}

/* Where a launch has its arguments. */
typedef struct places {
	uint32_t mask, scale, before, after, heads, key_heads, layout, mode, plus; /* plus: 0 for none */
} places;

static bool read_attention(const block *b, const places *at, attention *a)
{
	tensor q, k, v, mask, plus;
	number heads = number_of(b, at->heads, 0), key_heads = {0}, scale = number_of(b, at->scale, 0), mode = number_of(b, at->mode, 0);
	number before = number_of(b, at->before, 0), after = number_of(b, at->after, 0);
	name_of_layout layout;

	if (!tensor_of(b, 0, 0, &q) || !tensor_of(b, 1, 0, &k) || !tensor_of(b, 2, 0, &v) || !layout_of(b, at->layout, layout) || !heads.given || heads.whole < 1 || k.num_dims < 3)
		return false;
	/* Several heads of queries may share one of keys. Their number is an argument, or follows from the width. */
	if (at->key_heads)
		key_heads = number_of(b, at->key_heads, 0);
	if (key_heads.whole == 0 && k.num_dims == 4)
		key_heads.whole = k.dims[strcmp(layout, "BNSD") ? 2 : 1];
	else if (key_heads.whole == 0 && q.dims[2] >= heads.whole)
		key_heads.whole = at->key_heads ? heads.whole : k.dims[2] / (q.dims[2] / heads.whole);
	if (!arrange(&q, layout, heads.whole, &a->q) || !arrange(&k, layout, key_heads.whole, &a->k) || !arrange(&v, layout, key_heads.whole, &a->v) || a->q.dims[0] != a->k.dims[0] ||
	    a->q.dims[0] != a->v.dims[0] || a->q.dims[3] != a->k.dims[3] || a->k.dims[2] != a->v.dims[2] || heads.whole % key_heads.whole)
		return false;
	a->batch = a->q.dims[0];
	a->heads = heads.whole;
	a->key_heads = key_heads.whole;
	a->length = a->q.dims[2];
	a->keys = a->k.dims[2];
	a->width = a->q.dims[3];
	a->value_width = a->v.dims[3];
	a->scale = scale.real;
	a->masked = !is_absent(b, at->mask);
	a->mode = mode.whole;
	a->before = before.given ? before.whole : INT32_MAX;
	a->after = after.given ? after.whole : INT32_MAX;
	if (!scale.given || a->mode < MASK_AND_BAND || a->mode > BAND_AT_END || a->before < -INT32_MAX || a->before > INT32_MAX || a->after < -INT32_MAX || a->after > INT32_MAX ||
	    a->keys > INT32_MAX || a->length > INT32_MAX || (a->mode != MASK_AND_BAND && !a->masked))
		return false;
	const tensor scores = {.num_dims = 4, .dims = {a->batch, a->heads, a->length, a->keys}};
	a->added = at->plus && !is_absent(b, at->plus);
	if (a->added && (!tensor_of(b, at->plus, 0, &plus) || !is_real(plus.dtype) || plus.num_dims != 4 || !spread(&plus, &scores, &a->plus)))
		return false;
	if (a->masked && (!tensor_of(b, at->mask, 0, &mask) || width_of(mask.dtype) != 1))
		return false;
	/* In the other modes the mask is a square that only says that there is one. */
	return !a->masked || a->mode > MASK_ONLY || spread(&mask, &scores, &a->mask);
}

static bool sees(const attention *a, int64_t item, int64_t head, int64_t query, int64_t key)
{
	int64_t end = a->keys - a->length, step = key - query;

	if (a->key_lengths && key >= a->key_lengths[a->num_lengths == 1 ? 0 : item])
		return false;
	if (!a->masked)
		return true;
	if (a->mode <= MASK_ONLY) {
		const int64_t *s = a->mask.strides;
		return !a->mask.at[item * s[0] + head * s[1] + query * s[2] + key * s[3]] && (a->mode == MASK_ONLY || (step >= -a->before && step <= a->after));
	}
	return a->mode == CAUSAL ? step <= 0 : a->mode == CAUSAL_AT_END ? step <= end : step >= end - a->before && step <= end + a->after;
}

static double product(const double *x, const double *y, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i] * y[i];
	return sum;
}

/* The place of a row of queries, or of keys, in [batch, heads, length]. */
static int64_t query_row(const attention *a, int64_t item, int64_t head, int64_t i) { return (item * a->heads + head) * a->length + i; }
static int64_t key_row(const attention *a, int64_t item, int64_t head, int64_t i) { return (item * a->key_heads + head / (a->heads / a->key_heads)) * a->keys + i; }

static double addend_of(const attention *a, int64_t item, int64_t head, int64_t query, int64_t key)
{
	const int64_t *s = a->plus.strides;
	double v = 0;

	if (a->added)
		load_real(&v, a->plus.at + item * s[0] + head * s[1] + query * s[2] + key * s[3], 0, a->plus.dtype, 1);
	return v;
}

/* The softmax of the products of a query. Keys that it does not see have 0; so have all if it sees none. */
static void probabilities(const attention *a, int64_t item, int64_t head, int64_t query, double *p, double *most, double *total)
{
	const double *q = a->vq + query_row(a, item, head, query) * a->width;
	double top = -INFINITY;

	for (int64_t j = 0; j < a->keys; j++) {
		p[j] = -INFINITY;
		if (!sees(a, item, head, query, j))
			continue;
		p[j] = product(q, a->vk + key_row(a, item, head, j) * a->width, a->width) * a->scale + addend_of(a, item, head, query, j);
		top = p[j] > top || p[j] != p[j] ? p[j] : top;
	}
	for (int64_t j = 0; j < a->keys; j++)
		p[j] = p[j] == -INFINITY ? 0 : own_exp(p[j] - top);
	*most = top;
	*total = sum_of(p, a->keys);
	for (int64_t j = 0; j < a->keys; j++)
		p[j] = p[j] == 0 ? 0 : p[j] / *total;
}

static bool read_operands(attention *a)
{
	a->vq = read_all(&a->q);
	a->vk = read_all(&a->k);
	a->vv = read_all(&a->v);
	return a->vq && a->vk && a->vv;
}

static void end(attention *a)
{
	free(a->vq);
	free(a->vk);
	free(a->vv);
}

/* What an attention leaves: the result, and the largest product and the sum of each query. */
typedef struct attention_result {
	double *out, *most, *total;
} attention_result;

static bool attend(attention *a, attention_result *r)
{
	int64_t n = a->batch * a->heads * a->length;
	double *p = malloc((size_t)(a->keys + 1) * sizeof *p);

	r->out = calloc((size_t)(n * a->value_width) + 1, sizeof *r->out);
	r->most = malloc((size_t)(n + 1) * sizeof *r->most);
	r->total = malloc((size_t)(n + 1) * sizeof *r->total);
	bool done = read_operands(a) && p && r->out && r->most && r->total;
	for (int64_t i = 0; done && i < n; i++) {
		int64_t item = i / a->length / a->heads, head = i / a->length % a->heads;
		probabilities(a, item, head, i % a->length, p, &r->most[i], &r->total[i]);
		for (int64_t j = 0; j < a->keys; j++) {
			const double *v = a->vv + key_row(a, item, head, j) * a->value_width;
			for (int64_t k = 0; p[j] != 0 && k < a->value_width; k++)
				r->out[i * a->value_width + k] += p[j] * v[k];
		}
	}
	free(p);
	return done;
}

static void end_result(attention_result *r)
{
	free(r->out);
	free(r->most);
	free(r->total);
}

/* A number for each query, [batch, heads, length, 8 times the same] */
static bool stores_numbers(const attention *a, const tensor *t)
{
	return t->num_dims == 4 && t->dims[0] == a->batch && t->dims[1] == a->heads && t->dims[2] == a->length && is_real(t->dtype);
}

static void store_numbers(const tensor *t, const double *v)
{
	tensor rows_of = *t;
	rows r;

	rows_of.dims[3] = 1;
	const tensor *list[] = {&rows_of};
	for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, v++)
			for (int64_t k = 0; k < t->dims[3]; k++)
				store_real(r.at[0] + i * r.step[0] + k * t->strides[3], 0, t->dtype, v, 1);
}

/* The tensors that would change the products. keepProb 1 is no dropout. */
static bool all_absent(const block *b, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		uint32_t n;
		if (!is_absent(b, i) && !(param_of(b, i)->type == 'I' && (ints_of(b, i, &n), n == 0)))
			return false;
	}
	return true;
}

/*
 * query, key, value, realShift, dropMask, paddingMask, attenMask, prefix, scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout,
 * innerPrecise, sparseMode, softmaxMax, softmaxSum, softmaxOut, attentionOut
 */
bool flash_attention(const block *b, const operator *o, bool dry)
{
	attention a = {0};
	attention_result r = {0};
	tensor out, view, most, total;
	name_of_layout layout;

	(void)o;
	if (!layout_of(b, 13, layout) || !all_absent(b, 3, 6) || !all_absent(b, 7, 8) || number_of(b, 9, 0).real != 1 ||
	    !read_attention(b, &(places){.mask = 6, .scale = 8, .before = 10, .after = 11, .heads = 12, .layout = 13, .mode = 15}, &a) || !tensor_of(b, 19, 0, &out) ||
	    !arrange(&out, layout, a.heads, &view) || view.dims[0] != a.batch || view.dims[2] != a.length || view.dims[3] != a.value_width || !tensor_of(b, 16, 0, &most) ||
	    !tensor_of(b, 17, 0, &total) || !stores_numbers(&a, &most) || !stores_numbers(&a, &total))
		return false;
	if (dry)
		return true;
	bool done = attend(&a, &r);
	if (done) {
		write_all(&view, r.out);
		store_numbers(&most, r.most);
		store_numbers(&total, r.total);
	}
	end(&a);
	end_result(&r);
	return done;
}

/* query, key, value, dy, then as flash_attention from realShift, the results of it, and dq, dk, dv */
bool flash_attention_backward(const block *b, const operator *o, bool dry)
{
	attention a = {0};
	tensor grad, view, out[3], to[3];
	name_of_layout layout;

	(void)o;
	if (!layout_of(b, 18, layout) || !all_absent(b, 4, 7) || !all_absent(b, 12, 13) || number_of(b, 14, 0).real != 1 ||
	    !read_attention(b, &(places){.mask = 7, .scale = 13, .before = 15, .after = 16, .heads = 17, .layout = 18, .mode = 20}, &a) || !tensor_of(b, 3, 0, &grad) ||
	    !arrange(&grad, layout, a.heads, &view) || view.dims[0] != a.batch || view.dims[2] != a.length || view.dims[3] != a.value_width)
		return false;
	const tensor *like[] = {&a.q, &a.k, &a.v};
	for (uint32_t k = 0; k < 3; k++)
		if (!tensor_of(b, 21 + k, 0, &out[k]) || !arrange(&out[k], layout, k ? a.key_heads : a.heads, &to[k]) || !same_dims(&to[k], like[k]))
			return false;
	if (dry)
		return true;
	int64_t n = a.batch * a.heads * a.length;
	double *p = malloc((size_t)(2 * a.keys + 1) * sizeof *p), *g = p + a.keys, *dy = read_all(&view), *d[3], most, total;
	bool done = read_operands(&a) && p && dy;
	for (int k = 0; k < 3; k++)
		done = (d[k] = calloc((size_t)count_of(&to[k]) + 1, sizeof(double))) && done;
	for (int64_t i = 0; done && i < n; i++) {
		int64_t item = i / a.length / a.heads, head = i / a.length % a.heads;
		const double *y = dy + i * a.value_width, *q = a.vq + i * a.width;
		probabilities(&a, item, head, i % a.length, p, &most, &total);
		double sum = 0;
		for (int64_t j = 0; j < a.keys; j++) {
			g[j] = product(y, a.vv + key_row(&a, item, head, j) * a.value_width, a.value_width);
			sum += p[j] * g[j];
		}
		for (int64_t j = 0; j < a.keys; j++) {
			int64_t row = key_row(&a, item, head, j);
			double s = p[j] * (g[j] - sum) * a.scale;
			for (int64_t k = 0; p[j] != 0 && k < a.width; k++) {
				d[0][i * a.width + k] += s * a.vk[row * a.width + k];
				d[1][row * a.width + k] += s * q[k];
			}
			for (int64_t k = 0; p[j] != 0 && k < a.value_width; k++)
				d[2][row * a.value_width + k] += p[j] * y[k];
		}
	}
	for (int k = 0; k < 3; k++) {
		if (done)
			write_all(&to[k], d[k]);
		free(d[k]);
	}
	free(p);
	free(dy);
	end(&a);
	return done;
}

/*
 * query, key, value, pseShift, attenMask, actualSeqLengths, actualSeqLengthsKv, tensors of quantized and paged forms, then numHeads (its place is the kind),
 * scaleValue, preTokens, nextTokens, inputLayout, numKeyValueHeads, sparseMode, innerPrecise, blockSize, antiquantMode, softmaxLseFlag, ..., out, lse
 */
bool infer_attention(const block *b, const operator *o, bool dry)
{
	attention a = {0};
	attention_result r = {0};
	tensor out, view;
	uint32_t n = (uint32_t)o->kind, num;
	const aclsim_operator_param *keys = param_of(b, 1);
	const int64_t *lengths;
	name_of_layout layout;

	if (!layout_of(b, n + 4, layout) || !keys || keys->null || keys->count != 1 || !all_absent(b, 7, n) || number_of(b, n + 10, 0).whole ||
	    !read_attention(b, &(places){.mask = 4, .scale = n + 1, .before = n + 2, .after = n + 3, .heads = n, .layout = n + 4, .key_heads = n + 5, .mode = n + 6, .plus = 3}, &a) ||
	    !tensor_of(b, (uint32_t)o->out, 0, &out) || !arrange(&out, layout, a.heads, &view) || view.dims[0] != a.batch || view.dims[2] != a.length || view.dims[3] != a.value_width)
		return false;
	/* Queries behind the length of an item have no result. */
	lengths = ints_of(b, 5, &num);
	for (uint32_t i = 0; i < num; i++)
		if (lengths[i] < a.length)
			return false;
	a.key_lengths = ints_of(b, 6, &num);
	a.num_lengths = num;
	if (!num)
		a.key_lengths = NULL;
	else if (num != 1 && num != a.batch)
		return false;
	if (dry)
		return true;
	bool done = attend(&a, &r);
	if (done)
		write_all(&view, r.out);
	end(&a);
	end_result(&r);
	return done;
}

/* x, cos, sin, mode, [rotate,] out: mode 0 turns halves of the last dim, mode 1 pairs */
bool rotary(const block *b, const operator *o, bool dry)
{
	tensor x, out, side[2];
	number mode = number_of(b, 3, 0);

	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, (uint32_t)o->out, 0, &out) || !mode.given || mode.whole < 0 || mode.whole > 1 || x.num_dims < 1 || !same_dims(&x, &out) ||
	    !is_real(x.dtype) || x.dtype != out.dtype || (o->out == 5 && !is_absent(b, 4)) || x.dims[x.num_dims - 1] % 2)
		return false;
	for (uint32_t k = 0; k < 2; k++) {
		tensor t;
		if (!tensor_of(b, 1 + k, 0, &t) || !is_real(t.dtype) || t.num_dims != x.num_dims || t.dims[t.num_dims - 1] != x.dims[x.num_dims - 1] || !spread(&t, &x, &side[k]))
			return false;
	}
	if (dry)
		return true;
	int64_t width = x.dims[x.num_dims - 1], half = width / 2, n = width ? count_of(&x) / width : 0;
	double *v = read_all(&x), *c = read_all(&side[0]), *s = read_all(&side[1]), *to = malloc((size_t)(n * width + 1) * sizeof *to);
	bool done = v && c && s && to;
	for (int64_t i = 0; done && i < n * width; i++) {
		int64_t k = i % width;
		double turned = mode.whole ? k % 2 ? v[i - 1] : -v[i + 1] : k < half ? -v[i + half] : v[i - half];
		to[i] = v[i] * c[i] + turned * s[i];
	}
	if (done)
		write_all(&out, to);
	free(v);
	free(c);
	free(s);
	free(to);
	return done;
}
