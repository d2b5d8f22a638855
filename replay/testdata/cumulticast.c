/* Memory of two devices at one address: a kernel's store reaches both. Uses a handle and an address.
 * Built twice: with KERNEL as the kernel alone, for the fake driver. */
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* all[i] = value + i, on each device */
void spread(const struct fakecuda_launch *l)
{
	uint64_t at;
	uint32_t value, n;
	void *copies[8];
	memcpy(&at, l->params[0], sizeof at);
	memcpy(&value, l->params[1], sizeof value);
	memcpy(&n, l->params[2], sizeof n);
	for (size_t i = l->multicast(at, 4ULL * n, copies, 8); i-- > 0;)
		for (uint32_t k = 0; k < n; k++)
			((uint32_t *)copies[i])[k] = value + k;
}
#else
#include <cuda.h>
#include <stdint.h>

#include "must.h"

enum { UNIT = 2 << 20, N = 1000 };

static CUdeviceptr mapped(CUmemGenericAllocationHandle h, size_t size, int devices)
{
	CUdeviceptr at;
	CUmemAccessDesc access[2];
	for (int d = 0; d < 2; d++)
		access[d] = (CUmemAccessDesc){.location = {CU_MEM_LOCATION_TYPE_DEVICE, devices < 0 ? d : devices}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	MUST(cuMemAddressReserve(&at, size, 0, 0, 0) == 0 && cuMemMap(at, size, 0, h, 0) == 0 && cuMemSetAccess(at, size, access, devices < 0 ? 2 : 1) == 0);
	return at;
}

int main(void)
{
	static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry spread(.param .u64 all, .param .u32 value, .param .u32 n)\n{\n\tret;\n}\n";
	CUmulticastObjectProp prop = {.numDevices = 2, .size = 2 * UNIT};
	CUmemGenericAllocationHandle all, own[2];
	CUdeviceptr at[2], together;
	CUcontext ctx[2];
	CUmodule m;
	CUfunction f;
	size_t granularity = 0;
	uint32_t value = 7, n = N, back[N];
	MUST(cuInit(0) == 0 && cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM) == 0 && granularity == UNIT);
	for (int d = 0; d < 2; d++)
		MUST(cuDevicePrimaryCtxRetain(&ctx[d], d) == 0);
	MUST(cuCtxSetCurrent(ctx[0]) == 0 && cuMulticastCreate(&all, &prop) == 0 && cuMulticastAddDevice(all, 0) == 0 && cuMulticastAddDevice(all, 0) == CUDA_ERROR_INVALID_VALUE);
	for (int d = 0; d < 2; d++) {
		CUmemAllocationProp of = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, d}};
		MUST(cuMemCreate(&own[d], 2 * UNIT, &of, 0) == 0);
		at[d] = mapped(own[d], 2 * UNIT, d);
		MUST(d || (cuMulticastBindMem(all, 0, own[0], 0, UNIT, 0) == CUDA_ERROR_INVALID_VALUE && cuMulticastAddDevice(all, 1) == 0));
		MUST(cuMulticastBindMem(all, 0, own[d], 0, UNIT, 0) == 0 && cuMulticastBindAddr(all, UNIT, at[d] + UNIT, UNIT, 0) == 0);
	}
	together = mapped(all, 2 * UNIT, -1);
	MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&f, m, "spread") == 0);
	for (int half = 0; half < 2; half++) {
		CUdeviceptr to = together + (size_t)half * UNIT + 64;
		void *params[] = {&to, &value, &n};
		MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == 0 && cuCtxSynchronize() == 0);
		for (int d = 0; d < 2; d++)
			MUST(cuMemcpyDtoH(back, at[d] + (size_t)half * UNIT + 64, sizeof back) == 0 && back[0] == value && back[N - 1] == value + N - 1);
		value = 900;
	}
	for (int d = 0; d < 2; d++)
		MUST(cuMulticastUnbind(all, d, 0, UNIT) == 0 && cuMulticastUnbind(all, d, UNIT, UNIT) == 0 && cuMemUnmap(at[d], 2 * UNIT) == 0 && cuMemRelease(own[d]) == 0);
	MUST(cuMemUnmap(together, 2 * UNIT) == 0 && cuMemAddressFree(together, 2 * UNIT) == 0 && cuMemRelease(all) == 0);
	return 0;
}
#endif
