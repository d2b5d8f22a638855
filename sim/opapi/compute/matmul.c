/*
 * Products of matrices. Each element is a sum of sums of DEPTH products in the order of the common dim, in 32 bits; in 64 bits if the operands have
 * them. The order depends on the common dim alone, so processors with wider vectors and parts of a launch have the same bits.
 */
#include "compute.h"

/* The views of a product: out[..., m, n] = a[..., m, k] b[..., k, n]. */
typedef struct product {
	tensor a, b, out;
	int64_t m, n, k;
} product;

static bool insert(tensor *t, int dim)
{
	if (dim < 0 || t->num_dims == MAX_DIMS)
		return false;
	for (int d = t->num_dims; d > dim; d--) {
		t->dims[d] = t->dims[d - 1];
		t->strides[d] = t->strides[d - 1];
	}
	t->dims[dim] = 1;
	t->strides[dim] = 0;
	t->num_dims++;
	return true;
}

/* Real numbers of 16 and 32 bits become numbers of 32 bits. */
static bool are_floats(const product *p) { return is_real(p->a.dtype) && is_real(p->b.dtype) && p->a.dtype != F64 && p->b.dtype != F64; }

/* shape makes matrices of vectors and checks the dims. */
static bool shape(product *p)
{
	if (p->a.num_dims < 1 || p->b.num_dims < 1 || (p->a.dtype != p->b.dtype && !are_floats(p)) || is_real(p->a.dtype) != is_real(p->out.dtype))
		return false;
	if (p->b.num_dims == 1 && (!insert(&p->b, 1) || !insert(&p->out, p->out.num_dims)))
		return false;
	if (p->a.num_dims == 1 && (!insert(&p->a, 0) || !insert(&p->out, p->out.num_dims - 1)))
		return false;
	int d = p->out.num_dims;
	if (d < 2 || p->a.num_dims > d || p->b.num_dims > d)
		return false;
	p->m = p->out.dims[d - 2];
	p->n = p->out.dims[d - 1];
	p->k = p->a.dims[p->a.num_dims - 1];
	if (p->a.dims[p->a.num_dims - 2] != p->m || p->b.dims[p->b.num_dims - 1] != p->n || p->b.dims[p->b.num_dims - 2] != p->k)
		return false;
	/* The dims before those of the matrices repeat. */
	tensor batch = p->out, *of[] = {&p->a, &p->b};
	batch.num_dims -= 2;
	for (int i = 0; i < 2; i++) {
		tensor outer = *of[i], wide;
		outer.num_dims -= 2;
		if (!spread(&outer, &batch, &wide))
			return false;
		int64_t dims[2], strides[2];
		for (int k = 0; k < 2; k++) {
			dims[k] = of[i]->dims[of[i]->num_dims - 2 + k];
			strides[k] = of[i]->strides[of[i]->num_dims - 2 + k];
		}
		*of[i] = wide;
		of[i]->num_dims = d;
		for (int k = 0; k < 2; k++) {
			of[i]->dims[d - 2 + k] = dims[k];
			of[i]->strides[d - 2 + k] = strides[k];
		}
	}
	return true;
}

/* Rows and columns of a tile, whose sums stay in registers; common dim, columns and rows of a block, which stays in caches. */
enum { TALL = 6, BROAD = 16, DEPTH = 256, WIDTH = 512, HEIGHT = 64 * TALL };

typedef float lanes __attribute__((vector_size(32)));
typedef float loose __attribute__((vector_size(32), aligned(4), may_alias)); /* in memory */

/* c[TALL][BROAD], whose rows have a stride, += a[n][TALL] b[n][BROAD] */
static inline __attribute__((always_inline)) void tile_by(float *c, int64_t stride, const float *a, const float *b, int64_t n)
{
	lanes sums[TALL][2] = {{{0}}};

	for (int64_t j = 0; j < n; j++, a += TALL, b += BROAD) {
		lanes left = *(const loose *)b, right = *(const loose *)(b + 8);
#pragma GCC unroll 6
		for (int i = 0; i < TALL; i++) {
			lanes v = a[i] - (lanes){0};
			sums[i][0] += v * left;
			sums[i][1] += v * right;
		}
	}
#pragma GCC unroll 6
	for (int i = 0; i < TALL; i++, c += stride) {
		*(loose *)c += sums[i][0];
		*(loose *)(c + 8) += sums[i][1];
	}
}

