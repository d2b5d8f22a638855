/*
 * Handles of libnnopbase.so: tensors, scalars, arrays, lists and executors.
 *
 * Memory of handles is never given back, but used again for handles of the same kind, the latest first. So the use of an ended handle
 * is found, unless a new handle has its memory.
 */
#ifndef HANDLE_H
#define HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../opapi.h"

enum kind { TENSOR, SCALAR, INTS, FLOATS, BOOLS, TENSORS, SCALARS, EXECUTOR, KINDS };

/* The first member of each handle. */
typedef struct handle {
	_Atomic uint64_t live; /* a number for its kind, 0 once it has ended */
	struct handle *next;   /* free handles */
} handle;

/* handle_new returns a handle whose other members are undefined; NULL if memory is exhausted. */
void *handle_new(enum kind k);

/* handle_is reports whether a pointer is a live handle of a kind. */
bool handle_is(const void *h, enum kind k);

/* handle_end ends a handle. It returns false if the pointer is not one of this kind, or another thread was faster. */
bool handle_end(void *h, enum kind k);

/* handle_free lets an ended handle's memory be used again. */
void handle_free(void *h, enum kind k);

enum { MAX_DIMS = 25 };

typedef struct aclTensor {
	handle head;
	void *base; /* of the storage */
	int64_t offset;
	int32_t dtype, format;
	uint8_t num_dims, num_storage_dims;
	int64_t dims[MAX_DIMS], strides[MAX_DIMS], storage[MAX_DIMS];
} aclTensor;

typedef struct aclScalar {
	handle head;
	int32_t dtype;
	uint8_t value[16];
} aclScalar;

/* aclIntArray, aclFloatArray, aclBoolArray, and lists of tensors or scalars. */
typedef struct array {
	handle head;
	uint64_t count;
	void *data; /* of malloc */
} array;

/* report writes the reason of a refusal to the program's log, and returns the code. */
int32_t report(int32_t code, const char *func, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
