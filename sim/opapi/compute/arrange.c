/* Operators that copy elements to places which dims, arrays of integers and lists of rows decide. */
#include "compute.h"

/* self, dims, out: dim i of the result is dims[i] of self */
bool permute(const block *b, const operator *o, bool dry)
{
	tensor self, out, view;
	uint32_t n;
	const int64_t *dims = ints_of(b, 1, &n);
	unsigned seen = 0;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &out) || self.dtype != out.dtype || (int)n != self.num_dims)
		return false;
	view = self;
	for (uint32_t i = 0; i < n; i++) {
		int d;
		if (!dim_of(&self, dims[i], &d))
			return false;
		seen |= 1u << d;
		view.dims[i] = self.dims[d];
		view.strides[i] = self.strides[d];
	}
	if (seen != (1u << n) - 1 || !same_dims(&view, &out))
		return false;
	if (!dry)
		move(&out, &view);
	return true;
}

/* Copies a tensor to each of the tiles of another one: places has a tile at each element. */
static void move_to_tiles(const tensor *places, const tensor *tile, const tensor *from)
{
	tensor to = *tile;
	rows r;

	for (rows_begin(&r, 1, &places); !r.done; rows_next(&r))
		for (int64_t i = 0; i < r.length; i++) {
			to.at = r.at[0] + i * r.step[0];
			move(&to, from);
		}
}

/* self, repeats, out: tiles of self side by side */
bool repeat(const block *b, const operator *o, bool dry)
{
	tensor self, out;
	uint32_t n;
	const int64_t *repeats = ints_of(b, 1, &n);

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &out) || self.dtype != out.dtype || (int)n != out.num_dims || self.num_dims > out.num_dims)
		return false;
	self = with_dims(&self, out.num_dims);
	tensor places = out, tile = out;
	for (uint32_t d = 0; d < n; d++) {
		if (repeats[d] < 0 || repeats[d] > MAX_COUNT || out.dims[d] != repeats[d] * self.dims[d])
			return false;
		places.dims[d] = repeats[d];
		places.strides[d] = out.strides[d] * self.dims[d];
		tile.dims[d] = self.dims[d];
	}
	if (!dry && count_of(&out))
		move_to_tiles(&places, &tile, &self);
	return true;
}

/* self, repeats, dim, outputSize, out: each element of a dim some times in a row */
bool repeat_elements(const block *b, const operator *o, bool dry)
{
	tensor self, out;
	number repeats = number_of(b, 1, 0), at = number_of(b, 2, 0);
	int dim;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 4, 0, &out) || self.dtype != out.dtype || !self.num_dims || self.num_dims != out.num_dims || !repeats.given || !at.given ||
	    !dim_of(&self, at.whole, &dim) || repeats.whole < 0 || repeats.whole > MAX_COUNT)
		return false;
	tensor tile = out, places = {.at = out.at, .num_dims = 1, .dims = {repeats.whole}, .strides = {out.strides[dim]}};
	tile.dims[dim] = self.dims[dim];
	tile.strides[dim] = out.strides[dim] * repeats.whole;
	if (!same_dims(&tile, &self) || out.dims[dim] != repeats.whole * self.dims[dim])
		return false;
	if (!dry && count_of(&out))
		move_to_tiles(&places, &tile, &self);
	return true;
}

/* Copies the parts before and after the end of each dim. */
static void roll_dims(tensor to, tensor from, const int64_t *shift, int dim)
{
	if (dim == to.num_dims) {
		move(&to, &from);
		return;
	}
	int64_t n = to.dims[dim], head = n - shift[dim];
	for (int part = 0; part < 2; part++) {
		tensor t = to, f = from;
		t.dims[dim] = f.dims[dim] = part ? shift[dim] : head;
		t.at += part ? 0 : shift[dim] * to.strides[dim];
		f.at += part ? head * from.strides[dim] : 0;
		if (t.dims[dim])
			roll_dims(t, f, shift, dim + 1);
	}
}

/* x, shifts, dims, out. Elements move along each dim, and from its end to its begin. */
bool roll(const block *b, const operator *o, bool dry)
{
	tensor x, out;
	uint32_t n, num_shifts;
	const int64_t *shifts = ints_of(b, 1, &num_shifts), *dims = ints_of(b, 2, &n);
	int64_t shift[MAX_DIMS] = {0};

	(void)o;
	/* Without dims, elements move in the order of all. */
	if (!tensor_of(b, 0, 0, &x) || !tensor_of(b, 3, 0, &out) || x.dtype != out.dtype || !same_dims(&x, &out) || !n || n != num_shifts)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		int d;
		if (!dim_of(&x, dims[i], &d))
			return false;
		int64_t size = x.num_dims && x.dims[d] ? x.dims[d] : 1, by = shifts[i] % size;
		shift[d] = (shift[d] + by + size) % size;
	}
	if (!dry && count_of(&x))
		roll_dims(out, x, shift, 0);
	return true;
}