typedef void tile(float *c, int64_t stride, const float *a, const float *b, int64_t n);

static void tile_any(float *c, int64_t stride, const float *a, const float *b, int64_t n) { tile_by(c, stride, a, b, n); }

#if defined __x86_64__ && !defined COMPUTE_BASELINE
__attribute__((target("avx2"))) static void tile_avx2(float *c, int64_t stride, const float *a, const float *b, int64_t n) { tile_by(c, stride, a, b, n); }

static tile *best_tile(void) { return __builtin_cpu_supports("avx2") ? tile_avx2 : tile_any; }
#else
static tile *best_tile(void) { return tile_any; }
#endif

/* pack stores lines of elements side by side, as many as a tile has: to[n][width]. Missing ones are 0. */
static void pack(float *to, int64_t width, const char *from, int32_t dtype, int64_t next_line, int64_t num_lines, int64_t next, int64_t n)
{
	float line[DEPTH];

	if (num_lines < width)
		memset(to, 0, (size_t)(n * width) * sizeof *to);
	if (next_line < next) {
		for (int64_t j = 0; j < n; j++)
			load_floats(to + j * width, from + j * next, next_line, dtype, num_lines);
		return;
	}
	for (int64_t i = 0; i < num_lines; i++) {
		load_floats(line, from + i * next_line, next, dtype, n);
		for (int64_t j = 0; j < n; j++)
			to[j * width + i] = line[j];
	}
}

/* matrix_of returns the matrix of a view with a number. */
static char *matrix_of(const tensor *t, int64_t i)
{
	char *at = t->at;

	for (int d = t->num_dims - 3; d >= 0; d--) {
		at += i % t->dims[d] * t->strides[d];
		i /= t->dims[d];
	}
	return at;
}

/* What is added to a product, with factors for it and for the product. */
typedef struct addend {
	const tensor *plus; /* NULL for none */
	number beta, alpha;
} addend;

/* store_sums stores a part of a row. */
static void store_sums(const product *p, const addend *more, int64_t matrix, int64_t row, int64_t column, double *sums, int64_t n)
{
	int d = p->out.num_dims;
	double plus[ROW];

	for (int64_t i = 0; i < n; i++)
		sums[i] *= more->alpha.real;
	if (more->plus && more->beta.real != 0) {
		const tensor *t = more->plus;
		load_real(plus, matrix_of(t, matrix) + row * t->strides[d - 2] + column * t->strides[d - 1], t->strides[d - 1], t->dtype, n);
		for (int64_t i = 0; i < n; i++)
			sums[i] += more->beta.real * plus[i];
	}
	store_real(matrix_of(&p->out, matrix) + row * p->out.strides[d - 2] + column * p->out.strides[d - 1], p->out.strides[d - 1], p->out.dtype, sums, n);
}

/* Memory for a block. */
typedef struct room {
	float *a, *b, *c;
} room;

static int64_t up_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* multiply_block computes some rows and columns of a matrix. */
static void multiply_block(const product *p, const addend *more, const room *room, tile *each, int64_t matrix, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
	int d = p->out.num_dims;
	int64_t wide = up_to(columns, BROAD), down = p->a.strides[d - 2], along = p->a.strides[d - 1], right_down = p->b.strides[d - 2], right = p->b.strides[d - 1];
	const char *a = matrix_of(&p->a, matrix) + row * down, *b = matrix_of(&p->b, matrix) + column * right;
	double sums[ROW];

	memset(room->c, 0, (size_t)(up_to(rows, TALL) * wide) * sizeof *room->c);
	for (int64_t j = 0; j < p->k; j += DEPTH) {
		int64_t n = least(p->k - j, DEPTH);
		for (int64_t i = 0; i < rows; i += TALL)
			pack(room->a + i * n, TALL, a + i * down + j * along, p->a.dtype, down, least(rows - i, TALL), along, n);
		for (int64_t i = 0; i < columns; i += BROAD)
			pack(room->b + i * n, BROAD, b + i * right + j * right_down, p->b.dtype, right, least(columns - i, BROAD), right_down, n);
		for (int64_t k = 0; k < columns; k += BROAD)
			for (int64_t i = 0; i < rows; i += TALL)
				each(room->c + i * wide + k, wide, room->a + i * n, room->b + k * n, n);
	}
	for (int64_t i = 0; i < rows; i++)
		for (int64_t k = 0; k < columns; k += ROW) {
			int64_t n = least(columns - k, ROW);
			for (int64_t m = 0; m < n; m++)
				sums[m] = (double)room->c[i * wide + k + m];
			store_sums(p, more, matrix, row + i, column + k, sums, n);
		}
}

