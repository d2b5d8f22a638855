/* Operators whose result has as many elements as memory says. The result has room for all. Memory after the last element keeps its bytes. */
#include "compute.h"

/* The address of an element by its number in the order of the dims. */
static char *place_at(const tensor *t, int64_t place)
{
	char *at = t->at;

	for (int d = t->num_dims - 1; d >= 0; d--) {
		at += place % t->dims[d] * t->strides[d];
		place /= t->dims[d];
	}
	return at;
}

static void move_element(const tensor *to, int64_t place, const char *from) { memmove(place_at(to, place), from, (size_t)width_of(to->dtype)); }

static bool is_true(const char *at, int32_t dtype)
{
	double v;

	load_real(&v, at, 0, dtype, 1);
	return v != 0;
}

/* The dims of two tensors of which each may repeat. */
static bool common_dims(const tensor *a, const tensor *b, tensor *to)
{
	*to = (tensor){.num_dims = a->num_dims > b->num_dims ? a->num_dims : b->num_dims};
	tensor x = with_dims(a, to->num_dims), y = with_dims(b, to->num_dims);
	int64_t n = 1;
	for (int d = 0; d < to->num_dims; d++) {
		if (x.dims[d] != y.dims[d] && x.dims[d] != 1 && y.dims[d] != 1)
			return false;
		to->dims[d] = x.dims[d] == 1 ? y.dims[d] : x.dims[d];
		if (to->dims[d] && n > MAX_COUNT / to->dims[d])
			return false;
		n *= to->dims[d] ? to->dims[d] : 1;
	}
	return true;
}

/* self, mask, out */
bool masked_select(const block *b, const operator *o, bool dry)
{
	tensor self, mask, out, dims, list[2];

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 1, 0, &mask) || !tensor_of(b, 2, 0, &out) || out.dtype != self.dtype || width_of(mask.dtype) != 1 ||
	    !common_dims(&self, &mask, &dims) || !spread(&self, &dims, &list[0]) || !spread(&mask, &dims, &list[1]) || count_of(&out) < count_of(&dims))
		return false;
	if (dry)
		return true;
	const tensor *both[] = {&list[0], &list[1]};
	int64_t n = 0;
	rows r;
	for (rows_begin(&r, 2, both); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++)
			if (is_true(r.at[1] + i * r.step[1], mask.dtype))
				move_element(&out, n++, r.at[0] + i * r.step[0]);
	return true;
}

/* selfRef, mask, source: elements that are chosen become those of source, in order */
bool masked_scatter(const block *b, const operator *o, bool dry)
{
	tensor self, mask, source, wide;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 1, 0, &mask) || !tensor_of(b, 2, 0, &source) || source.dtype != self.dtype || width_of(mask.dtype) != 1 || !spread(&mask, &self, &wide))
		return false;
	if (dry)
		return true;
	const tensor *both[] = {&self, &wide};
	int64_t n = 0, all = count_of(&source);
	rows r;
	for (rows_begin(&r, 2, both); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++)
			n += is_true(r.at[1] + i * r.step[1], mask.dtype);
	if (n > all)
		return false;
	n = 0;
	for (rows_begin(&r, 2, both); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++)
			if (n < all && is_true(r.at[1] + i * r.step[1], mask.dtype))
				memmove(r.at[0] + i * r.step[0], place_at(&source, n++), (size_t)width_of(self.dtype));
	return true;
}

/* self, out: places of elements that are not 0, [number, dims]. kind 1: [dims, number], where a row has room for all before the number is known */
bool nonzero(const block *b, const operator *o, bool dry)
{
	tensor self, out;

	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 1, 0, &out) || out.dtype != I64 || out.num_dims != 2 || out.dims[o->kind ? 0 : 1] != self.num_dims ||
	    out.dims[o->kind ? 1 : 0] < count_of(&self))
		return false;
	if (dry)
		return true;
	int64_t all = count_of(&self), n = 0, found = 0;
	double *v = read_all(&self);
	if (!v)
		return false;
	for (int64_t i = 0; i < all; i++)
		n += v[i] != 0;
	for (int64_t i = 0; i < all; i++) {
		int64_t rest = i;
		for (int d = self.num_dims - 1; v[i] != 0 && d >= 0; d--) {
			int64_t at = rest % self.dims[d];
			rest /= self.dims[d];
			/* The result that the program sees later is dense, with the number for a dim. */
			move_element(&out, o->kind ? d * n + found : found * self.num_dims + d, (const char *)&at);
		}
		found += v[i] != 0;
	}
	free(v);
	return true;
}

int by_value(const void *a, const void *b)
{
	const ranked *x = a, *y = b;
	bool no_x = x->real != x->real, no_y = y->real != y->real;

	if (no_x || no_y ? no_x != no_y : x->real != y->real || x->whole != y->whole)
		return no_x || no_y ? no_x - no_y : x->real < y->real || (x->real == y->real && x->whole < y->whole) ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

/* self, sorted, returnInverse, returnCounts, valueOut, inverseOut, countsOut. Elements are always in order. */
bool unique(const block *b, const operator *o, bool dry)
{
	tensor self, values, inverse, counts;
	number with_inverse = number_of(b, 2, 0), with_counts = number_of(b, 3, 0);

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 4, 0, &values) || values.dtype != self.dtype || count_of(&values) < count_of(&self) || !with_inverse.given || !with_counts.given ||
	    (with_inverse.whole && (!tensor_of(b, 5, 0, &inverse) || inverse.dtype != I64 || count_of(&inverse) != count_of(&self))) ||
	    (with_counts.whole && (!tensor_of(b, 6, 0, &counts) || counts.dtype != I64 || count_of(&counts) < count_of(&self))))
		return false;
	if (dry)
		return true;
	int64_t all = count_of(&self), n = -1, at = 0, times = 0;
	ranked *sorted = malloc((size_t)(all + 1) * sizeof *sorted);
	const tensor *list[] = {&self};
	rows r;
	if (!sorted)
		return false;
	for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++, at++) {
			sorted[at] = (ranked){.place = at};
			load_real(&sorted[at].real, r.at[0] + i * r.step[0], 0, self.dtype, 1);
			if (!is_real(self.dtype))
				load_whole(&sorted[at].whole, r.at[0] + i * r.step[0], 0, self.dtype, 1);
		}
	qsort(sorted, (size_t)all, sizeof *sorted, by_value);
	for (int64_t i = 0; i < all; i++) {
		char element[8];
		if (i == 0 || sorted[i].real != sorted[i - 1].real || sorted[i].whole != sorted[i - 1].whole) {
			n++;
			times = 0;
			if (is_real(self.dtype))
				store_real(element, 0, self.dtype, &sorted[i].real, 1);
			else
				store_whole(element, 0, self.dtype, &sorted[i].whole, 1);
			move_element(&values, n, element);
		}
		times++;
		if (with_inverse.whole)
			move_element(&inverse, sorted[i].place, (const char *)&n);
		if (with_counts.whole)
			move_element(&counts, n, (const char *)&times);
	}
	free(sorted);
	return true;
}
