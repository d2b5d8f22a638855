/*
 * Recurrent layers, LSTM and GRU, in one direction or both, without packed batches. Weights have the gates i, f, g, o, or r, z, n, one below the other.
 * The gradients compute the gates again, in 64 bits.
 */
#include "compute.h"

enum { INPUT_WEIGHT, STATE_WEIGHT, INPUT_BIAS, STATE_BIAS, NUM_PARAMS, LSTM_GATES = 4, GRU_GATES = 3 };

/* One direction of one layer. */
typedef struct layer {
	int64_t gates, steps, batch, in, width;
	bool biased, reverse;
	tensor params[NUM_PARAMS];
	const double *x; /* [steps, batch, in] */
	double *vp[NUM_PARAMS];
	/* All are [steps, batch, ...], in the order of the steps. */
	double *gate;
	double *added; /* GRU: the state's part of the last gate */
	double *h, *c; /* states and cells, before each step and after the last one */
} layer;

enum { MAX_LAYERS = 64 };

typedef struct network {
	int64_t gates, steps, batch, in, width;
	int directions, layers, params_each; /* layers in all directions */
	bool batch_first;
	tensor x, state[2];
	bool has_state[2];
	double *inputs[MAX_LAYERS + 1]; /* of each layer, and the result */
	layer all[MAX_LAYERS];
} network;

/* Where a launch has its arguments. */
typedef struct places {
	uint32_t params, hx, sizes, biased, layers, dropout, bidirectional, batch_first;
} places;

static int64_t in_of(const network *n, int layer_n) { return layer_n < n->directions ? n->in : n->width * n->directions; }

static bool read_params(const block *b, uint32_t param, network *n, bool biased)
{
	const aclsim_operator_param *p = param_of(b, param);

	n->params_each = biased ? NUM_PARAMS : INPUT_BIAS;
	if (!p || (int64_t)p->count != (int64_t)n->layers * n->params_each)
		return false;
	for (int i = 0; i < n->layers; i++) {
		layer *l = &n->all[i];
		for (int k = 0; k < n->params_each; k++)
			if (!tensor_of(b, param, (uint32_t)(i * n->params_each + k), &l->params[k]) || l->params[k].num_dims != (k < INPUT_BIAS ? 2 : 1) || !is_real(l->params[k].dtype))
				return false;
		if (i == 0)
			n->width = l->params[STATE_WEIGHT].dims[1];
		const tensor *wx = &l->params[INPUT_WEIGHT], *wh = &l->params[STATE_WEIGHT];
		int64_t lines = wh->dims[0];
		if (lines % n->gates || lines / n->gates != n->width || wh->dims[1] != n->width || wx->dims[0] != lines || wx->dims[1] != in_of(n, i) ||
		    (double)n->steps * (double)n->batch * (double)lines * n->directions > (double)MAX_COUNT)
			return false;
		for (int k = INPUT_BIAS; k < n->params_each; k++)
			if (l->params[k].dims[0] != lines)
				return false;
		*l = (layer){.gates = n->gates, .steps = n->steps, .batch = n->batch, .in = in_of(n, i), .width = n->width, .biased = biased, .reverse = i % n->directions,
			     .params = {l->params[0], l->params[1], l->params[2], l->params[3]}};
	}
	return true;
}

static bool read_network(const block *b, const places *at, int64_t gates, network *n)
{
	number biased = number_of(b, at->biased, 0), layers = number_of(b, at->layers, 0), both = number_of(b, at->bidirectional, 0), first = number_of(b, at->batch_first, 0);

	memset(n, 0, sizeof *n);
	n->gates = gates;
	n->batch_first = first.whole;
	n->directions = both.whole ? 2 : 1;
	if (!is_absent(b, at->sizes) || !biased.given || !both.given || !first.given || layers.whole < 1 || layers.whole > MAX_LAYERS / 2 || number_of(b, at->dropout, 0).real != 0 ||
	    !tensor_of(b, 0, 0, &n->x) || n->x.num_dims != 3 || !is_real(n->x.dtype))
		return false;
	n->layers = (int)layers.whole * n->directions;
	n->steps = n->x.dims[n->batch_first];
	n->batch = n->x.dims[!n->batch_first];
	n->in = n->x.dims[2];
	if (!read_params(b, at->params, n, biased.whole))
		return false;
	for (uint32_t k = 0; k < (gates == LSTM_GATES ? 2 : 1); k++) {
		n->has_state[k] = !is_absent(b, at->hx);
		if (n->has_state[k] &&
		    (!tensor_of(b, at->hx, k, &n->state[k]) || count_of(&n->state[k]) != n->layers * n->batch * n->width || !is_real(n->state[k].dtype)))
			return false;
	}
	return true;
}

