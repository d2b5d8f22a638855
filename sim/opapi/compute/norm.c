/* Normalisations of channels, of groups of them, and by the root of the mean square. Means and deviations are sums in 64 bits. */
#include "compute.h"

/* A tensor [items, channels, plane...], and the parameters of its channels. */
typedef struct channels {
	tensor x;
	int64_t items, n, plane;
	double *v; /* elements of x */
} channels;

static bool channels_of(const tensor *x, channels *c)
{
	if (x->num_dims < 2 || !is_real(x->dtype))
		return false;
	*c = (channels){.x = *x, .items = x->dims[0], .n = x->dims[1], .plane = 1};
	for (int d = 2; d < x->num_dims; d++)
		c->plane *= x->dims[d];
	return true;
}

static int64_t per_channel(const channels *c) { return c->items * c->plane; }

/* A parameter with a number for each channel, which may be absent. */
static bool side_of(const block *b, uint32_t param, int64_t n, tensor *t, bool *given)
{
	*given = !is_absent(b, param);
	if (!*given)
		return true;
	if (!tensor_of(b, param, 0, t) || !is_real(t->dtype))
		return false;
	if (count_of(t) == 0 && n)
		*given = false;
	return !*given || count_of(t) == n;
}

/* Reads the numbers of channels, or makes them. NULL if there is no memory. */
static double *side_values(const tensor *t, bool given, int64_t n, double otherwise)
{
	if (given)
		return read_all(t);
	double *v = malloc((size_t)(n + 1) * sizeof *v);
	for (int64_t i = 0; v && i < n; i++)
		v[i] = otherwise;
	return v;
}

/* The sum of a channel of an array that has the dims of x; of squares of differences from a mean if there is one. */
static double channel_sum(const channels *c, const double *v, int64_t k, const double *mean)
{
	double sum = 0;

	for (int64_t i = 0; i < c->items; i++) {
		const double *plane = v + (i * c->n + k) * c->plane;
		sum += mean ? spread_of(plane, c->plane, *mean) : sum_of(plane, c->plane);
	}
	return sum;
}

enum { WEIGHT, BIAS, MEAN_SIDE, SPREAD, NUM_SIDES };

/* input, weight, bias, runningMean, runningVar, training, momentum, eps, output, saveMean, saveInvstd */
bool batch_norm(const block *b, const operator *o, bool dry)
{
	channels c;
	tensor x, out, side[NUM_SIDES], save[2];
	bool given[NUM_SIDES], saved[2], done = true;
	double *v[NUM_SIDES] = {0}, *saves[2] = {0};
	number training = number_of(b, 5, 0), momentum = number_of(b, 6, 0), eps = number_of(b, 7, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &x) || !channels_of(&x, &c) || !tensor_of(b, 8, 0, &out) || !same_dims(&x, &out) || !is_real(out.dtype) || !training.given || !momentum.given || !eps.given)
		return false;
	for (int k = 0; k < NUM_SIDES; k++)
		if (!side_of(b, 1 + (uint32_t)k, c.n, &side[k], &given[k]))
			return false;
	for (int k = 0; k < 2; k++)
		if (!side_of(b, 9 + (uint32_t)k, c.n, &save[k], &saved[k]))
			return false;
	if (!training.whole && (!given[MEAN_SIDE] || !given[SPREAD]))
		return false;
	if (dry)
		return true;
	c.v = read_all(&x);
	for (int k = 0; k < NUM_SIDES; k++)
		done = (v[k] = side_values(&side[k], given[k], c.n, k == WEIGHT || k == SPREAD)) && done;
	for (int k = 0; k < 2; k++)
		done = (saves[k] = calloc((size_t)c.n + 1, sizeof(double))) && done;
	double n = (double)per_channel(&c), rate = momentum.real;
	for (int64_t k = 0; done && c.v && k < c.n; k++) {
		double mean = v[MEAN_SIDE][k], spread = v[SPREAD][k];
		if (training.whole) {
			mean = channel_sum(&c, c.v, k, NULL) / n;
			double squares = channel_sum(&c, c.v, k, &mean);
			spread = squares / n;
			v[MEAN_SIDE][k] = (1 - rate) * v[MEAN_SIDE][k] + rate * mean;
			v[SPREAD][k] = (1 - rate) * v[SPREAD][k] + rate * squares / (n - 1);
		}
		saves[0][k] = mean;
		saves[1][k] = 1 / sqrt(spread + eps.real);
		for (int64_t i = 0; i < c.items; i++) {
			double *plane = c.v + (i * c.n + k) * c.plane;
			for (int64_t j = 0; j < c.plane; j++)
				plane[j] = (plane[j] - mean) * saves[1][k] * v[WEIGHT][k] + v[BIAS][k];
		}
	}
	done = done && c.v;
	if (done)
		write_all(&out, c.v);
	for (int k = 0; done && k < 2; k++) {
		if (training.whole && given[MEAN_SIDE + k])
			write_all(&side[MEAN_SIDE + k], v[MEAN_SIDE + k]);
		if (saved[k])
			write_all(&save[k], saves[k]);
	}
	free(c.v);
	for (int k = 0; k < NUM_SIDES; k++)
		free(v[k]);
	for (int k = 0; k < 2; k++)
		free(saves[k]);
	return done;
}

