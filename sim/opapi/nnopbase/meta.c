/* Tensors, scalars, arrays and lists, which are the arguments of operators. */
#include <stdlib.h>
#include <string.h>

#include "handle.h"

typedef aclTensor T;

/* Copies a list of dims. It returns false if the list is too long, or absent. */
static bool copy_dims(int64_t *to, const int64_t *from, uint64_t n)
{
	if (n > MAX_DIMS || (n && !from))
		return false;
	if (n)
		memcpy(to, from, n * sizeof *to);
	return true;
}

static bool describe(T *t, const int64_t *view_dims, uint64_t num_dims, int32_t dtype, const int64_t *strides, int64_t offset, int32_t format,
		     const int64_t *storage_dims, uint64_t num_storage_dims, void *base)
{
	if (!copy_dims(t->dims, view_dims, num_dims) || !copy_dims(t->storage, storage_dims, num_storage_dims))
		return false;
	if (strides) {
		copy_dims(t->strides, strides, num_dims);
	} else { /* contiguous */
		int64_t stride = 1;
		for (uint64_t i = num_dims; i-- > 0; stride *= view_dims[i])
			t->strides[i] = stride;
	}
	t->num_dims = (uint8_t)num_dims;
	t->num_storage_dims = (uint8_t)num_storage_dims;
	t->dtype = dtype;
	t->format = format;
	t->offset = offset;
	t->base = base;
	return true;
}

OPAPI_EXPORT T *aclCreateTensor(const int64_t *view_dims, uint64_t num_dims, int32_t dtype, const int64_t *strides, int64_t offset, int32_t format,
				const int64_t *storage_dims, uint64_t num_storage_dims, void *base)
{
	T *t = handle_new(TENSOR);

	if (t && !describe(t, view_dims, num_dims, dtype, strides, offset, format, storage_dims, num_storage_dims, base)) {
		report(OPAPI_INVALID, __func__, "%llu dims and %llu of the storage: want an address and at most %d each", (unsigned long long)num_dims,
		       (unsigned long long)num_storage_dims, MAX_DIMS);
		handle_end(t, TENSOR);
		handle_free(t, TENSOR);
		return NULL;
	}
	return t;
}

OPAPI_EXPORT int32_t aclInitTensor(T *t, const int64_t *view_dims, uint64_t num_dims, int32_t dtype, const int64_t *strides, int64_t offset, int32_t format,
				   const int64_t *storage_dims, uint64_t num_storage_dims, void *base)
{
	if (!t)
		return report(OPAPI_NULL_POINTER, __func__, "the tensor is null");
	if (!handle_is(t, TENSOR) || !describe(t, view_dims, num_dims, dtype, strides, offset, format, storage_dims, num_storage_dims, base))
		return report(OPAPI_INVALID, __func__, "want a tensor, and at most %d dims", MAX_DIMS);
	return OPAPI_OK;
}

/* The bytes of a scalar by data type; 0 for types that no scalar has. */
static size_t scalar_size(int32_t dtype)
{
	static const uint8_t sizes[] = {[0] = 4, [1] = 2, [2] = 1, [3] = 4, [4] = 1, [6] = 2, [7] = 2, [8] = 4, [9] = 8, [10] = 8, [11] = 8, [12] = 1,
					[16] = 8, [17] = 16, [27] = 2, [33] = 4, [34] = 1, [35] = 1, [36] = 1, [37] = 1};

	return dtype >= 0 && (size_t)dtype < sizeof sizes ? sizes[dtype] : 0;
}

OPAPI_EXPORT aclScalar *aclCreateScalar(void *value, int32_t dtype)
{
	size_t n = scalar_size(dtype);

	if (!value || !n) {
		report(OPAPI_INVALID, __func__, "want an address and a data type of numbers, but got data type %d", dtype);
		return NULL;
	}
	aclScalar *s = handle_new(SCALAR);
	if (!s)
		return NULL;
	s->dtype = dtype;
	memset(s->value, 0, sizeof s->value);
	memcpy(s->value, value, n);
	return s;
}

static array *new_array(enum kind k, const char *func, const void *data, uint64_t count, size_t element)
{
	if ((count && !data) || count > UINT32_MAX) {
		report(OPAPI_INVALID, func, "%llu elements: want an address and at most %u", (unsigned long long)count, UINT32_MAX);
		return NULL;
	}
	array *a = handle_new(k);
	if (!a)
		return NULL;
	a->count = count;
	a->data = malloc(count ? count * element : 1);
	if (!a->data) {
		handle_end(a, k);
		handle_free(a, k);
		return NULL;
	}
	if (count)
		memcpy(a->data, data, count * element);
	return a;
}