static int64_t matrices_of(const product *p) { return count_of(&p->out) / (p->m * p->n); }

/* multiply_floats computes this thread's share of the rows of all matrices. */
static bool multiply_floats(const product *p, const addend *more)
{
	int64_t per_matrix = up_to(p->m, TALL) / TALL, all = matrices_of(p) * per_matrix, from = all * share.i / share.n, to = all * (share.i + 1) / share.n;
	int64_t depth = least(p->k, DEPTH), width = up_to(least(p->n, WIDTH), BROAD), height = up_to(least(p->m, HEIGHT), TALL);
	room r = {malloc((size_t)(height * depth + 1) * sizeof(float)), malloc((size_t)(width * depth + 1) * sizeof(float)), malloc((size_t)(height * width) * sizeof(float))};
	bool done = r.a && r.b && r.c;

	for (int64_t i = from, n; done && i < to; i += n) {
		int64_t row = i % per_matrix * TALL;
		n = least(least(per_matrix - i % per_matrix, to - i), HEIGHT / TALL);
		for (int64_t column = 0; column < p->n; column += WIDTH)
			multiply_block(p, more, &r, best_tile(), i / per_matrix, row, least(n * TALL, p->m - row), column, least(p->n - column, WIDTH));
	}
	free(r.a);
	free(r.b);
	free(r.c);
	return done;
}

/* multiply_doubles computes all of the product. */
static bool multiply_doubles(const product *p, const addend *more)
{
	int d = p->out.num_dims;
	bool done = true;

	for (int64_t matrix = 0, all = matrices_of(p); done && matrix < all; matrix++) {
		tensor b = p->b;
		b.at = matrix_of(&b, matrix);
		for (int k = 0; k < d - 2; k++)
			squeeze(&b, 0);
		double *right = read_all(&b), *sums = malloc((size_t)p->n * sizeof *sums);
		done = right && sums;
		for (int64_t row = 0; done && row < p->m; row++) {
			memset(sums, 0, (size_t)p->n * sizeof *sums);
			for (int64_t j = 0; j < p->k; j++) {
				double v;
				load_real(&v, matrix_of(&p->a, matrix) + row * p->a.strides[d - 2] + j * p->a.strides[d - 1], 0, p->a.dtype, 1);
				for (int64_t i = 0; i < p->n; i++)
					sums[i] += v * right[j * p->n + i];
			}
			for (int64_t i = 0; i < p->n; i += ROW)
				store_sums(p, more, matrix, row, i, sums + i, least(p->n - i, ROW));
		}
		free(right);
		free(sums);
	}
	return done;
}

/* multiply_wholes computes all of a product of whole numbers, which wrap around. */
static bool multiply_wholes(const product *p, const addend *more)
{
	int d = p->out.num_dims;

	for (int64_t i = 0, all = count_of(&p->out); i < all; i++) {
		int64_t column = i % p->n, row = i / p->n % p->m, matrix = i / p->n / p->m, v, w;
		const char *a = matrix_of(&p->a, matrix) + row * p->a.strides[d - 2], *b = matrix_of(&p->b, matrix) + column * p->b.strides[d - 1];
		uint64_t sum = 0;
		for (int64_t j = 0; j < p->k; j++) {
			load_whole(&v, a + j * p->a.strides[d - 1], 0, p->a.dtype, 1);
			load_whole(&w, b + j * p->b.strides[d - 2], 0, p->b.dtype, 1);
			sum += (uint64_t)v * (uint64_t)w;
		}
		sum *= (uint64_t)more->alpha.whole;
		if (more->plus && more->beta.whole) {
			load_whole(&v, matrix_of(more->plus, matrix) + row * more->plus->strides[d - 2] + column * more->plus->strides[d - 1], 0, more->plus->dtype, 1);
			sum += (uint64_t)v * (uint64_t)more->beta.whole;
		}
		v = (int64_t)sum;
		store_whole(matrix_of(&p->out, matrix) + row * p->out.strides[d - 2] + column * p->out.strides[d - 1], 0, p->out.dtype, &v, 1);
	}
	return true;
}

