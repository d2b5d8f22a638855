/* A texture of device memory, which a replay can't make: kernels would be given its number. */
#include <cuda.h>

int main(void)
{
	CUdevice device;
	CUcontext ctx;
	CUdeviceptr p;
	CUtexObject t;
	CUDA_TEXTURE_DESC how = {.filterMode = CU_TR_FILTER_MODE_POINT};
	CUDA_RESOURCE_DESC what = {.resType = CU_RESOURCE_TYPE_LINEAR};
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&ctx, device) || cuCtxSetCurrent(ctx) || cuMemAlloc(&p, 4096))
		return 1;
	what.res.linear.devPtr = p;
	what.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT8;
	what.res.linear.numChannels = 1;
	what.res.linear.sizeInBytes = 4096;
	return cuTexObjectCreate(&t, &what, &how, NULL) || cuTexObjectDestroy(t) || cuMemFree(p);
}
