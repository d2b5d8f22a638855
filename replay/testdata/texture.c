/* Textures of memory, of an array and of mipmap levels, and a surface. Kernels get their numbers, beside other numbers that are equal. Built twice: with
 * KERNEL as the kernels alone, for the fake driver. */
enum { WIDTH = 40, HEIGHT = 3, PITCH = 512 };
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* to[i] = the content of a texture, times a factor, plus a value in a structure. */
void sample(const struct fakecuda_launch *l)
{
	uint64_t texture, to, factor;
	struct { uint32_t plus, times; uint64_t texture; } more;
	memcpy(&texture, l->params[0], 8);
	memcpy(&to, l->params[1], 8);
	memcpy(&factor, l->params[2], 8);
	memcpy(&more, l->params[3], sizeof more);
	struct fakecuda_image m, second = {0};
	if (!l->texture(texture, &m) || (more.texture && !l->texture(more.texture, &second)))
		return;
	uint8_t *out = l->memory(to, m.width * m.height);
	for (size_t y = 0; out && y < m.height; y++)
		for (size_t x = 0; x < m.width; x++)
			out[y * m.width + x] = (uint8_t)(((uint8_t *)m.data)[y * m.pitch + x] * factor + more.plus * more.times + (second.data ? *(uint8_t *)second.data : 0));
}

/* to = a plain number. */
void keep(const struct fakecuda_launch *l)
{
	uint64_t to;
	memcpy(&to, l->params[1], 8);
	void *out = l->memory(to, 8);
	if (out)
		memcpy(out, l->params[0], 8);
}

/* Copies a texture into a surface, backwards. */
void turn(const struct fakecuda_launch *l)
{
	uint64_t surface, texture;
	struct fakecuda_image to, from;
	memcpy(&surface, l->params[0], 8);
	memcpy(&texture, l->params[1], 8);
	if (!l->surface(surface, &to) || !l->texture(texture, &from))
		return;
	for (size_t i = 0; i < to.width * to.height; i++)
		((uint8_t *)to.data)[i] = ((uint8_t *)from.data)[from.width * from.height - 1 - i];
}
#else
#include <cuda.h>
#include <stdlib.h>

#include "must.h"

static CUfunction sample;
static CUdeviceptr to;

static void look(CUtexObject t, uint64_t factor, uint32_t plus, uint32_t times, CUtexObject second, int packed)
{
	struct { uint32_t plus, times; CUtexObject texture; } more = {plus, times, second};
	struct { CUtexObject t; CUdeviceptr to; uint64_t factor; uint32_t plus, times; CUtexObject texture; } block = {t, to, factor, plus, times, second};
	size_t size = sizeof block;
	void *params[] = {&t, &to, &factor, &more}, *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	MUST(cuLaunchKernel(sample, 1, 1, 1, 1, 1, 1, 0, NULL, packed ? NULL : params, packed ? extra : NULL) == 0 && cuCtxSynchronize() == 0);
}

static void expect(size_t n, uint8_t (*what)(size_t), uint64_t factor, unsigned plus)
{
	uint8_t got[WIDTH * HEIGHT];
	MUST(cuMemcpyDtoH(got, to, n) == 0);
	for (size_t i = 0; i < n; i++)
		MUST(got[i] == (uint8_t)(what(i) * factor + plus));
}