/* What the gradients of a normalisation are made of: numbers of channels, and the gradient of the result. */
typedef struct norm_gradient {
	double *weight, *mean, *rstd, *grad, *to[3];
	bool training;
} norm_gradient;

static void channel_gradient(const channels *c, const norm_gradient *g, int64_t k)
{
	double n = (double)per_channel(c), mean = g->mean[k], rstd = g->rstd[k], sum = channel_sum(c, g->grad, k, NULL), products = 0, part[ROW];

	for (int64_t i = 0; i < c->items; i++) {
		int64_t at = (i * c->n + k) * c->plane;
		for (int64_t j = 0; j < c->plane; j += ROW) {
			int64_t length = c->plane - j < ROW ? c->plane - j : ROW;
			for (int64_t m = 0; m < length; m++)
				part[m] = g->grad[at + j + m] * (c->v[at + j + m] - mean);
			products += sum_of(part, length);
		}
	}
	for (int64_t i = 0; i < c->items; i++) {
		int64_t at = (i * c->n + k) * c->plane;
		for (int64_t j = at; j < at + c->plane; j++) {
			double less = g->training ? sum / n + (c->v[j] - mean) * rstd * rstd * products / n : 0;
			g->to[0][j] = (g->grad[j] - less) * rstd * g->weight[k];
		}
	}
	g->to[1][k] = products * rstd;
	g->to[2][k] = sum;
}

/*
 * gradOut, input, weight, runningMean, runningVar, saveMean, saveInvstd, training, eps, outputMask, gradInput, gradWeight, gradBias: with the saved
 * numbers in training, else with the running ones
 */
bool batch_norm_backward(const block *b, const operator *o, bool dry)
{
	channels c;
	tensor grad, x, weight, mean, spread, out[3];
	number training = number_of(b, 7, 0), eps = number_of(b, 8, 0);
	bool weighted, has_mean, has_spread, wanted[3], done;

	(void)o;
	if (!tensor_of(b, 0, 0, &grad) || !tensor_of(b, 1, 0, &x) || !same_dims(&grad, &x) || !channels_of(&x, &c) || !is_real(grad.dtype) || !training.given || !eps.given ||
	    !side_of(b, 2, c.n, &weight, &weighted) || !side_of(b, training.whole ? 5 : 3, c.n, &mean, &has_mean) || !side_of(b, training.whole ? 6 : 4, c.n, &spread, &has_spread) ||
	    !has_mean || !has_spread)
		return false;
	for (uint32_t k = 0; k < 3; k++) {
		number mask = number_of(b, 9, k);
		wanted[k] = mask.given && mask.whole && !is_absent(b, 10 + k);
		if (wanted[k] && (!tensor_of(b, 10 + k, 0, &out[k]) || !is_real(out[k].dtype) || (k ? count_of(&out[k]) != c.n : !same_dims(&out[k], &x))))
			return false;
	}
	if (dry)
		return true;
	c.v = read_all(&x);
	norm_gradient g = {.weight = side_values(&weight, weighted, c.n, 1), .mean = read_all(&mean), .rstd = read_all(&spread), .grad = read_all(&grad), .training = training.whole};
	done = c.v && g.weight && g.mean && g.rstd && g.grad;
	for (int k = 0; k < 3; k++)
		done = (g.to[k] = calloc((size_t)(k ? c.n : count_of(&x)) + 1, sizeof(double))) && done;
	for (int64_t k = 0; done && k < c.n; k++) {
		if (!training.whole)
			g.rstd[k] = 1 / sqrt(g.rstd[k] + eps.real);
		channel_gradient(&c, &g, k);
	}
	for (int k = 0; k < 3; k++) {
		if (done && wanted[k])
			write_all(&out[k], g.to[k]);
		free(g.to[k]);
	}
	free(c.v);
	free(g.weight);
	free(g.mean);
	free(g.rstd);
	free(g.grad);
	return done;
}

