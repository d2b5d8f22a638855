/* An allocation that fails for lack of room and is tried again at another allocation's address; and the size of a third one. */
#include <cuda.h>

int main(void)
{
	enum { GIB = 1 << 30 };
	const size_t most = 5ul * GIB;
	CUdevice device;
	CUcontext ctx;
	CUdeviceptr p, q;
	char data[64] = "the same bytes";
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&ctx, device) || cuCtxSetCurrent(ctx))
		return 1;
	if (cuMemAlloc(&p, most) || cuMemAlloc(&q, most) != CUDA_ERROR_OUT_OF_MEMORY || cuMemFree(p + 512) != CUDA_ERROR_INVALID_VALUE || cuMemFree(p))
		return 2;
	if (cuMemAlloc(&q, most) || cuMemcpyHtoD(q, data, sizeof data) || cuMemcpyDtoH(data, q, sizeof data))
		return 3;
	CUdeviceptr base;
	size_t size;
	if (cuMemFree(q) || cuMemAlloc(&p, 6000) || cuMemGetAddressRange(&base, &size, p + 100) || base != p || size < 6000)
		return 4;
	return cuMemFree(p);
}