static double *room(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }

/* Reads a tensor with steps and items in the order of the arguments, [steps, batch, ...]. */
static double *read_steps(const network *n, const tensor *t)
{
	tensor view = *t;

	if (n->batch_first) {
		view.dims[0] = t->dims[1], view.dims[1] = t->dims[0];
		view.strides[0] = t->strides[1], view.strides[1] = t->strides[0];
	}
	return read_all(&view);
}

static void write_steps(const network *n, const tensor *t, const double *v)
{
	tensor view = *t;

	if (n->batch_first) {
		view.dims[0] = t->dims[1], view.dims[1] = t->dims[0];
		view.strides[0] = t->strides[1], view.strides[1] = t->strides[0];
	}
	write_all(&view, v);
}

static double product(const double *x, const double *y, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i] * y[i];
	return sum;
}

/* The row of an item at the time of a step. */
static int64_t row_of(const layer *l, int64_t step, int64_t item) { return (l->reverse ? l->steps - 1 - step : step) * l->batch + item; }

/* One step of one item. */
static void step_of(const layer *l, int64_t step, int64_t item)
{
	int64_t n = l->width, at = step * l->batch + item, next = at + l->batch;
	const double *x = l->x + row_of(l, step, item) * l->in, *h = l->h + at * n;
	double *gate = l->gate + at * l->gates * n;

	for (int64_t k = 0; k < l->gates * n; k++) {
		double in = product(l->vp[INPUT_WEIGHT] + k * l->in, x, l->in) + (l->biased ? l->vp[INPUT_BIAS][k] : 0);
		double more = product(l->vp[STATE_WEIGHT] + k * n, h, n) + (l->biased ? l->vp[STATE_BIAS][k] : 0);
		if (k / n != 2) {
			gate[k] = own_sigmoid(in + more);
		} else if (l->gates == LSTM_GATES) {
			gate[k] = own_tanh(in + more);
		} else {
			l->added[at * n + k - 2 * n] = more;
			gate[k] = own_tanh(in + gate[k - 2 * n] * more);
		}
	}
	for (int64_t k = 0; k < n; k++) {
		double *to = &l->h[next * n + k];
		if (l->gates == LSTM_GATES) {
			double c = gate[n + k] * l->c[at * n + k] + gate[k] * gate[2 * n + k];
			l->c[next * n + k] = c;
			*to = gate[3 * n + k] * own_tanh(c);
		} else {
			*to = (1 - gate[n + k]) * gate[2 * n + k] + gate[n + k] * h[k];
		}
	}
}

/* Makes the first state of a layer, zeros if there is none. */
static double *states(const network *n, int layer_n, const double *first)
{
	int64_t size = n->batch * n->width;
	double *all = room((n->steps + 1) * size);

	if (all && first)
		memcpy(all, first + layer_n * size, (size_t)size * sizeof *all);
	return all;
}

static bool run_layer(network *n, int i, double *const *first)
{
	layer *l = &n->all[i];
	int64_t size = n->steps * n->batch * n->width, wide = n->width * n->directions;
	double *out = n->inputs[i / n->directions + 1];

	l->x = n->inputs[i / n->directions];
	l->gate = room(size * n->gates);
	l->added = room(size);
	l->h = states(n, i, first[0]);
	l->c = states(n, i, first[1]);
	bool done = l->x && out && l->gate && l->added && l->h && l->c;
	for (int k = 0; k < n->params_each; k++)
		done = (l->vp[k] = read_all(&l->params[k])) && done;
	for (int64_t k = 0; done && k < n->steps * n->batch; k++) {
		step_of(l, k / n->batch, k % n->batch);
		memcpy(out + row_of(l, k / n->batch, k % n->batch) * wide + i % n->directions * n->width, l->h + (k + n->batch) * n->width, (size_t)n->width * sizeof *out);
	}
	return done;
}

static bool run_network(network *n)
{
	double *first[2] = {n->has_state[0] ? read_all(&n->state[0]) : NULL, n->has_state[1] ? read_all(&n->state[1]) : NULL};
	bool done = (first[0] || !n->has_state[0]) && (first[1] || !n->has_state[1]) && (n->inputs[0] = read_steps(n, &n->x));

	for (int i = 0; i < n->layers / n->directions; i++)
		done = (n->inputs[i + 1] = room(n->steps * n->batch * n->width * n->directions)) && done;
	for (int i = 0; done && i < n->layers; i++)
		done = run_layer(n, i, first);
	free(first[0]);
	free(first[1]);
	return done;
}

