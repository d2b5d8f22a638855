/* Operators that put the elements of each line of a tensor in order. */
#include "compute.h"

/* Where the elements of a line go: their values and their places, each of which may be missing. */
typedef struct ordered {
	tensor self, values, places;
	bool with_values, descending;
	int dim;
	int64_t n; /* elements of a line that are stored */
} ordered;

/* A number is a line of one element. */
static bool line_of(const block *b, uint32_t param, tensor *t)
{
	if (!tensor_of(b, param, 0, t))
		return false;
	if (!t->num_dims)
		*t = with_dims(t, 1);
	return true;
}

static int by_value_down(const void *a, const void *b)
{
	const ranked *x = a, *y = b;
	int c = by_value(a, b);

	/* Places differ, so those of equal elements decide. */
	bool equal = (x->real != x->real && y->real != y->real) || (x->real == y->real && x->whole == y->whole);
	return equal ? c : -c;
}

/* Stores the first elements of a line, which is in memory as often as its places say. */
static void store_line(const ordered *w, const ranked *line, char *values, char *places)
{
	for (int64_t i = 0; i < w->n; i++) {
		if (w->with_values) {
			char *to = values + i * w->values.strides[w->dim];
			if (is_real(w->self.dtype))
				store_real(to, 0, w->values.dtype, &line[i].real, 1);
			else
				store_whole(to, 0, w->values.dtype, &line[i].whole, 1);
		}
		store_whole(places + i * w->places.strides[w->dim], 0, w->places.dtype, &line[i].place, 1);
	}
}

static bool put_in_order(const ordered *w)
{
	tensor self = w->self, values = w->with_values ? w->values : w->places, places = w->places;
	int64_t size = self.dims[w->dim], step = self.strides[w->dim];
	ranked *line = malloc((size_t)(size + 1) * sizeof *line);
	const tensor *list[] = {&self, &values, &places};
	rows r;

	if (!line)
		return false;
	self.dims[w->dim] = values.dims[w->dim] = places.dims[w->dim] = size > 0;
	for (rows_begin(&r, 3, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++) {
			const char *from = r.at[0] + i * r.step[0];
			for (int64_t k = 0; k < size; k++) {
				line[k] = (ranked){.place = k};
				load_real(&line[k].real, from + k * step, 0, self.dtype, 1);
				if (!is_real(self.dtype))
					load_whole(&line[k].whole, from + k * step, 0, self.dtype, 1);
			}
			qsort(line, (size_t)size, sizeof *line, w->descending ? by_value_down : by_value);
			store_line(w, line, r.at[1] + i * r.step[1], r.at[2] + i * r.step[2]);
		}
	free(line);
	return true;
}

/* self, dim, descending, out: places. Elements that are equal keep their order, and NaNs are the largest. */
bool argsort(const block *b, const operator *o, bool dry)
{
	ordered w = {0};
	number at = number_of(b, 1, 0), descending = number_of(b, 2, 0);

	(void)o;
	if (!line_of(b, 0, &w.self) || !line_of(b, 3, &w.places) || !same_dims(&w.self, &w.places) || is_real(w.places.dtype) || !at.given || !descending.given ||
	    !dim_of(&w.self, at.whole, &w.dim))
		return false;
	w.descending = descending.whole;
	w.n = w.self.dims[w.dim];
	return dry || put_in_order(&w);
}

/* self, stable, dim, descending, valuesOut, indicesOut */
bool sort(const block *b, const operator *o, bool dry)
{
	ordered w = {.with_values = true};
	number at = number_of(b, 2, 0), descending = number_of(b, 3, 0);

	(void)o;
	if (!line_of(b, 0, &w.self) || !line_of(b, 4, &w.values) || !line_of(b, 5, &w.places) || !same_dims(&w.self, &w.values) || !same_dims(&w.self, &w.places) ||
	    w.values.dtype != w.self.dtype || is_real(w.places.dtype) || !at.given || !descending.given || !dim_of(&w.self, at.whole, &w.dim))
		return false;
	w.descending = descending.whole;
	w.n = w.self.dims[w.dim];
	return dry || put_in_order(&w);
}

/* self, k, dim, largest, sorted, valuesOut, indicesOut. Results are always in order. */
bool top(const block *b, const operator *o, bool dry)
{
	ordered w = {.with_values = true};
	number k = number_of(b, 1, 0), at = number_of(b, 2, 0), largest = number_of(b, 3, 0);

	(void)o;
	if (!line_of(b, 0, &w.self) || !line_of(b, 5, &w.values) || !line_of(b, 6, &w.places) || !same_dims(&w.values, &w.places) || w.values.dtype != w.self.dtype ||
	    is_real(w.places.dtype) || !k.given || !at.given || !largest.given || !dim_of(&w.self, at.whole, &w.dim) || w.values.num_dims != w.self.num_dims)
		return false;
	w.descending = largest.whole;
	w.n = k.whole;
	if (w.n < 0 || w.n > w.self.dims[w.dim] || w.values.dims[w.dim] != w.n)
		return false;
	tensor lines = w.values;
	lines.dims[w.dim] = w.self.dims[w.dim];
	return same_dims(&lines, &w.self) && (dry || put_in_order(&w));
}
