/* Two devices: memory, streams and events on each, copies between them, and kernels that access the other device's memory, as peers and through
 * shared pools and mapped memory. Built twice: with KERNEL as the kernel alone, for the fake driver. */
#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* into[i] += from[i] */
void gather(const struct fakecuda_launch *l)
{
	uint64_t into, from;
	memcpy(&into, l->params[0], sizeof into);
	memcpy(&from, l->params[1], sizeof from);
	uint32_t *x = l->memory(into, 1024), *y = l->memory(from, 1024);
	for (int i = 0; x && y && i < 256; i++)
		x[i] += y[i];
}
#else
#include <cuda.h>
#include <stdint.h>
#include <string.h>

#include "must.h"

enum { N = 256, BYTES = N * sizeof(uint32_t) };

static CUcontext contexts[2];
static CUfunction gather[2];
static CUstream streams[2];
static CUdeviceptr memory[2];
static uint32_t host[N];

static void on(int device) { MUST(cuCtxSetCurrent(contexts[device]) == 0); }

static CUresult add(int device, CUdeviceptr into, CUdeviceptr from)
{
	on(device);
	MUST(cuLaunchKernel(gather[device], 1, 1, 1, N, 1, 1, 0, streams[device], (void *[]){&into, &from}, NULL) == 0);
	return cuStreamSynchronize(streams[device]);
}

static void expect(int device, CUdeviceptr at, uint32_t by)
{
	on(device);
	memset(host, 0, sizeof host);
	MUST(cuMemcpyDtoH(host, at, BYTES) == 0);
	for (uint32_t i = 0; i < N; i++)
		MUST(host[i] == i * by);
}

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry gather(.param .u64 into, .param .u64 from)\n{\n\tret;\n}\n";
	int count, can;
	CUdevice device;
	CUmodule m;
	CUevent ready;
	MUST(cuInit(0) == 0 && cuDeviceGetCount(&count) == 0 && count == 2);
	MUST(cuDeviceCanAccessPeer(&can, 1, 0) == 0 && can);
	for (int i = 0; i < 2; i++) {
		MUST(cuDevicePrimaryCtxRetain(&contexts[i], i) == 0);
		on(i);
		MUST(cuCtxGetDevice(&device) == 0 && device == i);
		MUST(cuModuleLoadData(&m, ptx) == 0 && cuModuleGetFunction(&gather[i], m, "gather") == 0);
		MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) == 0 && cuMemAlloc(&memory[i], BYTES) == 0);
	}
	for (uint32_t i = 0; i < N; i++)
		host[i] = i;
	on(0);
	MUST(cuMemcpyHtoD(memory[0], host, BYTES) == 0);

	/* A copy from one device to the other, after an event on the first. */
	MUST(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING) == 0);
	MUST(cuEventRecord(ready, streams[0]) == 0);
	on(1);
	MUST(cuStreamWaitEvent(streams[1], ready, 0) == 0);
	MUST(cuMemcpyPeerAsync(memory[1], contexts[1], memory[0], contexts[0], BYTES, streams[1]) == 0);
	MUST(cuStreamSynchronize(streams[1]) == 0);
	expect(1, memory[1], 1);

	/* Peer access. */
	MUST(cuCtxEnablePeerAccess(contexts[0], 0) == 0 && cuCtxEnablePeerAccess(contexts[0], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	MUST(add(1, memory[1], memory[0]) == 0);
	expect(1, memory[1], 2);

	/* The second device's pool, accessible to the first. */
	CUmemoryPool pool;
	CUdeviceptr pooled, mapped;
	CUmemAccessDesc access[2] = {{.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
	MUST(cuMemPoolCreate(&pool, &props) == 0 && cuMemPoolSetAccess(pool, access, 1) == 0);
	MUST(cuMemAllocFromPoolAsync(&pooled, BYTES, pool, streams[1]) == 0);
	MUST(cuMemcpyDtoDAsync(pooled, memory[1], BYTES, streams[1]) == 0 && cuStreamSynchronize(streams[1]) == 0);
	MUST(add(0, memory[0], pooled) == 0);
	expect(0, memory[0], 3);

	/* Memory on the second device at addresses that both access. */
	size_t grain;
	CUmemGenericAllocationHandle physical;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
	MUST(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == 0);
	MUST(cuMemCreate(&physical, grain, &prop, 0) == 0 && cuMemAddressReserve(&mapped, grain, 0, 0, 0) == 0);
	MUST(cuMemMap(mapped, grain, 0, physical, 0) == 0 && cuMemSetAccess(mapped, grain, access, 2) == 0);
	MUST(cuMemcpyDtoD(mapped, memory[0], BYTES) == 0);
	MUST(add(0, mapped, memory[0]) == 0 && add(1, mapped, memory[1]) == 0);
	expect(1, mapped, 8);

	/* A context for some calls, above another one on the stack: each has a default stream. */
	CUcontext was;
	on(0);
	MUST(cuCtxPushCurrent(contexts[1]) == 0 && cuMemsetD8Async(pooled, 1, BYTES, NULL) == 0);
	MUST(cuCtxPopCurrent(&was) == 0 && was == contexts[1]);
	MUST(cuMemsetD8Async(memory[0], 2, BYTES, NULL) == 0 && cuMemsetD8Async(memory[0], 3, BYTES, NULL) == 0 && cuCtxSynchronize() == 0);

	/* Memory without access rights is out of the first device's reach. */
	if (argc > 1 && strcmp(argv[1], "closed") == 0)
		MUST(add(0, memory[0], memory[1]) == CUDA_ERROR_ILLEGAL_ADDRESS);
	return 0;
}
#endif
