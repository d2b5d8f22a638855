/*
 * The ready kernels for one number type. Define before inclusion: TYPE (its form in memory), NAME(x) (a kernel's function
 * name), LOAD(x) (converts to float) and STORE(x) (converts from float). Sums are kept in float or double.
 */

static uint32_t NAME(fill_extents)(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct fill_args *a = l->args;

	extent(out, max, 0, a->out, times(sizeof(TYPE), a->count), ACLSIM_WRITE);
	return 1;
}

static void NAME(fill)(const aclsim_launch *l, uint32_t block)
{
	const struct fill_args *a = l->args;
	TYPE *to_fill = a->out, value = STORE(a->value);
	uint64_t from, to;

	share(l, block, a->count, &from, &to);
	for (uint64_t i = from; i < to; i++)
		to_fill[i] = value;
}

static uint32_t NAME(binary_extents)(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct binary_args *a = l->args;
	uint64_t n = times(sizeof(TYPE), a->count);

	extent(out, max, 0, a->a, n, ACLSIM_READ);
	extent(out, max, 1, a->b, n, ACLSIM_READ);
	extent(out, max, 2, a->out, n, ACLSIM_WRITE);
	return 3;
}

static void NAME(add)(const aclsim_launch *l, uint32_t block)
{
	const struct binary_args *g = l->args;
	const TYPE *a = g->a, *b = g->b;
	TYPE *out = g->out;
	uint64_t from, to;

	share(l, block, g->count, &from, &to);
	for (uint64_t i = from; i < to; i++)
		out[i] = STORE(LOAD(a[i]) + LOAD(b[i]));
}

static void NAME(mul)(const aclsim_launch *l, uint32_t block)
{
	const struct binary_args *g = l->args;
	const TYPE *a = g->a, *b = g->b;
	TYPE *out = g->out;
	uint64_t from, to;

	share(l, block, g->count, &from, &to);
	for (uint64_t i = from; i < to; i++)
		out[i] = STORE(LOAD(a[i]) * LOAD(b[i]));
}

static uint32_t NAME(matmul_extents)(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct matmul_args *a = l->args;

	extent(out, max, 0, a->a, times(sizeof(TYPE), times(a->m, a->k)), ACLSIM_READ);
	extent(out, max, 1, a->b, times(sizeof(TYPE), times(a->k, a->n)), ACLSIM_READ);
	extent(out, max, 2, a->c, times(sizeof(TYPE), times(a->m, a->n)), ACLSIM_WRITE);
	return 3;
}

/* A row of the result is made in pieces that fit the stack. */
static void NAME(matmul)(const aclsim_launch *l, uint32_t block)
{
	enum { PIECE = 256 };
	const struct matmul_args *g = l->args;
	const TYPE *a = g->a, *b = g->b;
	TYPE *c = g->c;
	float sum[PIECE];
	uint64_t from, to;

	share(l, block, g->m, &from, &to);
	for (uint64_t i = from; i < to; i++)
		for (uint64_t at = 0; at < g->n; at += PIECE) {
			uint64_t n = g->n - at < PIECE ? g->n - at : PIECE;

			for (uint64_t j = 0; j < n; j++)
				sum[j] = 0;
			for (uint64_t k = 0; k < g->k; k++) {
				const TYPE *row = b + k * g->n + at;
				float x = LOAD(a[i * g->k + k]);

				for (uint64_t j = 0; j < n; j++)
					sum[j] += x * LOAD(row[j]);
			}
			for (uint64_t j = 0; j < n; j++)
				c[i * g->n + at + j] = STORE(sum[j]);
		}
}

static uint32_t NAME(rows_extents)(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct rows_args *a = l->args;
	uint64_t n = times(sizeof(TYPE), times(a->rows, a->cols));

	extent(out, max, 0, a->in, n, ACLSIM_READ);
	extent(out, max, 1, a->out, n, ACLSIM_WRITE);
	return 2;
}

static uint32_t NAME(reduce_extents)(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct rows_args *a = l->args;

	extent(out, max, 0, a->in, times(sizeof(TYPE), times(a->rows, a->cols)), ACLSIM_READ);
	extent(out, max, 1, a->out, times(sizeof(TYPE), a->rows), ACLSIM_WRITE);
	return 2;
}

