/* Products of matrices. Each element is a sum in the order of the common dim, in 32 bits; in 64 bits if the operands have them. */
#include "compute.h"

/* The views of a product: out[..., m, n] = a[..., m, k] b[..., k, n]. */
typedef struct product {
	tensor a, b, out;
	int64_t m, n, k;
} product;

static void squeeze(tensor *t, int dim)
{
	for (int d = dim; d + 1 < t->num_dims; d++) {
		t->dims[d] = t->dims[d + 1];
		t->strides[d] = t->strides[d + 1];
	}
	t->num_dims--;
}

static bool insert(tensor *t, int dim)
{
	if (t->num_dims == MAX_DIMS)
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

/* shape makes matrices of vectors and checks the dims. */
static bool shape(product *p)
{
	if (p->a.num_dims < 1 || p->b.num_dims < 1 || !is_real(p->a.dtype) || p->a.dtype != p->b.dtype)
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

#define MULTIPLY(name, type)                                                                              \
	static void name(type *restrict c, const type *restrict a, const type *restrict b, int64_t n, int64_t k) \
	{                                                                                                 \
		memset(c, 0, (size_t)n * sizeof *c);                                                      \
		for (int64_t j = 0; j < k; j++) {                                                         \
			type v = a[j];                                                                    \
			const type *row = b + j * n;                                                      \
			for (int64_t i = 0; i < n; i++)                                                   \
				c[i] += v * row[i];                                                       \
		}                                                                                         \
	}

MULTIPLY(multiply_floats, float)
MULTIPLY(multiply_doubles, double)

/* plus has the tensor that is added, with factors for it and for the product; NULL for none. */
static bool multiply(product *p, const tensor *plus, double beta, double alpha)
{
	tensor batch[4] = {p->out, p->a, p->b, plus ? *plus : p->out};
	const tensor *list[] = {&batch[0], &batch[1], &batch[2], &batch[3]};
	int d = p->out.num_dims;
	bool wide = p->a.dtype == F64;
	rows r;

	if (p->m == 0 || p->n == 0)
		return true;
	for (int i = 0; i < 4; i++)
		batch[i].num_dims = d - 2;
	void *line = malloc((size_t)p->n * sizeof(double));
	double *sum = malloc((size_t)p->n * sizeof(double)), *more = malloc((size_t)p->n * sizeof(double));
	bool done = line && sum && more;
	for (rows_begin(&r, 4, list); done && !r.done; rows_next(&r))
		for (int64_t i = 0; done && i < r.length; i++) {
			tensor a = p->a, b = p->b;
			a.at = r.at[1] + i * r.step[1];
			b.at = r.at[2] + i * r.step[2];
			for (int k = 0; k < d - 2; k++) {
				squeeze(&a, 0);
				squeeze(&b, 0);
			}
			void *left = wide ? (void *)read_all(&a) : (void *)read_floats(&a), *right = wide ? (void *)read_all(&b) : (void *)read_floats(&b);
			done = left && right;
			for (int64_t row = 0; done && row < p->m; row++) {
				if (wide)
					multiply_doubles(line, (double *)left + row * p->k, right, p->n, p->k);
				else
					multiply_floats(line, (float *)left + row * p->k, right, p->n, p->k);
				for (int64_t k = 0; k < p->n; k++)
					sum[k] = alpha * (wide ? ((double *)line)[k] : (double)((float *)line)[k]);
				if (plus && beta != 0) {
					load_real(more, r.at[3] + i * r.step[3] + row * plus->strides[d - 2], plus->strides[d - 1], plus->dtype, p->n);
					for (int64_t k = 0; k < p->n; k++)
						sum[k] += beta * more[k];
				}
				store_real(r.at[0] + i * r.step[0] + row * p->out.strides[d - 2], p->out.strides[d - 1], p->out.dtype, sum, p->n);
			}
			free(left);
			free(right);
		}
	free(line);
	free(sum);
	free(more);
	return done;
}

/* self, mat2, out, cubeMathType */
bool matmul(const block *b, const operator *o, bool dry)
{
	product p;

	(void)o;
	return tensor_of(b, 0, 0, &p.a) && tensor_of(b, 1, 0, &p.b) && tensor_of(b, 2, 0, &p.out) && shape(&p) && (dry || multiply(&p, NULL, 0, 1));
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
	return dry || multiply(&p, &plus, beta.real, alpha.real);
}
