/* Freezes the arguments of an operator into a block. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "executor.h"

_Static_assert(sizeof(aclsim_operator_block) == 56, "the header of a block");
_Static_assert(sizeof(aclsim_operator_param) == 16, "a parameter of a block");
_Static_assert(sizeof(aclsim_operator_scalar) == 24, "a scalar of a block");
_Static_assert(sizeof(aclsim_operator_tensor) == 40, "a tensor of a block");

/* The largest block that a launch takes. */
enum { MAX_BLOCK = 64 << 10 };

const char *text_types(const char *text) { return text + strlen(text) + 1; }
const char *text_roles(const char *text) { return text_types(text_types(text)); }
const char *text_shapes(const char *text) { return text_types(text_roles(text)); }

aclsim_operator_param *block_params(aclsim_operator_block *b) { return (void *)((char *)b + b->params); }
aclsim_operator_tensor *block_tensors(aclsim_operator_block *b) { return (void *)((char *)b + b->tensors); }

aclsim_operator_block *block_copy(const aclsim_operator_block *b)
{
	aclsim_operator_block *c = malloc(b->size);

	return c ? memcpy(c, b, b->size) : NULL;
}

/* The part of a block that belongs to one parameter. */
typedef struct need {
	enum kind kind;     /* of the handle; KINDS if the parameter has none */
	uint64_t count;     /* elements */
	size_t value;       /* bytes of the value */
	const void *source; /* of the value, NULL if it is not copied as a whole */
} need;

static uint64_t up(uint64_t n) { return (n + 7) & ~UINT64_C(7); }

/* need_of describes an argument that is not null. It returns false if a handle is not of its kind. */
static bool need_of(char type, const uint64_t *arg, need *n)
{
	static const struct {
		char type;
		enum kind kind;
		size_t element;
	} handles[] = {{'T', TENSOR, 0},  {'t', TENSOR, 0}, {'L', TENSORS, 0},			     {'l', TENSORS, 0}, {'S', SCALAR, sizeof(aclsim_operator_scalar)},
		       {'I', INTS, 8},    {'F', FLOATS, 4}, {'A', SCALARS, sizeof(aclsim_operator_scalar)}, {'B', BOOLS, 1}};
	const void *p = (const void *)(uintptr_t)*arg;

	*n = (need){KINDS, 1, 8, arg};
	for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
		if (handles[i].type != type)
			continue;
		n->kind = handles[i].kind;
		if (!handle_is(p, n->kind))
			return false;
		if (n->kind != TENSOR && n->kind != SCALAR)
			n->count = ((const array *)p)->count;
		n->value = n->count * handles[i].element;
		n->source = n->kind == INTS || n->kind == FLOATS || n->kind == BOOLS ? ((const array *)p)->data : NULL;
		return true;
	}
	if (type == 's') {
		n->value = n->count = strnlen(p, MAX_BLOCK);
		n->source = p;
	} else if (type == 'p') {
		n->value = 0;
	}
	return true;
}

static bool is_pointer(char type) { return !strchr("iujhcbdf", type); }
static bool is_tensor(char type) { return type && strchr("TtLl", type); }

/* The tensors of an argument. */
static const aclTensor *const *tensors_of(const need *n, const uint64_t *arg)
{
	return n->kind == TENSOR ? (const aclTensor *const *)arg : ((const array *)(uintptr_t)*arg)->data;
}

static uint64_t dims_size(const aclTensor *t) { return t ? 8 * (2 * (uint64_t)t->num_dims + t->num_storage_dims) : 0; }

/* measure adds up the parts of a block. */
static int32_t measure(const char *text, const uint64_t *args, uint64_t *tensors, uint64_t *values)
{
	const char *types = text_types(text), *roles = text_roles(text);

	for (size_t i = 0; types[i]; i++) {
		need n;
		if (is_pointer(types[i]) && !args[i]) {
			if (roles[i] >= 'A' && roles[i] <= 'Z')
				return report(OPAPI_NULL_POINTER, text, "parameter %zu is null", i);
			continue;
		}
		if (!need_of(types[i], &args[i], &n))
			return report(OPAPI_INVALID, text, "parameter %zu has ended, or never was a handle of its type", i);
		*values += up(n.value);
		if (!is_tensor(types[i]))
			continue;
		const aclTensor *const *t = tensors_of(&n, &args[i]);
		for (uint64_t k = 0; k < n.count; k++) {
			if (t[k] && !handle_is(t[k], TENSOR))
				return report(OPAPI_INVALID, text, "element %llu of parameter %zu has ended, or never was a tensor", (unsigned long long)k, i);
			*values += dims_size(t[k]);
		}
		*tensors += n.count;
	}
	return OPAPI_OK;
}

