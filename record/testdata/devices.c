/* A program that asks the runtime about two devices. With -DCUDA: the driver's functions. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef CUDA

#include <cuda.h>

int main(void)
{
	CUuuid uuid;
	size_t bytes;
	char bus[32];
	int failed = cuInit(0);
	for (CUdevice d = 1; d >= 0; d--)
		failed |= cuDeviceGetUuid(&uuid, d) || cuDeviceTotalMem(&bytes, d) || cuDeviceGetPCIBusId(bus, sizeof bus, d);
	return failed;
}

#else

#include "acl/acl.h"

int main(void)
{
	aclrtUuid uuid;
	size_t bytes, total;
	int32_t number;
	char bus[32];
	aclrtContext ctx;
	int failed = aclInit(NULL);
	failed |= aclrtGetMemInfo(ACL_HBM_MEM, &bytes, &total) == 0; /* no device is selected */
	failed |= aclrtSetDevice(1) || aclrtGetMemInfo(ACL_HBM_MEM, &bytes, &total) || aclrtGetMemInfo(ACL_HBM_MEM, &bytes, &total);
	failed |= aclrtDeviceGetUuid(1, &uuid) || aclrtDeviceGetPCIBusId(1, bus, sizeof bus) || aclrtGetPhyDevIdByLogicDevId(0, &number);
	if (getenv("ASCEND_RT_VISIBLE_DEVICES"))
		failed |= aclrtGetPhyDevIdByLogicDevId(2, &number) || aclrtGetPhyDevIdByUserDevId(1, &number) || number != 2 ||
			aclrtGetUserDevIdByPhyDevId(2, &number) || number != 1 || !aclrtGetUserDevIdByLogicDevId(1, &number);
	failed |= aclrtDeviceGetUuid(7, &uuid) == 0 || aclrtCreateContext(&ctx, 0) || aclrtGetMemInfo(ACL_HBM_MEM, &bytes, &total);
	return failed || aclFinalize();
}

#endif