/* self, dim, start, end, step, out */
bool slice(const block *b, const operator *o, bool dry)
{
	tensor self, out;
	number at = number_of(b, 1, 0), limits[3] = {number_of(b, 2, 0), number_of(b, 3, 0), number_of(b, 4, 0)};
	int dim;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 5, 0, &out) || self.dtype != out.dtype || !self.num_dims || !at.given || !dim_of(&self, at.whole, &dim) || limits[2].whole < 1)
		return false;
	int64_t n = self.dims[dim], step = limits[2].whole < n ? limits[2].whole : n + 1;
	for (int k = 0; k < 2; k++) {
		int64_t *v = &limits[k].whole;
		*v = *v < 0 && *v >= -n ? *v + n : *v < 0 ? 0 : *v;
		*v = *v > n ? n : *v;
	}
	self.dims[dim] = limits[1].whole > limits[0].whole ? (limits[1].whole - limits[0].whole + step - 1) / step : 0;
	if (!same_dims(&self, &out))
		return false;
	self.at += limits[0].whole * self.strides[dim];
	self.strides[dim] *= step;
	if (!dry && count_of(&out))
		move(&out, &self);
	return true;
}

/* self, padding, out: the last dim, with the elements next to its ends in reverse */
bool reflection_pad(const block *b, const operator *o, bool dry)
{
	tensor self, out;
	uint32_t n;
	const int64_t *padding = ints_of(b, 1, &n);

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &out) || self.dtype != out.dtype || n != 2 || !self.num_dims || self.num_dims != out.num_dims)
		return false;
	int last = self.num_dims - 1;
	int64_t size = self.dims[last], wide = out.dims[last];
	if (padding[0] < 0 || padding[1] < 0 || padding[0] >= size || padding[1] >= size || wide != size + padding[0] + padding[1])
		return false;
	self.num_dims = out.num_dims = last;
	if (!same_dims(&self, &out))
		return false;
	for (int64_t i = 0; !dry && i < wide; i++) {
		int64_t from = i - padding[0];
		from = from < 0 ? -from : from >= size ? 2 * (size - 1) - from : from;
		tensor x = self, to = out;
		x.at += from * self.strides[last];
		to.at += i * out.strides[last];
		move(&to, &x);
	}
	return true;
}

/* The place in a dim of the element that is nearest to one of the result: computed in 32 bits, as frameworks do. */
static int64_t nearest(int64_t i, int64_t from, int64_t to)
{
	float scale = (float)from / (float)to;
	int64_t place = (int64_t)floorf((float)i * scale);

	return place < from ? place : from - 1;
}

/* self, outputSize, out */
bool upsample_nearest(const block *b, const operator *o, bool dry)
{
	tensor self, out;
	uint32_t n;
	const int64_t *size = ints_of(b, 1, &n);

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !tensor_of(b, 2, 0, &out) || self.dtype != out.dtype || n != 2 || self.num_dims != 4 || out.num_dims != 4 || !self.dims[2] || !self.dims[3] ||
	    out.dims[2] != size[0] || out.dims[3] != size[1])
		return false;
	self.num_dims = out.num_dims = 2;
	if (!same_dims(&self, &out))
		return false;
	for (int64_t i = 0; !dry && i < size[0]; i++)
		for (int64_t k = 0; k < size[1]; k++) {
			tensor x = self, to = out;
			x.at += nearest(i, self.dims[2], size[0]) * self.strides[2] + nearest(k, self.dims[3], size[1]) * self.strides[3];
			to.at += i * out.strides[2] + k * out.strides[3];
			move(&to, &x);
		}
	return true;
}

/* selfRef, dim, index, value: elements at places of a dim become a number */
bool index_fill(const block *b, const operator *o, bool dry)
{
	tensor self;
	number at = number_of(b, 1, 0), value = number_of(b, 3, 0);
	uint32_t n;
	const int64_t *index = ints_of(b, 2, &n);
	int dim;

	(void)o;
	if (!tensor_of(b, 0, 0, &self) || !self.num_dims || !at.given || !value.given || !dim_of(&self, at.whole, &dim))
		return false;
	int64_t size = self.dims[dim], step = self.strides[dim];
	for (uint32_t i = 0; i < n; i++)
		if (index[i] < -size || index[i] >= size)
			return false;
	if (dry)
		return true;
	squeeze(&self, dim);
	const tensor *list[] = {&self};
	for (uint32_t k = 0; k < n; k++) {
		rows r;
		for (rows_begin(&r, 1, list); !r.done; rows_next(&r))
			for (int64_t i = 0; i < r.length; i++) {
				char *to = r.at[0] + i * r.step[0] + (index[k] < 0 ? index[k] + size : index[k]) * step;
				if (value.is_real)
					store_real(to, 0, self.dtype, &value.real, 1);
				else
					store_whole(to, 0, self.dtype, &value.whole, 1);
			}
	}
	return true;
}