static void end_network(network *n)
{
	for (int i = 0; i < n->layers; i++) {
		layer *l = &n->all[i];
		for (int k = 0; k < NUM_PARAMS; k++)
			free(l->vp[k]);
		free(l->gate);
		free(l->added);
		free(l->h);
		free(l->c);
	}
	for (int i = 0; i <= MAX_LAYERS; i++)
		free(n->inputs[i]);
	free(n);
}

/* Reads a result, element k of a list, with a number of elements. Those of gates are absent or short without training. */
static bool result_of(const block *b, uint32_t i, uint32_t k, int64_t n, bool needed, tensor *t)
{
	*t = (tensor){0};
	if (!needed && (is_absent(b, i) || !tensor_of(b, i, k, t) || count_of(t) != n)) {
		t->at = NULL;
		return true;
	}
	return tensor_of(b, i, k, t) && count_of(t) == n && is_real(t->dtype);
}

/* Stores the gates of a layer in lists that begin at a parameter: r, z, n, what the state adds to n, h; or i, j, f, o, h, c, tanh(c). */
static bool write_gates(const network *n, int layer_n, const block *b, uint32_t param)
{
	static const int of_gru[] = {0, 1, 2, 4, 5}, of_lstm[] = {0, 2, 1, 3, 5, 6, 7};
	const layer *l = &n->all[layer_n];
	bool lstm = n->gates == LSTM_GATES;
	int64_t width = n->width, all = n->steps * n->batch;
	double *part = room(all * width);

	for (uint32_t list = 0; part && list < (lstm ? 7 : 5); list++) {
		int what = lstm ? of_lstm[list] : of_gru[list];
		tensor t;
		(void)result_of(b, param + list, (uint32_t)layer_n, all * width, false, &t);
		for (int64_t i = 0; i < all; i++)
			for (int64_t k = 0; k < width; k++) {
				int64_t next = (i + n->batch) * width + k;
				double v = what < l->gates ? l->gate[(i * l->gates + what) * width + k] : what == 4 ? l->added[i * width + k] : what == 5 ? l->h[next] : l->c[next];
				part[row_of(l, i / n->batch, i % n->batch) * width + k] = what == 7 ? own_tanh(v) : v;
			}
		if (t.at)
			write_all(&t, part);
	}
	free(part);
	return part;
}

/* Stores the last states of all layers, those of cells if k is 1. */
static bool write_states(const network *n, int k, const tensor *t)
{
	int64_t size = n->batch * n->width;
	double *all = room(n->layers * size);

	for (int i = 0; all && i < n->layers; i++)
		memcpy(all + i * size, (k ? n->all[i].c : n->all[i].h) + n->steps * size, (size_t)size * sizeof *all);
	if (all)
		write_all(t, all);
	free(all);
	return all;
}

/* A result of all steps has the dims of the input but for the last one. */
static bool fits_steps(const network *n, const tensor *t, int64_t width)
{
	return t->num_dims == 3 && t->dims[0] == n->x.dims[0] && t->dims[1] == n->x.dims[1] && t->dims[2] == width;
}

/*
 * input, params, hx, batchSizes, hasBias, numLayers, dropout, train, bidirectional, batchFirst, output, hy, then for LSTM cy, and lists of gates, one tensor
 * for each layer. kind: the gates
 */
bool recurrent(const block *b, const operator *o, bool dry)
{
	static const places at = {.params = 1, .hx = 2, .sizes = 3, .biased = 4, .layers = 5, .dropout = 6, .bidirectional = 8, .batch_first = 9};
	network *n = malloc(sizeof *n);
	bool lstm = o->kind == LSTM_GATES, done = n && read_network(b, &at, o->kind, n);
	tensor out, state[2];

	if (!done || !tensor_of(b, 10, 0, &out) || !fits_steps(n, &out, n->width * n->directions) || !is_real(out.dtype)) {
		free(n);
		return false;
	}
	for (uint32_t k = 0; k < 1 + (uint32_t)lstm; k++)
		done = done && result_of(b, 11 + k, 0, n->layers * n->batch * n->width, true, &state[k]);
	if (!done || dry) {
		free(n);
		return done;
	}
	done = run_network(n);
	if (done)
		write_steps(n, &out, n->inputs[n->layers / n->directions]);
	for (int k = 0; done && k < 1 + lstm; k++)
		done = write_states(n, k, &state[k]);
	for (int i = 0; done && i < n->layers; i++)
		done = write_gates(n, i, b, lstm ? 13 : 12);
	end_network(n);
	return done;
}

