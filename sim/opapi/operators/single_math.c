/* Functions of libopapi_math.so that have one stage. */
#include <stdlib.h>

#include "operator.h"

int32_t aclGetViewShape(const void *tensor, int64_t **dims, uint64_t *count);
int32_t aclGetDataType(const void *tensor, int32_t *dtype);

/* Formats, with the numbers of aclFormat. */
enum { ND = 2, FRACTAL_NZ = 29, NCDHW = 30, NDC1HWC0 = 32, FRACTAL_Z_3D = 33 };

/* The elements of a block of 32 bytes; 16 for types of unknown size. */
static int64_t block_elements(int32_t dtype)
{
	static const int8_t bytes[] = {[0] = 4, [1] = 2, [2] = 1, [3] = 4, [4] = 1, [6] = 2, [7] = 2, [8] = 4, [12] = 1, [27] = 2, [34] = 1, [35] = 1, [36] = 1};
	int8_t n = dtype >= 0 && (size_t)dtype < sizeof bytes ? bytes[dtype] : 0;

	return n ? 32 / n : 16;
}

static int64_t blocks(int64_t n, int64_t of) { return (n + of - 1) / of; }

/* Writes the storage dims of a format, and returns how many there are; -1 if the tensor can't have the format. */
static int storage_dims(int32_t format, const int64_t *v, uint64_t n, int64_t c0, int64_t *out)
{
	switch (format) {
	case ND:
	case NCDHW:
		if (n > 8)
			return -1;
		memcpy(out, v, n * sizeof *v);
		return (int)n;
	case FRACTAL_NZ:
		if (n < 2 || n > 6)
			return -1;
		memcpy(out, v, (n - 2) * sizeof *v);
		out[n - 2] = blocks(v[n - 1], c0);
		out[n - 1] = blocks(v[n - 2], 16);
		out[n] = 16;
		out[n + 1] = c0;
		return (int)n + 2;
	case NDC1HWC0:
		if (n != 5)
			return -1;
		memcpy(out, (int64_t[]){v[0], v[2], blocks(v[1], c0), v[3], v[4], c0}, 6 * sizeof *v);
		return 6;
	case FRACTAL_Z_3D:
		if (n != 5)
			return -1;
		memcpy(out, (int64_t[]){v[2] * blocks(v[1], c0) * v[3] * v[4], blocks(v[0], 16), 16, c0}, 4 * sizeof *v);
		return 4;
	}
	return -1;
}

/* The caller frees the dims. additional_dtype is that of the blocks, -1 for the tensor's own. */
OPAPI_EXPORT int32_t aclnnNpuFormatCastCalculateSizeAndFormat(const void *source, int format, int additional_dtype, int64_t **dims, uint64_t *count, int *actual)
{
	int64_t *view = NULL, out[8];
	uint64_t n = 0;
	int32_t dtype = 0;

	if (!source || !dims || !count || !actual)
		return OPAPI_NULL_POINTER;
	if (aclGetViewShape(source, &view, &n) || aclGetDataType(source, &dtype))
		return OPAPI_INVALID;
	int k = storage_dims(format, view, n, block_elements(additional_dtype < 0 || format == NDC1HWC0 || format == FRACTAL_Z_3D ? dtype : additional_dtype), out);
	free(view);
	if (k < 0)
		return OPAPI_INVALID;
	if (!(*dims = malloc(sizeof out)))
		return OPAPI_NO_EXECUTOR;
	memcpy(*dims, out, (size_t)k * sizeof *out);
	*count = (uint64_t)k;
	*actual = format;
	return OPAPI_OK;
}

/* Selects the random numbers of PyTorch; none are computed. */
OPAPI_EXPORT int32_t aclnnSetPytorchRandom(int32_t on)
{
	(void)on;
	return OPAPI_OK;
}
