/* The kernels of third-party programs, as host functions for the fake CUDA driver. */
#include <fakecuda.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* ffmpeg's overlay_cuda for an opaque picture, one plane at a time. */
EXPORT void Overlay_Cuda(const struct fakecuda_launch *l)
{
	enum { X, Y, MAIN, MAIN_PITCH, OVER, OVER_PITCH, WIDTH, HEIGHT };
	int x, y, main_pitch, pitch, width, height;
	uint64_t main_, over;
	memcpy(&x, l->params[X], 4);
	memcpy(&y, l->params[Y], 4);
	memcpy(&main_, l->params[MAIN], 8);
	memcpy(&main_pitch, l->params[MAIN_PITCH], 4);
	memcpy(&over, l->params[OVER], 8);
	memcpy(&pitch, l->params[OVER_PITCH], 4);
	memcpy(&width, l->params[WIDTH], 4);
	memcpy(&height, l->params[HEIGHT], 4);
	for (int row = 0; row < height; row++) {
		uint8_t *to = l->memory(main_ + (uint64_t)(y + row) * (uint64_t)main_pitch + (uint64_t)x, (size_t)width);
		const uint8_t *from = l->memory(over + (uint64_t)row * (uint64_t)pitch, (size_t)width);
		if (to == NULL || from == NULL)
			return;
		memcpy(to, from, (size_t)width);
	}
}

/* ffmpeg's scale_cuda without scaling: copies planes from textures into one plane, or interleaved into two. */
static void planes(const struct fakecuda_launch *l, int from, int to, size_t count)
{
	enum { TEXTURES, PICTURES = 4, WIDTH = 8, HEIGHT, PITCH };
	int width, height, pitch;
	uint64_t at;
	memcpy(&at, l->params[PICTURES + to], 8);
	memcpy(&width, l->params[WIDTH], 4);
	memcpy(&height, l->params[HEIGHT], 4);
	memcpy(&pitch, l->params[PITCH], 4);
	for (size_t k = 0; k < count; k++) {
		uint64_t number;
		struct fakecuda_image image;
		memcpy(&number, l->params[TEXTURES + from + (int)k], 8);
		if (!l->texture(number, &image))
			return;
		for (size_t y = 0; y < (size_t)height; y++) {
			uint8_t *row = l->memory(at + y * (size_t)pitch, (size_t)width * count);
			for (size_t x = 0; row && x < (size_t)width; x++)
				row[x * count + k] = ((const uint8_t *)image.data)[y * image.pitch + x];
		}
	}
}
EXPORT void Subsample_Nearest_yuv420p_nv12(const struct fakecuda_launch *l) { planes(l, 0, 0, 1); }
EXPORT void Subsample_Nearest_yuv420p_nv12_uv(const struct fakecuda_launch *l) { planes(l, 1, 1, 2); }

/* An array in cuda_acc.c: the kernel's argument is the address of a list of addresses. */
static int *array(const struct fakecuda_launch *l, int n)
{
	enum { N = 100000 };
	uint64_t list, at;
	memcpy(&list, l->params[0], 8);
	const void *p = l->memory(list + 8 * (uint64_t)n, 8);
	if (p == NULL)
		return NULL;
	memcpy(&at, p, 8);
	return l->memory(at, N * sizeof(int));
}

EXPORT void first(const struct fakecuda_launch *l) __asm__("main$_omp_fn$0");
void first(const struct fakecuda_launch *l)
{
	const int *a = array(l, 0);
	int *b = array(l, 1);
	for (int i = 0; a && b && i < 100000; i++)
		b[i] = 3 * a[i] + 1;
}

EXPORT void second(const struct fakecuda_launch *l) __asm__("main$_omp_fn$1");
void second(const struct fakecuda_launch *l)
{
	int *b = array(l, 0);
	for (int i = 0; b && i < 100000; i++)
		b[i] ^= 5;
}
