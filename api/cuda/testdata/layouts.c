/* Compares the generated header with documented sizes and offsets, which are repeated here by hand. Also compiles with the
 * toolkit's header. */
#include <cuda.h>
#include <stddef.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field)

SIZE(CUdeviceptr, 8);
SIZE(CUdevice, 4);
SIZE(CUuuid, 16);
SIZE(CUipcMemHandle, 64);
SIZE(CUipcEventHandle, 64);
SIZE(CUtensorMap, 128);

SIZE(CUlaunchConfig, 56);
AT(CUlaunchConfig, gridDimX, 0);
AT(CUlaunchConfig, blockDimX, 12);
AT(CUlaunchConfig, sharedMemBytes, 24);
AT(CUlaunchConfig, hStream, 32);
AT(CUlaunchConfig, attrs, 40);
AT(CUlaunchConfig, numAttrs, 48);
SIZE(CUgraphNodeParams, 256);
AT(CUgraphNodeParams, type, 0);
AT(CUgraphNodeParams, kernel, 16);
AT(CUgraphNodeParams, kernel.kernelParams, 56);
AT(CUgraphNodeParams, kernel.kern, 72);
AT(CUgraphNodeParams, memcpy.copyCtx, 24);
AT(CUgraphNodeParams, memcpy.copyParams.srcHost, 72);
AT(CUgraphNodeParams, memcpy.copyParams.Depth, 224);
AT(CUgraphNodeParams, memset.ctx, 56);
AT(CUgraphNodeParams, graph.ownership, 24);
AT(CUgraphNodeParams, eventRecord.event, 16);
AT(CUgraphNodeParams, alloc.accessDescs, 104);
AT(CUgraphNodeParams, alloc.dptr, 128);
AT(CUgraphNodeParams, memOp.paramArray, 32);
AT(CUgraphNodeParams, conditional.size, 28);
AT(CUgraphNodeParams, conditional.phGraph_out, 32);
SIZE(CUstreamBatchMemOpParams, 48);
AT(CUstreamBatchMemOpParams, writeValue.value64, 16);
AT(CUstreamBatchMemOpParams, writeValue.alias, 32);

SIZE(CUlaunchAttributeValue, 64);
SIZE(CUlaunchAttribute, 72);
AT(CUlaunchAttribute, value, 8);
AT(CUlaunchAttribute, value.clusterDim.z, 16);
AT(CUlaunchAttribute, value.programmaticEvent.event, 8);
AT(CUlaunchAttribute, value.programmaticEvent.triggerAtBlockStart, 20);
AT(CUlaunchAttribute, value.launchCompletionEvent.flags, 16);
AT(CUlaunchAttribute, value.memSyncDomainMap.remote, 9);
AT(CUlaunchAttribute, value.deviceUpdatableKernelNode.devNode, 16);
AT(CUlaunchAttribute, value.accessPolicyWindow.num_bytes, 16);
SIZE(CUaccessPolicyWindow, 32);
_Static_assert(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW == 1 && CU_LAUNCH_ATTRIBUTE_COOPERATIVE == 2 && CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY == 3 &&
	CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION == 4 && CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE == 5 &&
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION == 6 && CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT == 7 && CU_LAUNCH_ATTRIBUTE_PRIORITY == 8 &&
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP == 9 && CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN == 10 && CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT == 12 &&
	CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE == 13, "launch attributes");

SIZE(CUDA_MEMCPY2D, 128);
AT(CUDA_MEMCPY2D, srcHost, 24);
AT(CUDA_MEMCPY2D, srcPitch, 48);
AT(CUDA_MEMCPY2D, dstMemoryType, 72);
AT(CUDA_MEMCPY2D, WidthInBytes, 112);
SIZE(CUDA_MEMCPY3D, 200);
AT(CUDA_MEMCPY3D, srcMemoryType, 32);
AT(CUDA_MEMCPY3D, srcPitch, 72);
AT(CUDA_MEMCPY3D, dstXInBytes, 88);
AT(CUDA_MEMCPY3D, Depth, 192);
SIZE(CUDA_MEMCPY3D_PEER, 200);
SIZE(CUmemAllocationProp, 32);
SIZE(CUmemAccessDesc, 12);
SIZE(CUmemPoolProps, 88);
SIZE(CUmemLocation, 8);
SIZE(CUstreamBatchMemOpParams, 48);
SIZE(CUDA_KERNEL_NODE_PARAMS, 72);
SIZE(CUDA_ARRAY_DESCRIPTOR, 24);
SIZE(CUDA_ARRAY3D_DESCRIPTOR, 40);
_Static_assert(CU_MEMORYTYPE_HOST == 1 && CU_MEMORYTYPE_DEVICE == 2 && CU_MEMORYTYPE_ARRAY == 3 && CU_MEMORYTYPE_UNIFIED == 4, "memory types");
_Static_assert(CUDA_ERROR_INVALID_VALUE == 1 && CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_NOT_READY == 600 && CUDA_ERROR_ILLEGAL_ADDRESS == 700 &&
	CUDA_ERROR_LAUNCH_FAILED == 719 && CUDA_ERROR_NOT_SUPPORTED == 801, "errors");

/* Plain names select versions. */
CUresult (*allocate)(CUdeviceptr *, size_t) = cuMemAlloc;
CUresult (*allocate_v2)(CUdeviceptr *, size_t) = cuMemAlloc_v2;
CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **) = cuLaunchKernel;
CUresult (*launch_ex)(const CUlaunchConfig *, CUfunction, void **, void **) = cuLaunchKernelEx;
CUresult (*pitched)(CUdeviceptr *, size_t *, size_t, size_t, unsigned) = cuMemAllocPitch;
CUresult (*retain)(CUcontext *, CUdevice) = cuDevicePrimaryCtxRetain;
CUresult (*library)(CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **, unsigned) = cuLibraryLoadData;
CUresult (*end_capture)(CUstream, CUgraph *) = cuStreamEndCapture;
CUresult (*from_pool)(CUdeviceptr *, size_t, CUmemoryPool, CUstream) = cuMemAllocFromPoolAsync;
CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t) = cuMemSetAccess;