/* The gradients of one layer. Those of the states are of the step that is next. */
typedef struct layer_gradient {
	const double *dy; /* [steps, batch, dy_width], of which the layer has a part */
	int64_t dy_width, dy_from;
	double *dh, *dc, *dx, *params[NUM_PARAMS], *in, *more; /* in and more: of what the input and the state add to the gates of an item */
} layer_gradient;

/* The gradients of what comes to the gates in a step, from that of its state. Then dh has the part that passes the gates by. */
static void gate_gradients(const layer *l, const layer_gradient *g, int64_t at, int64_t item)
{
	int64_t n = l->width;
	const double *gate = l->gate + at * l->gates * n;
	double *in = g->in, *more = g->more;

	for (int64_t k = 0; k < n; k++) {
		double *h = &g->dh[item * n + k], *c = &g->dc[item * n + k], first = gate[k], second = gate[n + k], third = gate[2 * n + k];
		if (l->gates == LSTM_GATES) {
			double out = gate[3 * n + k], cell = own_tanh(l->c[(at + l->batch) * n + k]);
			in[3 * n + k] = *h * cell * out * (1 - out);
			*c += *h * out * (1 - cell * cell);
			in[k] = *c * third * first * (1 - first);
			in[n + k] = *c * l->c[at * n + k] * second * (1 - second);
			in[2 * n + k] = *c * first * (1 - third * third);
			*c *= second;
			*h = 0;
		} else {
			double d = *h * (1 - second) * (1 - third * third);
			in[k] = d * l->added[at * n + k] * first * (1 - first);
			in[n + k] = *h * (l->h[at * n + k] - third) * second * (1 - second);
			in[2 * n + k] = d;
			*h *= second;
		}
	}
	for (int64_t k = 0; k < l->gates * n; k++)
		more[k] = in[k] * (l->gates == GRU_GATES && k >= 2 * n ? gate[k - 2 * n] : 1);
}

/* to += v * factor */
static void add(double *to, const double *v, double factor, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		to[i] += v[i] * factor;
}

static void step_gradient(const layer *l, const layer_gradient *g, int64_t step, int64_t item)
{
	int64_t n = l->width, at = step * l->batch + item, row = row_of(l, step, item);

	if (g->dy)
		add(g->dh + item * n, g->dy + row * g->dy_width + g->dy_from, 1, n);
	gate_gradients(l, g, at, item);
	for (int64_t k = 0; k < l->gates * n; k++) {
		add(g->dx + row * l->in, l->vp[INPUT_WEIGHT] + k * l->in, g->in[k], l->in);
		add(g->dh + item * n, l->vp[STATE_WEIGHT] + k * n, g->more[k], n);
		add(g->params[INPUT_WEIGHT] + k * l->in, l->x + row * l->in, g->in[k], l->in);
		add(g->params[STATE_WEIGHT] + k * n, l->h + at * n, g->more[k], n);
		g->params[INPUT_BIAS][k] += g->in[k];
		g->params[STATE_BIAS][k] += g->more[k];
	}
}

/* Computes the gradients of a layer and stores those of its parameters. */
static bool layer_gradients(const network *n, int i, layer_gradient *g, const tensor *params)
{
	const layer *l = &n->all[i];
	bool done = true;

	g->in = room(n->gates * n->width);
	g->more = room(n->gates * n->width);
	for (int k = 0; k < NUM_PARAMS; k++)
		done = (g->params[k] = room(n->gates * n->width * (k == INPUT_WEIGHT ? l->in : k == STATE_WEIGHT ? n->width : 1))) && done;
	done = done && g->in && g->more;
	for (int64_t k = n->steps * n->batch - 1; done && k >= 0; k--)
		step_gradient(l, g, k / n->batch, k % n->batch);
	for (int k = 0; k < NUM_PARAMS; k++) {
		if (done && k < n->params_each)
			write_all(&params[k], g->params[k]);
		free(g->params[k]);
	}
	free(g->in);
	free(g->more);
	return done;
}