/* multiply computes this thread's share of a product. With dry it only sets the number of shares that it is worth. */
static bool multiply(const product *p, const addend *more, bool dry)
{
	if (p->m == 0 || p->n == 0)
		return true;
	if (dry) {
		if (is_real(p->a.dtype) && p->a.dtype != F64)
			share.wanted = least(1 + (int64_t)((double)count_of(&p->out) * (double)p->k * 0x1p-20), matrices_of(p) * up_to(p->m, TALL) / TALL);
		return true;
	}
	return !is_real(p->a.dtype) ? multiply_wholes(p, more) : p->a.dtype == F64 ? multiply_doubles(p, more) : multiply_floats(p, more);
}

/* self, mat2, out, cubeMathType */
bool matmul(const block *b, const operator *o, bool dry)
{
	product p;

	(void)o;
	return tensor_of(b, 0, 0, &p.a) && tensor_of(b, 1, 0, &p.b) && tensor_of(b, 2, 0, &p.out) && shape(&p) && multiply(&p, &(addend){.alpha = {.real = 1, .whole = 1}}, dry);
}

/* self, mat1, mat2, beta, alpha, out, cubeMathType */
bool addmm(const block *b, const operator *o, bool dry)
{
	product p;
	tensor self, plus;
	number beta = number_of(b, 3, 0), alpha = number_of(b, 4, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 1, 0, &p.a) || !tensor_of(b, 2, 0, &p.b) || !tensor_of(b, 5, 0, &p.out) || p.a.num_dims < 2 || p.b.num_dims < 2 || !beta.given ||
	    !alpha.given || !shape(&p) || !spread(&self, &p.out, &plus))
		return false;
	return multiply(&p, &(addend){&plus, beta, alpha}, dry);
}

/* self, A, upper, transpose, unitriangular, xOut, mOut: the solution of A * xOut = self, and a copy of A */
bool triangular_solve(const block *b, const operator *o, bool dry)
{
	tensor self, a, out, copy;
	number upper = number_of(b, 2, 0), transpose = number_of(b, 3, 0), unit = number_of(b, 4, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 1, 0, &a) || !tensor_of(b, 5, 0, &out) || !tensor_of(b, 6, 0, &copy) || !is_real(a.dtype) || self.dtype != a.dtype ||
	    out.dtype != a.dtype || copy.dtype != a.dtype || !same_dims(&self, &out) || !same_dims(&a, &copy) || a.num_dims < 2 || self.num_dims != a.num_dims || !upper.given ||
	    !transpose.given || !unit.given)
		return false;
	int last = a.num_dims - 1;
	int64_t n = a.dims[last], columns = self.dims[last];
	for (int d = 0; d < last; d++)
		if (a.dims[d] != self.dims[d])
			return false;
	if (a.dims[last - 1] != n)
		return false;
	if (dry)
		return true;
	double *x = read_all(&self), *m = read_all(&a);
	bool done = x && m, from_end = !upper.whole == !!transpose.whole;
	for (int64_t i = 0, all = n > 0 && columns > 0 ? count_of(&self) / (n * columns) : 0; done && i < all; i++) {
		double *v = x + i * n * columns, *matrix = m + i * n * n;
		for (int64_t step = 0; step < n; step++) {
			int64_t row = from_end ? n - 1 - step : step;
			for (int64_t k = from_end ? row + 1 : 0; k < (from_end ? n : row); k++) {
				double factor = transpose.whole ? matrix[k * n + row] : matrix[row * n + k];
				for (int64_t c = 0; c < columns; c++)
					v[row * columns + c] -= factor * v[k * columns + c];
			}
			for (int64_t c = 0; c < columns && !unit.whole; c++)
				v[row * columns + c] /= matrix[row * n + row];
		}
	}
	if (done) {
		write_all(&out, x);
		move(&copy, &a);
	}
	free(x);
	free(m);
	return done;
}
