/* Functions of libopapi_nn.so that have one stage. */
#include <stdlib.h>

#include "operator.h"

int32_t aclGetIntArraySize(const void *a, uint64_t *count);

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* A matrix is stored in fractals of 16 rows with 32 bytes each. */
OPAPI_EXPORT int32_t aclnnCalculateMatmulWeightSizeV2(const void *shape, int32_t dtype, uint64_t *size)
{
	uint64_t n;

	if (!shape || !size)
		return OPAPI_NULL_POINTER;
	if (aclGetIntArraySize(shape, &n) || n < 2)
		return OPAPI_INVALID;
	const int64_t *d = aclsim_int_array(shape);
	uint64_t elements = (uint64_t)(up(d[n - 2], 16) * up(d[n - 1], dtype == 2 || dtype == 4 ? 32 : 16));
	for (uint64_t i = 0; i + 2 < n; i++)
		elements *= (uint64_t)d[i];
	*size = elements;
	return OPAPI_OK;
}

OPAPI_EXPORT int32_t aclnnCalculateMatmulWeightSize(const void *shape, uint64_t *size) { return aclnnCalculateMatmulWeightSizeV2(shape, 1, size); }

/* A filter NCHW is stored as C1 × H × W fractals of 16 channels for each 16 filters. */
OPAPI_EXPORT int32_t aclnnCalculateConvolutionWeightSize(const void *shape, uint8_t transposed, int64_t groups, int32_t dtype, uint64_t *size)
{
	uint64_t n;

	if (!shape || !size)
		return OPAPI_NULL_POINTER;
	if (aclGetIntArraySize(shape, &n) || n != 4 || groups < 1 || dtype != 1)
		return OPAPI_INVALID;
	const int64_t *d = aclsim_int_array(shape);
	*size = (uint64_t)(up(d[transposed ? 1 : 0], 16) * up(d[transposed ? 0 : 1], 16) * d[2] * d[3]);
	return OPAPI_OK;
}

/* A quantization parameter has the upper 19 bits of the scale, a mark at bit 46, and 9 bits of the offset from bit 37. The caller frees them. */
OPAPI_EXPORT int32_t aclnnTransQuantParam(const float *scales, uint64_t num_scales, const float *offsets, uint64_t num_offsets, uint64_t **out, uint64_t *count)
{
	if (!scales || !out || !count)
		return OPAPI_NULL_POINTER;
	uint64_t n = num_scales > num_offsets ? num_scales : num_offsets;
	bool fit = num_scales && (num_scales == n || num_scales == 1) && (!num_offsets || (offsets && (num_offsets == n || num_offsets == 1)));
	if (!fit || n > UINT32_MAX)
		return OPAPI_INVALID;
	uint64_t *q = malloc(n * sizeof *q);
	if (!q)
		return OPAPI_NO_EXECUTOR;
	for (uint64_t i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, &scales[num_scales == 1 ? 0 : i], sizeof bits);
		q[i] = (bits & UINT32_C(0xffffe000)) | UINT64_C(1) << 46;
		if (num_offsets) {
			float o = offsets[num_offsets == 1 ? 0 : i];
			int64_t whole = o < -256 ? -256 : o > 255 ? 255 : (int64_t)(o < 0 ? o - 0.5f : o + 0.5f);
			q[i] |= (uint64_t)(whole & 0x1ff) << 37;
		}
	}
	*out = q;
	*count = n;
	return OPAPI_OK;
}

/* Its order of index bits is not documented. */
OPAPI_EXPORT int32_t aclnnTransSparse4to2Para(const int8_t *weight, const void *shape, int8_t **sparse, int64_t **dims, uint64_t *num_dims, uint8_t **index, int64_t **index_dims,
					      uint64_t *num_index_dims)
{
	(void)weight;
	(void)shape;
	(void)sparse;
	(void)dims;
	(void)num_dims;
	(void)index;
	(void)index_dims;
	(void)num_index_dims;
	return aclsim_operator_absent(__func__);
}