static void put_scalar(aclsim_operator_scalar *to, const aclScalar *s)
{
	if (!handle_is(s, SCALAR)) /* a null element of a list */
		return;
	to->dtype = (uint32_t)s->dtype;
	memcpy(to->value, s->value, sizeof to->value);
}

/* Positions that advance while a block is filled. */
typedef struct cursor {
	aclsim_operator_block *block;
	uint32_t tensor, value;
} cursor;

uint8_t role_of(char letter)
{
	switch (letter | 0x20) {
	case 'i':
		return ACLSIM_OPERATOR_IN;
	case 'o':
	case 'd':
		return ACLSIM_OPERATOR_OUT;
	case 'b':
	case 'x':
		return ACLSIM_OPERATOR_IN | ACLSIM_OPERATOR_OUT;
	}
	return 0;
}

static void put_tensor(cursor *c, const aclTensor *t, char role, uint32_t param, uint32_t position)
{
	aclsim_operator_tensor *to = &block_tensors(c->block)[c->tensor++];
	int64_t *dims = (int64_t *)((char *)c->block + c->value);

	to->role = role_of(role);
	to->flags = (role | 0x20) == 'x' ? ACLSIM_OPERATOR_ROLE_UNKNOWN : 0;
	to->param = param;
	to->position = position;
	to->dims = c->value;
	if (!t) {
		to->flags |= ACLSIM_OPERATOR_ABSENT;
		return;
	}
	to->base = (uint64_t)(uintptr_t)t->base;
	to->offset = t->offset;
	to->dtype = t->dtype;
	to->format = t->format;
	to->num_dims = t->num_dims;
	to->num_storage_dims = t->num_storage_dims;
	memcpy(dims, t->dims, 8 * (size_t)t->num_dims);
	memcpy(dims + t->num_dims, t->strides, 8 * (size_t)t->num_dims);
	memcpy(dims + 2 * t->num_dims, t->storage, 8 * (size_t)t->num_storage_dims);
	c->value += (uint32_t)dims_size(t);
}

static void put_param(cursor *c, uint32_t i, char type, char role, const uint64_t *arg)
{
	aclsim_operator_param *p = &block_params(c->block)[i];
	need n;

	p->type = (uint8_t)type;
	p->value = is_tensor(type) ? c->tensor : c->value;
	p->null = is_pointer(type) && !*arg;
	if (p->null || !need_of(type, arg, &n))
		return;
	p->count = (uint32_t)n.count;
	if (is_tensor(type)) {
		const aclTensor *const *t = tensors_of(&n, arg);
		for (uint32_t k = 0; k < n.count; k++)
			put_tensor(c, t[k], role, i, k);
		return;
	}
	void *to = (char *)c->block + c->value;
	if (n.source && n.value)
		memcpy(to, n.source, n.value);
	if (n.kind == SCALAR)
		put_scalar(to, (const aclScalar *)(uintptr_t)*arg);
	for (uint32_t k = 0; n.kind == SCALARS && k < n.count; k++)
		put_scalar((aclsim_operator_scalar *)to + k, ((const aclScalar *const *)((const array *)(uintptr_t)*arg)->data)[k]);
	c->value += (uint32_t)up(n.value);
}

aclsim_operator_block *block_make(const char *text, const uint64_t *args, int32_t *error)
{
	const char *types = text_types(text), *roles = text_roles(text);
	uint64_t params = strlen(types), name = strlen(text) + 1, tensors = 0, values = 0;
	aclsim_operator_block head = {.magic = ACLSIM_OPERATOR_MAGIC, .version = ACLSIM_OPERATOR_VERSION};

	if ((*error = measure(text, args, &tensors, &values)))
		return NULL;
	uint64_t at = sizeof head + params * sizeof(aclsim_operator_param) + tensors * sizeof(aclsim_operator_tensor);
	uint64_t size = at + up(name) + values;
	if (size > MAX_BLOCK) {
		*error = report(OPAPI_INVALID, text, "the arguments take %llu bytes with %llu tensors: a launch takes at most %d bytes", (unsigned long long)size,
				(unsigned long long)tensors, MAX_BLOCK);
		return NULL;
	}
	aclsim_operator_block *b = calloc(1, size);
	if (!b) {
		*error = OPAPI_NO_EXECUTOR;
		return NULL;
	}
	*b = head;
	b->size = (uint32_t)size;
	b->params = sizeof head;
	b->num_params = (uint32_t)params;
	b->tensors = (uint32_t)(sizeof head + params * sizeof(aclsim_operator_param));
	b->num_tensors = (uint32_t)tensors;
	b->name = (uint32_t)at;
	memcpy((char *)b + at, text, name);
	cursor c = {b, 0, (uint32_t)(at + up(name))};
	for (uint32_t i = 0; i < params; i++)
		put_param(&c, i, types[i], roles[i], &args[i]);
	return b;
}