static void NAME(reduce)(const aclsim_launch *l, uint32_t block)
{
	const struct rows_args *g = l->args;
	TYPE *out = g->out;
	uint64_t from, to;

	share(l, block, g->rows, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		const TYPE *in = (const TYPE *)g->in + i * g->cols;
		double sum = 0;

		for (uint64_t j = 0; j < g->cols; j++)
			sum += LOAD(in[j]);
		out[i] = STORE((float)sum);
	}
}

static void NAME(softmax)(const aclsim_launch *l, uint32_t block)
{
	const struct rows_args *g = l->args;
	uint64_t from, to;

	share(l, block, g->rows, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		const TYPE *in = (const TYPE *)g->in + i * g->cols;
		TYPE *out = (TYPE *)g->out + i * g->cols;
		float top = -INFINITY;
		double sum = 0;

		for (uint64_t j = 0; j < g->cols; j++)
			top = fmaxf(top, LOAD(in[j]));
		for (uint64_t j = 0; j < g->cols; j++)
			sum += expf(LOAD(in[j]) - top);
		for (uint64_t j = 0; j < g->cols; j++)
			out[j] = STORE((float)(expf(LOAD(in[j]) - top) / sum));
	}
}

static uint32_t NAME(layer_norm_extents)(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct norm_args *a = l->args;
	uint64_t n = times(sizeof(TYPE), times(a->rows, a->cols));

	extent(out, max, 0, a->in, n, ACLSIM_READ);
	extent(out, max, 1, a->gamma, times(sizeof(TYPE), a->cols), ACLSIM_READ);
	extent(out, max, 2, a->beta, times(sizeof(TYPE), a->cols), ACLSIM_READ);
	extent(out, max, 3, a->out, n, ACLSIM_WRITE);
	return 4;
}

static void NAME(layer_norm)(const aclsim_launch *l, uint32_t block)
{
	const struct norm_args *g = l->args;
	const TYPE *gamma = g->gamma, *beta = g->beta;
	uint64_t from, to;

	share(l, block, g->rows, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		const TYPE *in = (const TYPE *)g->in + i * g->cols;
		TYPE *out = (TYPE *)g->out + i * g->cols;
		double mean = 0, variance = 0;

		for (uint64_t j = 0; j < g->cols; j++)
			mean += LOAD(in[j]);
		mean /= g->cols;
		for (uint64_t j = 0; j < g->cols; j++)
			variance += (LOAD(in[j]) - mean) * (LOAD(in[j]) - mean);
		variance /= g->cols;
		for (uint64_t j = 0; j < g->cols; j++)
			out[j] = STORE((float)((LOAD(in[j]) - mean) / sqrt(variance + g->epsilon)) * LOAD(gamma[j]) + LOAD(beta[j]));
	}
}

static uint32_t NAME(gather_extents)(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct gather_args *a = l->args;

	extent(out, max, 0, a->table, times(sizeof(TYPE), times(a->n, a->cols)), ACLSIM_READ);
	extent(out, max, 1, a->index, times(4, a->rows), ACLSIM_READ);
	extent(out, max, 2, a->out, times(sizeof(TYPE), times(a->rows, a->cols)), ACLSIM_WRITE);
	return 3;
}

static void NAME(gather)(const aclsim_launch *l, uint32_t block)
{
	const struct gather_args *g = l->args;
	uint64_t from, to;

	share(l, block, g->rows, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		TYPE *out = (TYPE *)g->out + i * g->cols;

		if (g->index[i] >= 0 && (uint32_t)g->index[i] < g->n)
			memcpy(out, (const TYPE *)g->table + (uint64_t)g->index[i] * g->cols, sizeof(TYPE) * g->cols);
		else
			memset(out, 0, sizeof(TYPE) * g->cols);
	}
}

static void NAME(transpose)(const aclsim_launch *l, uint32_t block)
{
	const struct rows_args *g = l->args;
	const TYPE *in = g->in;
	TYPE *out = g->out;
	uint64_t from, to;

	share(l, block, g->rows, &from, &to);
	for (uint64_t i = from; i < to; i++)
		for (uint64_t j = 0; j < g->cols; j++)
			out[j * g->rows + i] = in[i * g->cols + j];
}

#undef TYPE
#undef NAME
#undef LOAD
#undef STORE
