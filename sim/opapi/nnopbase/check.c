/*
 * Shapes that phase one refuses. The operator's row has the rule, and names the document. The tensors of an operator with a rule are no lists.
 */
#include <stdio.h>
#include <string.h>

#include "executor.h"

typedef struct shape {
	int n;
	int64_t dims[MAX_DIMS];
} shape;

static shape shape_of(const aclTensor *t)
{
	shape s = {.n = t->num_dims};

	memcpy(s.dims, t->dims, sizeof s.dims);
	return s;
}

static bool equal(const shape *a, const shape *b) { return a->n == b->n && !memcmp(a->dims, b->dims, (size_t)a->n * sizeof *a->dims); }

/* Sets *a to the shape that both have after they are broadcast. Dims are aligned at their ends, and dims of 1 repeat. */
static bool broadcast(shape *a, const shape *b)
{
	shape to = {.n = a->n > b->n ? a->n : b->n};

	for (int d = 1; d <= to.n; d++) {
		int64_t x = d <= a->n ? a->dims[a->n - d] : 1, y = d <= b->n ? b->dims[b->n - d] : 1;
		if (x != y && x != 1 && y != 1)
			return false;
		to.dims[to.n - d] = x == 1 ? y : x;
	}
	*a = to;
	return true;
}

/* Sets *a to the shape of the product of two matrices, of vectors, or of batches of matrices. */
static bool product(shape *a, const shape *b)
{
	if (a->n == 0 || b->n == 0)
		return false;
	bool row = a->n > 1, column = b->n > 1; /* of the result */
	int64_t rows = row ? a->dims[a->n - 2] : 1, columns = b->dims[b->n - 1], inner = b->dims[b->n - 1 - column];
	shape batch = {.n = row ? a->n - 2 : 0}, other = {.n = column ? b->n - 2 : 0};

	memcpy(batch.dims, a->dims, sizeof batch.dims);
	memcpy(other.dims, b->dims, sizeof other.dims);
	if (a->dims[a->n - 1] != inner || !broadcast(&batch, &other))
		return false;
	if (row)
		batch.dims[batch.n++] = rows;
	if (column)
		batch.dims[batch.n++] = columns;
	*a = batch;
	return true;
}

enum { SHAPE_TEXT = 128 };

static const char *print(const shape *s, char *to)
{
	size_t at = (size_t)snprintf(to, SHAPE_TEXT, "[");

	for (int d = 0; d < s->n && at < SHAPE_TEXT; d++)
		at += (size_t)snprintf(to + at, SHAPE_TEXT - at, "%s%lld", d ? "," : "", (long long)s->dims[d]);
	if (at < SHAPE_TEXT)
		snprintf(to + at, SHAPE_TEXT - at, "]");
	return to;
}

/* mismatch reports two shapes. */
static int32_t mismatch(const char *text, const char *what, const shape *a, const shape *b)
{
	char x[SHAPE_TEXT], y[SHAPE_TEXT];

	return report(OPAPI_INVALID, text, "the shapes %s and %s %s", print(a, x), print(b, y), what);
}

int32_t check_shapes(const char *text, const uint64_t *args)
{
	const char *types = text_types(text), *roles = text_roles(text), *rule = text_shapes(text);
	shape in[3], out = {0};
	int inputs = 0;

	if (!*rule)
		return OPAPI_OK;
	for (size_t i = 0; types[i]; i++) {
		if (roles[i] == '-' || roles[i] == 'N' || !args[i])
			continue;
		shape s = shape_of((const aclTensor *)(uintptr_t)args[i]);
		uint8_t role = role_of(roles[i]);
		if ((role & ACLSIM_OPERATOR_IN) && inputs < 3)
			in[inputs++] = s;
		if (role & ACLSIM_OPERATOR_OUT)
			out = s;
	}
	if (inputs < 2)
		return OPAPI_OK;
	shape want = in[inputs - 2], *last = &in[inputs - 1];
	if (!strcmp(rule, "product")) {
		if (!product(&want, last))
			return mismatch(text, "have no product", &in[inputs - 2], last);
		shape sum = in[0];
		if (inputs == 3 && (!broadcast(&sum, &want) || !equal(&sum, &want)))
			return mismatch(text, "can't be added", &in[0], &want);
	} else if (!broadcast(&want, last)) {
		return mismatch(text, "can't be broadcast", &in[inputs - 2], last);
	}
	return equal(&want, &out) ? OPAPI_OK : mismatch(text, "are those of the result and of its tensor", &want, &out);
}
