/*
 * Shapes of results that follow from what tensors contain. When the launch has run, the operand that decides is copied to the host and counted here.
 * Types and formats that no operator computes leave the largest shape.
 */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "executor.h"

/* The elements of an operand, in the order of its dims: as bits, with one zero. */
typedef struct elements {
	uint64_t n, *bits;
	uint64_t infinity; /* larger bits, without their sign, are not a number; 0 for whole numbers */
} elements;

static uint64_t width_of(int32_t dtype, uint64_t *infinity)
{
	*infinity = 0;
	switch (dtype) {
	case 0: /* float */
		*infinity = UINT64_C(0x7f800000);
		return 4;
	case 1: /* half */
		*infinity = 0x7c00;
		return 2;
	case 27: /* bfloat16 */
		*infinity = 0x7f80;
		return 2;
	case 11: /* double */
		*infinity = UINT64_C(0x7ff0000000000000);
		return 8;
	case 3:
		return 4;
	case 6:
		return 2;
	case 9:
		return 8;
	case 2:
	case 4:
	case 12:
		return 1;
	}
	return 0;
}

enum { MAX_ELEMENTS = 1 << 28 };

/* Reads a tensor from the device. False if it has another type or format, or the runtime refuses. */
static bool read_elements(const aclTensor *t, elements *to)
{
	uint64_t width = width_of(t->dtype, &to->infinity), n = 1, last = 0;

	for (int d = 0; d < t->num_dims; d++) {
		if (t->dims[d] < 0 || t->strides[d] < 0 || (t->dims[d] > 0 && n > (uint64_t)MAX_ELEMENTS / (uint64_t)t->dims[d]))
			return false;
		n *= (uint64_t)t->dims[d];
		last += (uint64_t)(t->dims[d] - (t->dims[d] > 0)) * (uint64_t)t->strides[d];
	}
	if (!width || last >= MAX_ELEMENTS)
		return false;
	char *host = malloc((last + 1) * width);
	to->bits = calloc(n + 1, sizeof *to->bits);
	to->n = n;
	bool done = host && to->bits && (!n || !aclrtMemcpy(host, (last + 1) * width, (const char *)t->base + (uint64_t)t->offset * width, (last + 1) * width, ACL_MEMCPY_DEVICE_TO_HOST));
	for (uint64_t i = 0; done && i < n; i++) {
		uint64_t at = 0, rest = i;
		for (int d = t->num_dims - 1; d >= 0; d--) {
			at += rest % (uint64_t)t->dims[d] * (uint64_t)t->strides[d];
			rest /= (uint64_t)t->dims[d];
		}
		memcpy(&to->bits[i], host + at * width, width);
		if (to->infinity && to->bits[i] == UINT64_C(1) << (8 * width - 1))
			to->bits[i] = 0;
	}
	free(host);
	return done;
}

static int64_t count_true(const elements *e)
{
	int64_t n = 0;

	for (uint64_t i = 0; i < e->n; i++)
		n += e->bits[i] != 0;
	return n;
}

static int by_bits(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* NaNs are equal to nothing. */
static int64_t count_unique(elements *e)
{
	uint64_t sign = (e->infinity << 1 | e->infinity) ^ e->infinity;
	int64_t n = 0;

	qsort(e->bits, e->n, sizeof *e->bits, by_bits);
	for (uint64_t i = 0; i < e->n; i++)
		n += i == 0 || e->bits[i] != e->bits[i - 1] || (e->infinity && (e->bits[i] & ~sign) > e->infinity);
	return n;
}

static void set_dims(aclTensor *t, uint8_t n, int64_t first, int64_t second)
{
	if (!t || !handle_is(t, TENSOR))
		return;
	t->num_dims = n;
	t->dims[0] = first;
	t->dims[1] = second;
	t->strides[0] = n == 2 ? second : 1;
	t->strides[1] = 1;
}

/* A mask repeats along the dims in which self is larger. */
static int64_t times(const aclTensor *self, const aclTensor *mask)
{
	int64_t n = 1;

	for (int d = 1; d <= self->num_dims; d++) {
		int64_t of_mask = d <= mask->num_dims ? mask->dims[mask->num_dims - d] : 1;
		if (of_mask == 1)
			n *= self->dims[self->num_dims - d];
	}
	return n;
}

void shapes_read(const char *name, const shaped *s, void *stream)
{
	aclTensor *const *t = s->tensors;
	bool masked = !strcmp(name, "aclnnMaskedSelect"), unique = !strcmp(name, "aclnnUnique2"), turned = !strcmp(name, "aclnnNonzeroV2");
	elements e = {0};

	if ((!masked && !unique && !turned && strcmp(name, "aclnnNonzero")) || !handle_is(t[0], TENSOR) || (masked && !handle_is(t[1], TENSOR)) || aclrtSynchronizeStream(stream))
		return;
	int64_t dims = t[0]->num_dims;
	if (read_elements(t[masked], &e) && !(masked && e.infinity)) { /* masks are no real numbers */
		int64_t n = unique ? count_unique(&e) : count_true(&e);
		if (masked)
			set_dims(t[2], 1, n * times(t[0], t[1]), 0);
		else if (unique) {
			set_dims(t[1], 1, n, 0);
			if (s->counts)
				set_dims(t[3], 1, n, 0);
		} else
			set_dims(t[1], 2, turned ? dims : n, turned ? n : dims);
	}
	free(e.bits);
}