static uint8_t up(size_t i) { return (uint8_t)(i + 1); }
static uint8_t rows(size_t i) { return (uint8_t)(i % WIDTH + 100 * (i / WIDTH)); }
static uint8_t down(size_t i) { return up(WIDTH * HEIGHT - 1 - i); }

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .entry sample(.param .u64 texture, .param .u64 to, .param .u64 factor, .param .align 8 .b8 more[16])\n{\n\tret;\n}\n"
		".visible .entry keep(.param .u64 number, .param .u64 to)\n{\n\tret;\n}\n"
		".visible .entry turn(.param .u64 surface, .param .u64 texture)\n{\n\tret;\n}\n";
	CUcontext ctx;
	CUmodule m;
	CUfunction turn, keep;
	CUdeviceptr flat, high;
	CUarray array, level;
	CUmipmappedArray levels;
	CUtexObject line, plane, of_array, of_levels, again;
	CUsurfObject surface;
	CUDA_TEXTURE_DESC how = {.filterMode = CU_TR_FILTER_MODE_POINT};
	CUDA_RESOURCE_VIEW_DESC view = {.format = 1, .width = WIDTH, .height = HEIGHT};
	uint8_t bytes[WIDTH * HEIGHT], wide[PITCH * HEIGHT] = {0}, back[WIDTH * HEIGHT];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = up(i), wide[i / WIDTH * PITCH + i % WIDTH] = rows(i);
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&sample, m, "sample") == 0 && cuModuleGetFunction(&turn, m, "turn") == 0);
	MUST(cuModuleGetFunction(&keep, m, "keep") == 0);
	MUST(cuMemAlloc(&to, sizeof bytes) == 0 && cuMemAlloc(&flat, 4096) == 0 && cuMemAlloc(&high, sizeof wide) == 0);
	MUST(cuMemcpyHtoD(flat + 512, bytes, sizeof bytes) == 0 && cuMemcpyHtoD(high, wide, sizeof wide) == 0);

	/* An argument from before the first texture is not a texture. */
	uint64_t number = 12345, kept;
	void *numbers[] = {&number, &to};
	MUST(cuLaunchKernel(keep, 1, 1, 1, 1, 1, 1, 0, NULL, numbers, NULL) == 0);

	CUDA_RESOURCE_DESC of = {.resType = CU_RESOURCE_TYPE_LINEAR};
	of.res.linear.devPtr = flat + 512, of.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT8, of.res.linear.numChannels = 1, of.res.linear.sizeInBytes = sizeof bytes;
	MUST(cuTexObjectCreate(&line, &of, &how, NULL) == 0);
	of = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D};
	of.res.pitch2D.devPtr = high, of.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT8, of.res.pitch2D.numChannels = 1;
	of.res.pitch2D.width = WIDTH, of.res.pitch2D.height = HEIGHT, of.res.pitch2D.pitchInBytes = PITCH;
	number = line;
	MUST(cuLaunchKernel(keep, 1, 1, 1, 1, 1, 1, 0, NULL, numbers, NULL) == 0 && cuMemcpyDtoH(&kept, to, 8) == 0 && kept == line);
	MUST(cuTexObjectCreate(&plane, &of, &how, NULL) == 0 && plane < 1000);

	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = WIDTH, .Height = HEIGHT, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1, .Flags = 2 /* with surfaces */};
	MUST(cuArray3DCreate(&array, &shape) == 0 && cuMipmappedArrayCreate(&levels, &shape, 2) == 0 && cuMipmappedArrayGetLevel(&level, levels, 0) == 0);
	/* The unused part of a field may contain anything. */
	CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = bytes, .srcArray = (CUarray)16, .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = level, .WidthInBytes = WIDTH, .Height = HEIGHT};
	MUST(cuMemcpy2D(&in) == 0);
	of = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	MUST(cuSurfObjectCreate(&surface, &of) == 0 && cuTexObjectCreate(&of_array, &of, &how, &view) == 0);
	of = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, .res.mipmap.hMipmappedArray = levels};
	MUST(cuTexObjectCreate(&of_levels, &of, &how, NULL) == 0);

	/* The factor equals a texture's number in some launches; so do two adjacent 32-bit numbers. */
	look(line, line, (uint32_t)line, 0, 0, 0);
	expect(sizeof bytes, up, line, 0);
	look(plane, plane, (uint32_t)plane, 0, 0, 1);
	expect(sizeof bytes, rows, plane, 0);
	look(line, 77, 5, 2, plane, 0);
	expect(sizeof bytes, up, 77, 10 + rows(0));
	look(line, 77, 5, 2, plane, 1);
	expect(sizeof bytes, up, 77, 10 + rows(0));

	void *params[] = {&surface, &of_levels};
	MUST(cuLaunchKernel(turn, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == 0 && cuCtxSynchronize() == 0);
	CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = back, .WidthInBytes = WIDTH, .Height = HEIGHT};
	MUST(cuMemcpy2D(&out) == 0 && back[0] == down(0) && cuMemcpyAtoH(back, array, WIDTH, WIDTH) == 0 && back[0] == down(WIDTH));
	look(of_array, 1, 0, 0, 0, 0);
	expect(sizeof bytes, down, 1, 0);

	/* A freed number is reused. */
	MUST(cuTexObjectDestroy(line) == 0);
	of = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	MUST(cuTexObjectCreate(&again, &of, &how, NULL) == 0 && again == line);
	look(again, 3, 0, 0, 0, 0);
	expect(sizeof bytes, down, 3, 0);

	/* A number without an object is no resource. */
	of.res.array.hArray = (CUarray)16;
	if (argc > 1)
		MUST(cuTexObjectCreate(&of_array, &of, &how, NULL) != 0);
	(void)argv;
	MUST(cuTexObjectDestroy(again) == 0 && cuSurfObjectDestroy(surface) == 0 && cuArrayDestroy(array) == 0 && cuMipmappedArrayDestroy(levels) == 0);
	MUST(cuMemFree(flat) == 0 && cuMemFree(high) == 0 && cuMemFree(to) == 0);
	return 0;
}
#endif
