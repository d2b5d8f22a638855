/* Losses of elements and targets, and the check of scaled gradients. */
#include "compute.h"

/* gradOutput, self, target, reduction, out: 1 is the mean */
bool mse_loss_backward(const block *b, const operator *o, bool dry)
{
	operator each = *o;
	tensor self;
	number reduction = number_of(b, 3, 0);

	if (!tensor_of(b, 1, 0, &self) || !reduction.given || reduction.whole < 0 || reduction.whole > 2)
		return false;
	number factor = {.real = 2 / (reduction.whole == 1 ? (double)count_of(&self) : 1), .is_real = true, .given = true};
	return elements(b, &each, &factor, dry);
}

/* self, target, weight, posWeight, reduction, out: 0 none, 1 the mean, 2 the sum */
bool bce_with_logits(const block *b, const operator *o, bool dry)
{
	tensor t[4], out, like;
	number reduction = number_of(b, 4, 0);
	static const number one = {.real = 1};

	(void)o;
	if (!tensor_of(b, 0, 0, &like) || !tensor_of(b, 5, 0, &out) || !reduction.given || reduction.whole < 0 || reduction.whole > 2 || !is_real(like.dtype) ||
	    (reduction.whole ? count_of(&out) != 1 : !same_dims(&out, &like)))
		return false;
	for (uint32_t k = 0; k < 4; k++) {
		tensor x = {.at = (char *)(uintptr_t)&one.real, .dtype = F64};
		if ((k < 2 || !is_absent(b, k)) && !tensor_of(b, k, 0, &x))
			return false;
		if (!spread(&x, &like, &t[k]))
			return false;
	}
	if (dry)
		return true;
	int64_t n = count_of(&like), at = 0;
	double *all = malloc((size_t)(n + 1) * sizeof *all);
	if (!all)
		return false;
	const tensor *list[] = {&t[0], &t[1], &t[2], &t[3]};
	rows r;
	for (rows_begin(&r, 4, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, at++) {
			double v[4];
			for (int k = 0; k < 4; k++)
				load_real(&v[k], r.at[k] + i * r.step[k], 0, t[k].dtype, 1);
			double x = v[0], more = 1 + (v[3] - 1) * v[1];
			all[at] = v[2] * ((1 - v[1]) * x + more * (own_log(1 + own_exp(-fabs(x))) + (x < 0 ? -x : 0)));
		}
	if (reduction.whole) {
		double sum = sum_of(all, n);
		sum = reduction.whole == 1 ? sum / (double)n : sum;
		store_real(out.at, 0, out.dtype, &sum, 1);
	} else {
		write_all(&out, all);
	}
	free(all);
	return true;
}

/* gradOutput, self, target, weight, posWeight, reduction, out */
bool bce_with_logits_backward(const block *b, const operator *o, bool dry)
{
	static const number one = {.real = 1};
	tensor t[5], out;
	number reduction = number_of(b, 5, 0);

	(void)o;
	if (!tensor_of(b, 6, 0, &out) || !reduction.given || reduction.whole < 0 || reduction.whole > 2 || !is_real(out.dtype))
		return false;
	for (uint32_t k = 0; k < 5; k++) {
		tensor x = {.at = (char *)(uintptr_t)&one.real, .dtype = F64};
		if (((k < 3 || !is_absent(b, k)) && !tensor_of(b, k, 0, &x)) || !spread(&x, &out, &t[k]))
			return false;
	}
	if (dry)
		return true;
	int64_t at = 0;
	double n = reduction.whole == 1 ? (double)count_of(&out) : 1, *all = malloc((size_t)(count_of(&out) + 1) * sizeof *all);
	const tensor *list[] = {&t[0], &t[1], &t[2], &t[3], &t[4]};
	rows r;
	if (!all)
		return false;
	for (rows_begin(&r, 5, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, at++) {
			double v[5];
			for (int k = 0; k < 5; k++)
				load_real(&v[k], r.at[k] + i * r.step[k], 0, t[k].dtype, 1);
			double more = v[4] * v[2];
			all[at] = v[0] / n * v[3] * ((more + 1 - v[2]) * own_sigmoid(v[1]) - more);
		}
	write_all(&out, all);
	free(all);
	return true;
}

/* scaledGrads, foundInf, invScale: foundInf becomes 1 if a gradient is not finite. */
bool unscale(const block *b, const operator *o, bool dry)
{
	const aclsim_operator_param *p = param_of(b, 0);
	tensor found, t;
	number by = number_of(b, 2, 0);
	double bad = 0;

	(void)o;
	if (!p || !tensor_of(b, 1, 0, &found) || count_of(&found) != 1 || !by.given)
		return false;
	for (int pass = 0; pass < 2 - dry; pass++)
		for (uint32_t k = 0; k < p->count; k++) {
			if (!tensor_of(b, 0, k, &t) || !is_real(t.dtype))
				return false;
			const tensor *list[] = {&t};
			rows r;
			if (!pass)
				continue;
			for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
				for (int64_t i = 0; i < r.length; i++) {
					double v;
					load_real(&v, r.at[0] + i * r.step[0], 0, t.dtype, 1);
					bad = isfinite(v) ? bad : 1;
					v *= by.real;
					store_real(r.at[0] + i * r.step[0], 0, t.dtype, &v, 1);
				}
		}
	if (!dry && bad)
		store_real(found.at, 0, found.dtype, &bad, 1);
	return true;
}

/* features, labels, loss, backprop: rows of features, and the probabilities that they should have */
bool softmax_loss(const block *b, const operator *o, bool dry)
{
	tensor t[4];

	(void)o;
	for (uint32_t k = 0; k < 4; k++)
		if (!tensor_of(b, k, 0, &t[k]) || !is_real(t[k].dtype))
			return false;
	if (t[0].num_dims != 2 || !same_dims(&t[0], &t[1]) || !same_dims(&t[0], &t[3]) || t[2].num_dims != 1 || t[2].dims[0] != t[0].dims[0])
		return false;
	if (dry)
		return true;
	int64_t m = t[0].dims[0], n = t[0].dims[1];
	double *x = read_all(&t[0]), *labels = read_all(&t[1]), *loss = calloc((size_t)m + 1, sizeof *loss), *part = calloc((size_t)n + 1, sizeof *part);
	bool done = x && labels && loss && part;
	for (int64_t i = 0; done && i < m; i++) {
		double *row = x + i * n, *label = labels + i * n, most = -INFINITY;
		for (int64_t k = 0; k < n; k++)
			most = row[k] > most || row[k] != row[k] ? row[k] : most;
		for (int64_t k = 0; k < n; k++)
			part[k] = own_exp(row[k] - most);
		double total = sum_of(part, n), shift = most + own_log(total);
		for (int64_t k = 0; k < n; k++) {
			double probability = part[k] / total;
			part[k] = label[k] != 0 ? label[k] * (shift - row[k]) : 0;
			row[k] = probability - label[k];
		}
		loss[i] = sum_of(part, n);
	}
	if (done) {
		write_all(&t[2], loss);
		write_all(&t[3], x);
	}
	free(x);
	free(labels);
	free(loss);
	free(part);
	return done;
}
