/* Text binaries with many lengths, and copies of rows and planes in host memory, with and without gaps. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

static void load(size_t length)
{
	static const char begin[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry none() { ret; }\n//";
	char *text = malloc(length + 1);
	CUmodule m;
	memset(text, 'x', length);
	memcpy(text, begin, sizeof begin - 1);
	text[length] = 0;
	MUST(cuModuleLoadData(&m, text) == 0 && cuModuleUnload(m) == 0);
	free(text);
}

int main(void)
{
	static const size_t lengths[] = {200, 4094, 4095, 4096, 4097, 8189, 8190, 8191, 8192, 100000};
	enum { WIDE = 100, PITCH = 128, ROWS = 300, PLANES = 3 };
	CUcontext ctx;
	CUdeviceptr d;
	uint8_t *host = malloc(PITCH * ROWS * PLANES), *back = calloc(1, PITCH * ROWS * PLANES);
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0 && cuMemAlloc(&d, PITCH * ROWS * PLANES) == 0);
	for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
		load(lengths[i]);
	for (int i = 0; i < PITCH * ROWS * PLANES; i++)
		host[i] = (uint8_t)(i * 7 + i / 251);
	for (int unified = 0; unified < 2; unified++)
		for (int width = WIDE; width <= PITCH; width += PITCH - WIDE) {
			CUmemorytype kind = unified ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST;
			CUDA_MEMCPY2D in = {.srcMemoryType = kind, .srcHost = host, .srcDevice = (CUdeviceptr)host, .srcPitch = PITCH, .srcY = 1, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstDevice = d, .dstPitch = PITCH, .WidthInBytes = (size_t)width, .Height = ROWS};
			MUST(cuMemcpy2D(&in) == 0);
			CUDA_MEMCPY3D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = d, .srcPitch = PITCH, .srcHeight = ROWS, .dstMemoryType = kind, .dstHost = back,
				.dstDevice = (CUdeviceptr)back, .dstPitch = PITCH, .dstHeight = ROWS, .WidthInBytes = (size_t)width, .Height = ROWS / 2, .Depth = PLANES};
			MUST(cuMemcpy3D(&out) == 0);
		}
	MUST(memcmp(back, host + PITCH, WIDE) == 0);
	return 0;
}
