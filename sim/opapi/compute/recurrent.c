/*
 * Recurrent layers, LSTM and GRU: one layer in one direction, without packed batches. Weights have the gates i, f, g, o, or r, z, n, one below the other.
 * The gradients compute the gates again, in 64 bits.
 */
#include "compute.h"

enum { INPUT_WEIGHT, STATE_WEIGHT, INPUT_BIAS, STATE_BIAS, NUM_PARAMS, LSTM_GATES = 4, GRU_GATES = 3 };

typedef struct layer {
	int64_t gates, steps, batch, in, width;
	bool batch_first, biased;
	tensor x, state[2], params[NUM_PARAMS];
	bool has_state[2];
	double *vx, *vp[NUM_PARAMS];
	/* [steps, batch, ...]: gates, and for GRU what the state adds to the last one; states before each step and after the last one, and those of cells */
	double *gate, *added, *h, *c;
} layer;

/* Where a launch has its arguments. */
typedef struct places {
	uint32_t params, hx, sizes, biased, layers, dropout, bidirectional, batch_first;
} places;

static bool read_layer(const block *b, const places *at, int64_t gates, layer *l)
{
	number biased = number_of(b, at->biased, 0), layers = number_of(b, at->layers, 0), first = number_of(b, at->batch_first, 0);

	*l = (layer){.gates = gates, .biased = biased.whole, .batch_first = first.whole};
	if (!is_absent(b, at->sizes) || !biased.given || !first.given || layers.whole != 1 || number_of(b, at->bidirectional, 0).whole || number_of(b, at->dropout, 0).real != 0 ||
	    !tensor_of(b, 0, 0, &l->x) || l->x.num_dims != 3 || !is_real(l->x.dtype))
		return false;
	for (uint32_t k = 0; k < (l->biased ? NUM_PARAMS : INPUT_BIAS); k++)
		if (!tensor_of(b, at->params, k, &l->params[k]) || l->params[k].num_dims != (k < INPUT_BIAS ? 2 : 1) || !is_real(l->params[k].dtype))
			return false;
	const tensor *wx = &l->params[INPUT_WEIGHT], *wh = &l->params[STATE_WEIGHT];
	l->steps = l->x.dims[l->batch_first];
	l->batch = l->x.dims[!l->batch_first];
	l->in = l->x.dims[2];
	l->width = wh->dims[1];
	int64_t lines = wh->dims[0];
	if (lines != gates * l->width || wx->dims[0] != lines || wx->dims[1] != l->in || param_of(b, at->params)->count != (l->biased ? NUM_PARAMS : INPUT_BIAS))
		return false;
	if ((double)l->steps * (double)l->batch * (double)lines > (double)MAX_COUNT)
		return false;
	for (int k = INPUT_BIAS; l->biased && k < NUM_PARAMS; k++)
		if (l->params[k].dims[0] != lines)
			return false;
	for (uint32_t k = 0; k < (gates == LSTM_GATES ? 2 : 1); k++) {
		l->has_state[k] = !is_absent(b, at->hx);
		if (l->has_state[k] && (!tensor_of(b, at->hx, k, &l->state[k]) || count_of(&l->state[k]) != l->batch * l->width || !is_real(l->state[k].dtype)))
			return false;
	}
	return true;
}

/* The row of a tensor with steps and items in the order of the input. */
static int64_t row_of(const layer *l, int64_t step, int64_t item) { return l->batch_first ? item * l->steps + step : step * l->batch + item; }

static double *room(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }

/* Makes the first state, zeros if there is none. */
static double *states(const layer *l, int k)
{
	double *all = room((l->steps + 1) * l->batch * l->width), *first = l->has_state[k] ? read_all(&l->state[k]) : NULL;

	if (all && first)
		memcpy(all, first, (size_t)(l->batch * l->width) * sizeof *all);
	if (l->has_state[k] && !first) {
		free(all);
		all = NULL;
	}
	free(first);
	return all;
}

static double product(const double *x, const double *y, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i] * y[i];
	return sum;
}