/* self, gamma, beta, N, C, HxW, group, eps, out, meanOut, rstdOut: channels of an item in groups, each of which has a mean */
bool group_norm(const block *b, const operator *o, bool dry)
{
	tensor x, out, scale[2], side[2];
	number sizes[4], eps = number_of(b, 7, 0);
	bool scaled[2], wanted[2];
	double *scales[2], *sides[2];

	(void)o;
	for (uint32_t k = 0; k < 4; k++) {
		sizes[k] = number_of(b, 3 + k, 0);
		if (!sizes[k].given || sizes[k].whole < (k == 3) || sizes[k].whole > INT32_MAX)
			return false;
	}
	int64_t items = sizes[0].whole, channels = sizes[1].whole, plane = sizes[2].whole, groups = sizes[3].whole, m = items * groups;
	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, 8, 0, &out) || !same_dims(&x, &out) || !is_real(x.dtype) || !is_real(out.dtype) || !eps.given || channels % groups ||
	    (double)items * (double)channels * (double)plane > (double)MAX_COUNT || count_of(&x) != items * channels * plane)
		return false;
	for (uint32_t k = 0; k < 2; k++)
		if (!side_of(b, 1 + k, channels, &scale[k], &scaled[k]) || !side_of(b, 9 + k, m, &side[k], &wanted[k]))
			return false;
	if (dry)
		return true;
	double *v = read_all(&x);
	bool done = v;
	for (int k = 0; k < 2; k++) {
		scales[k] = side_values(&scale[k], scaled[k], channels, k == 0);
		sides[k] = calloc((size_t)m + 1, sizeof(double));
		done = done && scales[k] && sides[k];
	}
	int64_t n = channels / groups * plane;
	for (int64_t i = 0; done && n && i < m; i++) {
		double *group = v + i * n, mean = sum_of(group, n) / (double)n, rstd = 1 / sqrt(spread_of(group, n, mean) / (double)n + eps.real);
		for (int64_t k = 0; k < n; k++) {
			int64_t channel = i % groups * (channels / groups) + k / plane;
			group[k] = (group[k] - mean) * rstd * scales[0][channel] + scales[1][channel];
		}
		sides[0][i] = mean;
		sides[1][i] = rstd;
	}
	if (done)
		write_all(&out, v);
	for (int k = 0; k < 2; k++) {
		if (done && wanted[k])
			write_all(&side[k], sides[k]);
		free(scales[k]);
		free(sides[k]);
	}
	free(v);
	return done;
}

/* x, gamma, epsilon, yOut, rstdOut. kind is 1 for two tensors that are added: x1, x2, gamma, epsilon, yOut, rstdOut, xOut */
bool rms_norm(const block *b, const operator *o, bool dry)
{
	uint32_t k = (uint32_t)o->kind;
	tensor x, other, gamma, out, rstd, sum;
	number eps = number_of(b, 2 + k, 0);
	bool with_rstd = !is_absent(b, 4 + k), with_sum = k && !is_absent(b, 6);
	int64_t n = 1;

	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, k, 0, &other) || !tensor_of(b, 1 + k, 0, &gamma) || !tensor_of(b, 3 + k, 0, &out) || !same_dims(&x, &other) || !same_dims(&x, &out) ||
	    !is_real(x.dtype) || !is_real(out.dtype) || !eps.given || gamma.num_dims > x.num_dims)
		return false;
	for (int d = 1; d <= gamma.num_dims; d++) {
		if (gamma.dims[gamma.num_dims - d] != x.dims[x.num_dims - d])
			return false;
		n *= x.dims[x.num_dims - d];
	}
	int64_t m = n ? count_of(&x) / n : 0;
	if ((with_rstd && (!tensor_of(b, 4 + k, 0, &rstd) || count_of(&rstd) != m)) || (with_sum && (!tensor_of(b, 6, 0, &sum) || !same_dims(&sum, &x))))
		return false;
	if (dry)
		return true;
	double *v = read_all(&x), *more = k ? read_all(&other) : NULL, *scale = read_all(&gamma), *side = calloc((size_t)m + 1, sizeof *side);
	bool done = v && (more || !k) && scale && side;
	for (int64_t i = 0; done && k && i < m * n; i++)
		v[i] += more[i];
	if (done && with_sum)
		write_all(&sum, v);
	for (int64_t i = 0; done && i < m; i++) {
		double *row = v + i * n;
		side[i] = 1 / sqrt(spread_of(row, n, 0) / (double)n + eps.real);
		for (int64_t j = 0; j < n; j++)
			row[j] *= side[i] * scale[j];
	}
	if (done)
		write_all(&out, v);
	if (done && with_rstd)
		write_all(&rstd, side);
	free(v);
	free(more);
	free(scale);
	free(side);
	return done;
}