/* Computes the gradients from the last layer to the first one. dy is that of the result and is freed; dh and dc are those of the states. */
static bool network_gradients(const network *n, double *dy, double *dh, double *dc, const tensor *params, const tensor *dx)
{
	bool done = true;

	for (int i = n->layers - n->directions; done && i >= 0; i -= n->directions) {
		double *below = room(n->steps * n->batch * in_of(n, i));
		done = below;
		for (int d = 0; done && d < n->directions; d++) {
			int64_t at = (i + d) * n->batch * n->width;
			layer_gradient g = {.dy = dy, .dy_width = n->width * n->directions, .dy_from = d * n->width, .dh = dh + at, .dc = dc + at, .dx = below};
			done = layer_gradients(n, i + d, &g, params + (i + d) * n->params_each);
		}
		free(dy);
		dy = below;
	}
	if (done)
		write_steps(n, dx, dy);
	free(dy);
	return done;
}

/* Reads the gradient of a state, zeros if there is none. */
static double *state_gradient(const network *n, const tensor *t) { return t->at ? read_all(t) : room(n->layers * n->batch * n->width); }

/* The tensors of a launch of gradients. */
typedef struct gradient_tensors {
	tensor dy, state[2], dx, to[2], params[MAX_LAYERS * NUM_PARAMS];
} gradient_tensors;

static bool read_gradients(const block *b, const network *n, bool lstm, gradient_tensors *t)
{
	uint32_t first = lstm ? 21 : 15, list = lstm ? 24 : 17;
	int64_t size = n->layers * n->batch * n->width;

	if (!tensor_of(b, first, 0, &t->dx) || !same_dims(&t->dx, &n->x) || !is_real(t->dx.dtype))
		return false;
	if (!is_absent(b, 3) && (!tensor_of(b, 3, 0, &t->dy) || !fits_steps(n, &t->dy, n->width * n->directions) || !is_real(t->dy.dtype)))
		return false;
	for (uint32_t k = 0; k < 1 + (uint32_t)lstm; k++)
		if (!result_of(b, 4 + k, 0, size, !is_absent(b, 4 + k), &t->state[k]) || !result_of(b, first + 1 + k, 0, size, true, &t->to[k]))
			return false;
	for (int i = 0; i < n->layers; i++)
		for (int k = 0; k < n->params_each; k++) {
			tensor *p = &t->params[i * n->params_each + k];
			if (!tensor_of(b, list, (uint32_t)(i * n->params_each + k), p) || !same_dims(p, &n->all[i].params[k]) || !is_real(p->dtype))
				return false;
		}
	return !lstm || is_absent(b, 20);
}

/*
 * LSTM: input, hx, params, dy, dh, dc, i, g, f, o, h, c, tanhc, batchSizes, hasBias, numLayers, dropout, train, bidirectional, batchFirst, outputMask, dx,
 * dhPrev, dcPrev, dparams. GRU: input, params, hx, dy, dh, r, z, n, hn, h, batchSizes, hasBias, numLayers, bidirectional, batchFirst, dx, dhPrev, dparams
 */
bool recurrent_backward(const block *b, const operator *o, bool dry)
{
	/* The gradient of GRU has no parameter for dropout. */
	static const places of_gru = {.params = 1, .hx = 2, .sizes = 10, .biased = 11, .layers = 12, .dropout = UINT32_MAX, .bidirectional = 13, .batch_first = 14};
	static const places of_lstm = {.params = 2, .hx = 1, .sizes = 13, .biased = 14, .layers = 15, .dropout = 16, .bidirectional = 18, .batch_first = 19};
	bool lstm = o->kind == LSTM_GATES;
	network *n = malloc(sizeof *n);
	gradient_tensors *t = calloc(1, sizeof *t);
	bool done = n && t && read_network(b, lstm ? &of_lstm : &of_gru, o->kind, n) && read_gradients(b, n, lstm, t);

	if (!done || dry) {
		free(n);
		free(t);
		return done;
	}
	double *dh = state_gradient(n, &t->state[0]), *dc = state_gradient(n, &t->state[1]);
	done = dh && dc && run_network(n);
	double *dy = !done ? NULL : t->dy.at ? read_steps(n, &t->dy) : room(n->steps * n->batch * n->width * n->directions);
	done = dy && network_gradients(n, dy, dh, dc, t->params, &t->dx);
	for (int k = 0; done && k < 1 + lstm; k++)
		write_all(&t->to[k], k ? dc : dh);
	free(dh);
	free(dc);
	free(t);
	end_network(n);
	return done;
}
