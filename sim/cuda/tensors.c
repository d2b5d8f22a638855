/*
 * Tensor maps: opaque descriptions of tensors that programs pass to kernels. Here the bytes are the description, scrambled,
 * so that a reader that takes a word for an address is wrong.
 */
#include "fake.h"
#define FAKECUDA_DRIVER
#include <fakecuda.h>

#include <string.h>

enum { MARK = 0x74656e73 };

struct tensor {
	uint64_t address, strides[4];
	uint32_t mark, type, dims[5], kind;
	uint8_t box[20], steps[5], rank, more[6];
	uint64_t sum;
};
_Static_assert(sizeof(struct tensor) <= sizeof(CUtensorMap), "a tensor map holds the description");

static uint64_t turned(uint64_t w, unsigned by) { return w << by | w >> (64 - by); }

static uint64_t sum(const struct tensor *t)
{
	struct tensor plain = *t;
	uint64_t words[sizeof plain / 8], n = MARK;
	plain.sum = 0;
	memcpy(words, &plain, sizeof words);
	for (size_t i = 0; i < sizeof words / 8; i++)
		n = turned(n ^ words[i], 13) * 0x9e3779b97f4a7c15;
	return n;
}

static void seal(CUtensorMap *map, struct tensor *t)
{
	t->mark = MARK;
	t->sum = sum(t);
	memset(map, 0, sizeof *map);
	memcpy(map, t, sizeof *t);
	for (unsigned i = 0; i < 16; i++)
		map->opaque[i] = turned(map->opaque[i], 7 + i) ^ 0x5bd1e9955bd1e995;
}

static bool unseal(const CUtensorMap *map, struct tensor *t)
{
	CUtensorMap plain;
	for (unsigned i = 0; i < 16; i++)
		plain.opaque[i] = turned(map->opaque[i] ^ 0x5bd1e9955bd1e995, 64 - (7 + i));
	memcpy(t, &plain, sizeof *t);
	return t->mark == MARK && t->sum == sum(t);
}

static unsigned element(CUtensorMapDataType type)
{
	static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
	return (unsigned)type < sizeof bytes ? bytes[type] : 1;
}

static CUresult encode(CUtensorMap *map, struct tensor *t, uint32_t rank, const void *address, const uint64_t *dims, const uint64_t *strides, const uint32_t *steps)
{
	if (map == NULL || (uintptr_t)map % 64 || rank < 1 || rank > 5 || address == NULL || (uintptr_t)address % 16 || dims == NULL || steps == NULL || (rank > 1 && strides == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	t->address = (uintptr_t)address;
	t->rank = (uint8_t)rank;
	for (uint32_t i = 0; i < rank; i++) {
		if (dims[i] < 1 || dims[i] > 1ULL << 32 || steps[i] < 1 || steps[i] > 8 || (i > 0 && (strides[i - 1] % 16 || strides[i - 1] >= 1ULL << 40)))
			return CUDA_ERROR_INVALID_VALUE;
		t->dims[i] = (uint32_t)(dims[i] - 1);
		t->steps[i] = (uint8_t)steps[i];
		if (i > 0)
			t->strides[i - 1] = strides[i - 1];
	}
	seal(map, t);
	return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, uint32_t tensorRank, void *globalAddress, const uint64_t *globalDim, const uint64_t *globalStrides, const uint32_t *boxDim, const uint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	struct tensor t = {.type = (uint32_t)tensorDataType, .more = {(uint8_t)interleave, (uint8_t)swizzle, (uint8_t)l2Promotion, (uint8_t)oobFill}};
	if (boxDim == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < tensorRank && i < 5; i++) {
		if (boxDim[i] < 1 || boxDim[i] > 256)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(t.box + 4 * i, boxDim + i, 4);
	}
	return encode(tensorMap, &t, tensorRank, globalAddress, globalDim, globalStrides, elementStrides);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, uint32_t tensorRank, void *globalAddress, const uint64_t *globalDim, const uint64_t *globalStrides, const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, uint32_t channelsPerPixel, uint32_t pixelsPerColumn, const uint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	struct tensor t = {.type = (uint32_t)tensorDataType, .kind = 1, .more = {(uint8_t)interleave, (uint8_t)swizzle, (uint8_t)l2Promotion, (uint8_t)oobFill}};
	if (tensorRank < 3 || tensorRank > 5 || pixelBoxLowerCorner == NULL || pixelBoxUpperCorner == NULL || channelsPerPixel > 256 || pixelsPerColumn > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < tensorRank - 2; i++)
		t.box[2 * i] = (uint8_t)pixelBoxLowerCorner[i], t.box[2 * i + 1] = (uint8_t)pixelBoxUpperCorner[i];
	memcpy(t.box + 8, &channelsPerPixel, 4);
	memcpy(t.box + 12, &pixelsPerColumn, 4);
	return encode(tensorMap, &t, tensorRank, globalAddress, globalDim, globalStrides, elementStrides);
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, uint32_t tensorRank, void *globalAddress, const uint64_t *globalDim, const uint64_t *globalStrides, int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, uint32_t channelsPerPixel, uint32_t pixelsPerColumn, const uint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	struct tensor t = {.type = (uint32_t)tensorDataType, .kind = 2, .more = {(uint8_t)interleave, (uint8_t)swizzle, (uint8_t)l2Promotion, (uint8_t)oobFill, (uint8_t)mode}};
	if (tensorRank < 3 || tensorRank > 5 || channelsPerPixel > 256 || pixelsPerColumn > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(t.box, &pixelBoxLowerCornerWidth, 4);
	memcpy(t.box + 4, &pixelBoxUpperCornerWidth, 4);
	memcpy(t.box + 8, &channelsPerPixel, 4);
	memcpy(t.box + 12, &pixelsPerColumn, 4);
	return encode(tensorMap, &t, tensorRank, globalAddress, globalDim, globalStrides, elementStrides);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	struct tensor t;
	if (tensorMap == NULL || globalAddress == NULL || (uintptr_t)globalAddress % 16 || !unseal(tensorMap, &t))
		return CUDA_ERROR_INVALID_VALUE;
	t.address = (uintptr_t)globalAddress;
	seal(tensorMap, &t);
	return CUDA_SUCCESS;
}

bool fake_tensor(const void *map, struct fakecuda_tensor *out)
{
	CUtensorMap m;
	struct tensor t;
	memcpy(&m, map, sizeof m);
	if (!unseal(&m, &t))
		return false;
	*out = (struct fakecuda_tensor){.address = t.address, .rank = t.rank, .strides = {element((CUtensorMapDataType)t.type)}};
	for (uint32_t i = 0; i < t.rank; i++) {
		out->dims[i] = (uint64_t)t.dims[i] + 1;
		if (i > 0)
			out->strides[i] = t.strides[i - 1];
	}
	return true;
}