/* One step of one item. */
static void step_of(const layer *l, int64_t step, int64_t item)
{
	int64_t n = l->width, at = step * l->batch + item, next = at + l->batch;
	const double *x = l->vx + row_of(l, step, item) * l->in, *h = l->h + at * n;
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

static bool run_layer(layer *l)
{
	int64_t n = l->steps * l->batch * l->width;

	l->vx = read_all(&l->x);
	l->gate = room(n * l->gates);
	l->added = room(n);
	l->h = states(l, 0);
	l->c = states(l, 1);
	bool done = l->vx && l->gate && l->added && l->h && l->c;
	for (int k = 0; k < (l->biased ? NUM_PARAMS : INPUT_BIAS); k++)
		done = (l->vp[k] = read_all(&l->params[k])) && done;
	for (int64_t i = 0; done && i < l->steps * l->batch; i++)
		step_of(l, i / l->batch, i % l->batch);
	return done;
}

static void end_layer(layer *l)
{
	free(l->vx);
	for (int k = 0; k < NUM_PARAMS; k++)
		free(l->vp[k]);
	free(l->gate);
	free(l->added);
	free(l->h);
	free(l->c);
}

/* Reads a result with a number of elements. Those of gates are absent or short without training. */
static bool result_of(const block *b, uint32_t i, int64_t n, bool needed, tensor *t)
{
	*t = (tensor){0};
	if (!needed && (is_absent(b, i) || !tensor_of(b, i, 0, t) || count_of(t) != n)) {
		t->at = NULL;
		return true;
	}
	return tensor_of(b, i, 0, t) && count_of(t) == n && is_real(t->dtype);
}

static void write_result(const tensor *t, const double *v)
{
	if (t->at && v)
		write_all(t, v);
}

/* Stores one gate of all steps, or the tangents of the cells if the gate is -1. */
static void write_gate(const layer *l, const tensor *t, int64_t gate, double *part)
{
	int64_t n = l->width;

	for (int64_t i = 0; i < l->steps * l->batch; i++)
		for (int64_t k = 0; k < n; k++)
			part[i * n + k] = gate < 0 ? own_tanh(l->c[(i + l->batch) * n + k]) : l->gate[(i * l->gates + gate) * n + k];
	write_result(t, part);
}

enum { MAX_RESULTS = 10 };

/*
 * input, params, hx, batchSizes, hasBias, numLayers, dropout, train, bidirectional, batchFirst, output, hy, then for LSTM cy, and lists of one tensor:
 * i, j, f, o, h, c, tanh(c); for GRU r, z, n, what the state adds to n, h. kind: the gates
 */
bool recurrent(const block *b, const operator *o, bool dry)
{
	static const places at = {.params = 1, .hx = 2, .sizes = 3, .biased = 4, .layers = 5, .dropout = 6, .bidirectional = 8, .batch_first = 9};
	layer l;
	bool lstm = o->kind == LSTM_GATES;
	int states_n = lstm ? 3 : 2, n = states_n + (lstm ? 7 : 5);
	tensor to[MAX_RESULTS];

	if (!read_layer(b, &at, o->kind, &l))
		return false;
	int64_t all = l.steps * l.batch * l.width;
	for (int k = 0; k < n; k++)
		if (!result_of(b, 10 + (uint32_t)k, k == 0 || k >= states_n ? all : l.batch * l.width, k < states_n, &to[k]))
			return false;
	if (dry)
		return true;
	double *part = room(all);
	bool done = run_layer(&l) && part;
	if (done) {
		const double *h = l.h + l.batch * l.width, *c = l.c + l.batch * l.width;
		static const int gates[2][4] = {{0, 1, 2}, {0, 2, 1, 3}};
		for (int k = 0; k < (lstm ? LSTM_GATES : GRU_GATES); k++)
			write_gate(&l, &to[states_n + k], gates[lstm][k], part);
		if (!lstm)
			write_result(&to[5], l.added);
		write_result(&to[lstm ? 7 : 6], h);
		if (lstm) {
			write_result(&to[8], c);
			write_gate(&l, &to[9], -1, part);
			write_result(&to[2], l.c + all);
		}
		write_result(&to[1], l.h + all);
		for (int64_t i = 0; i < l.steps * l.batch; i++)
			memcpy(part + row_of(&l, i / l.batch, i % l.batch) * l.width, h + i * l.width, (size_t)l.width * sizeof *part);
		write_result(&to[0], part);
	}
	free(part);
	end_layer(&l);
	return done;
}

/* The gradients of one launch. Those of the states are of the step that is next. */
typedef struct layer_gradient {
	double *dy, *dh, *dc, *dx, *params[NUM_PARAMS], *in, *more; /* in and more: of what the input and the state add to the gates of an item */
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
		add(g->dh + item * n, g->dy + row * n, 1, n);
	gate_gradients(l, g, at, item);
	for (int64_t k = 0; k < l->gates * n; k++) {
		add(g->dx + row * l->in, l->vp[INPUT_WEIGHT] + k * l->in, g->in[k], l->in);
		add(g->dh + item * n, l->vp[STATE_WEIGHT] + k * n, g->more[k], n);
		add(g->params[INPUT_WEIGHT] + k * l->in, l->vx + row * l->in, g->in[k], l->in);
		add(g->params[STATE_WEIGHT] + k * n, l->h + at * n, g->more[k], n);
		g->params[INPUT_BIAS][k] += g->in[k];
		g->params[STATE_BIAS][k] += g->more[k];
	}
}

/* Reads the gradient of a state, zeros if there is none. */
static double *state_gradient(const layer *l, const tensor *t) { return t->at ? read_all(t) : room(l->batch * l->width); }

/*
 * LSTM: input, hx, params, dy, dh, dc, i, g, f, o, h, c, tanhc, batchSizes, hasBias, numLayers, dropout, train, bidirectional, batchFirst, outputMask, dx,
 * dhPrev, dcPrev, dparams. GRU: input, params, hx, dy, dh, r, z, n, hn, h, batchSizes, hasBias, numLayers, bidirectional, batchFirst, dx, dhPrev, dparams
 */
bool recurrent_backward(const block *b, const operator *o, bool dry)
{
	static const places of_gru = {.params = 1, .hx = 2, .sizes = 10, .biased = 11, .layers = 12, .dropout = 13, .bidirectional = 13, .batch_first = 14};
	static const places of_lstm = {.params = 2, .hx = 1, .sizes = 13, .biased = 14, .layers = 15, .dropout = 16, .bidirectional = 18, .batch_first = 19};
	bool lstm = o->kind == LSTM_GATES;
	layer l;
	layer_gradient g = {0};
	tensor dy, state[2] = {0}, to[3], params[NUM_PARAMS];
	uint32_t first = lstm ? 21 : 15, list = lstm ? 24 : 17;

	if (!read_layer(b, lstm ? &of_lstm : &of_gru, o->kind, &l))
		return false;
	int64_t n = l.batch * l.width, rows_n = l.steps * l.batch;
	if (!result_of(b, 3, rows_n * l.width, !is_absent(b, 3), &dy) || (lstm && !is_absent(b, 20)))
		return false;
	for (uint32_t k = 0; k < 2; k++)
		if (((k == 0 || lstm) && !result_of(b, 4 + k, n, !is_absent(b, 4 + k), &state[k])) || !result_of(b, first + 1 + k * lstm, n, true, &to[1 + k]))
			return false;
	if (!result_of(b, first, rows_n * l.in, true, &to[0]))
		return false;
	for (uint32_t k = 0; k < (l.biased ? NUM_PARAMS : INPUT_BIAS); k++)
		if (!tensor_of(b, list, k, &params[k]) || !same_dims(&params[k], &l.params[k]) || !is_real(params[k].dtype))
			return false;
	if (dry)
		return true;
	g = (layer_gradient){.dy = dy.at ? read_all(&dy) : NULL, .dh = state_gradient(&l, &state[0]), .dc = state_gradient(&l, &state[1]), .dx = room(rows_n * l.in),
			     .in = room(l.gates * l.width), .more = room(l.gates * l.width)};
	bool done = run_layer(&l) && (g.dy || !dy.at) && g.dh && g.dc && g.dx && g.in && g.more;
	for (int k = 0; k < NUM_PARAMS; k++)
		done = (g.params[k] = room(l.gates * l.width * (k == INPUT_WEIGHT ? l.in : k == STATE_WEIGHT ? l.width : 1))) && done;
	for (int64_t i = rows_n - 1; done && i >= 0; i--)
		step_gradient(&l, &g, i / l.batch, i % l.batch);
	if (done) {
		write_result(&to[0], g.dx);
		write_result(&to[1], g.dh);
		if (lstm)
			write_result(&to[2], g.dc);
		for (int k = 0; k < (l.biased ? NUM_PARAMS : INPUT_BIAS); k++)
			write_all(&params[k], g.params[k]);
	}
	for (int k = 0; k < NUM_PARAMS; k++)
		free(g.params[k]);
	double *rest[] = {g.dy, g.dh, g.dc, g.dx, g.in, g.more};
	for (size_t k = 0; k < sizeof rest / sizeof *rest; k++)
		free(rest[k]);
	end_layer(&l);
	return done;
}