OPAPI_EXPORT array *aclCreateIntArray(const int64_t *v, uint64_t n) { return new_array(INTS, __func__, v, n, sizeof *v); }
OPAPI_EXPORT array *aclCreateFloatArray(const float *v, uint64_t n) { return new_array(FLOATS, __func__, v, n, sizeof *v); }
OPAPI_EXPORT array *aclCreateBoolArray(const bool *v, uint64_t n) { return new_array(BOOLS, __func__, v, n, sizeof *v); }
OPAPI_EXPORT array *aclCreateTensorList(const T *const *v, uint64_t n) { return new_array(TENSORS, __func__, v, n, sizeof *v); }
OPAPI_EXPORT array *aclCreateScalarList(const aclScalar *const *v, uint64_t n) { return new_array(SCALARS, __func__, v, n, sizeof *v); }

/* Ends a handle; null is accepted. Elements of a list end with it. */
static int32_t destroy(const void *handle, enum kind k, const char *func)
{
	void *h = (void *)(uintptr_t)handle;

	if (!h)
		return OPAPI_OK;
	if (!handle_end(h, k))
		return report(OPAPI_INVALID, func, "%p has ended, or never was such a handle", h);
	if (k != TENSOR && k != SCALAR) {
		array *a = h;
		for (uint64_t i = 0; (k == TENSORS || k == SCALARS) && i < a->count; i++)
			destroy(((void **)a->data)[i], k == TENSORS ? TENSOR : SCALAR, func);
		free(a->data);
	}
	handle_free(h, k);
	return OPAPI_OK;
}

OPAPI_EXPORT int32_t aclDestroyTensor(const T *h) { return destroy(h, TENSOR, __func__); }
OPAPI_EXPORT int32_t aclDestroyScalar(const aclScalar *h) { return destroy(h, SCALAR, __func__); }
OPAPI_EXPORT int32_t aclDestroyIntArray(const array *h) { return destroy(h, INTS, __func__); }
OPAPI_EXPORT int32_t aclDestroyFloatArray(const array *h) { return destroy(h, FLOATS, __func__); }
OPAPI_EXPORT int32_t aclDestroyBoolArray(const array *h) { return destroy(h, BOOLS, __func__); }
OPAPI_EXPORT int32_t aclDestroyTensorList(const array *h) { return destroy(h, TENSORS, __func__); }
OPAPI_EXPORT int32_t aclDestroyScalarList(const array *h) { return destroy(h, SCALARS, __func__); }

/* Checks the arguments of a query. */
static int32_t check(const void *h, enum kind k, const void *out, const void *out2, const char *func)
{
	if (!h || !out || !out2)
		return report(OPAPI_NULL_POINTER, func, "the handle or a result is null");
	if (!handle_is(h, k))
		return report(OPAPI_INVALID, func, "%p has ended, or never was such a handle", h);
	return OPAPI_OK;
}

static int32_t give_dims(const int64_t *dims, uint64_t n, int64_t **out, uint64_t *count)
{
	int64_t *copy = malloc(n ? n * sizeof *copy : 1);
	if (!copy)
		return OPAPI_INNER_NULL;
	if (n)
		memcpy(copy, dims, n * sizeof *copy);
	*out = copy;
	*count = n;
	return OPAPI_OK;
}

/* The caller frees the dims. */
OPAPI_EXPORT int32_t aclGetViewShape(const T *t, int64_t **dims, uint64_t *count)
{
	int32_t e = check(t, TENSOR, dims, count, __func__);
	return e ? e : give_dims(t->dims, t->num_dims, dims, count);
}

OPAPI_EXPORT int32_t aclGetStorageShape(const T *t, int64_t **dims, uint64_t *count)
{
	int32_t e = check(t, TENSOR, dims, count, __func__);
	return e ? e : give_dims(t->storage, t->num_storage_dims, dims, count);
}

OPAPI_EXPORT int32_t aclGetViewStrides(const T *t, int64_t **strides, uint64_t *count)
{
	int32_t e = check(t, TENSOR, strides, count, __func__);
	return e ? e : give_dims(t->strides, t->num_dims, strides, count);
}

#define GETTER(name, handle_type, k, type, value)                    \
	OPAPI_EXPORT int32_t name(const handle_type *h, type *out)   \
	{                                                            \
		int32_t e = check(h, k, out, out, __func__);         \
		if (!e)                                              \
			*out = value;                                \
		return e;                                            \
	}

GETTER(aclGetViewOffset, T, TENSOR, int64_t, h->offset)
GETTER(aclGetFormat, T, TENSOR, int32_t, h->format)
GETTER(aclGetDataType, T, TENSOR, int32_t, h->dtype)
GETTER(aclGetRawTensorAddr, T, TENSOR, void *, h->base)
GETTER(aclGetIntArraySize, array, INTS, uint64_t, h->count)
GETTER(aclGetFloatArraySize, array, FLOATS, uint64_t, h->count)
GETTER(aclGetBoolArraySize, array, BOOLS, uint64_t, h->count)
GETTER(aclGetTensorListSize, array, TENSORS, uint64_t, h->count)
GETTER(aclGetScalarListSize, array, SCALARS, uint64_t, h->count)

OPAPI_EXPORT int32_t aclSetRawTensorAddr(T *t, void *base)
{
	int32_t e = check(t, TENSOR, t, t, __func__);
	if (!e)
		t->base = base;
	return e;
}
