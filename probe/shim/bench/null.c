/* A runtime whose functions return at once, to measure the layers above it. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg, void *hostArgs, size_t argsSize, aclrtPlaceHolderInfo *placeHolderArray, size_t placeHolderNum)
{
	(void)funcHandle, (void)numBlocks, (void)stream, (void)cfg, (void)hostArgs, (void)argsSize, (void)placeHolderArray, (void)placeHolderNum;
	return ACL_SUCCESS;
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value)
{
	(void)stream, (void)stmAttrType;
	value->cacheOpInfoSwitch = 0;
	return ACL_SUCCESS;
}

aclError aclrtCacheLastTaskOpInfo(const void *infoPtr, size_t infoSize)
{
	(void)infoPtr, (void)infoSize;
	return ACL_SUCCESS;
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
	(void)dst, (void)destMax, (void)src, (void)count, (void)kind;
	return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind, aclrtStream stream)
{
	(void)dst, (void)destMax, (void)src, (void)count, (void)kind, (void)stream;
	return ACL_SUCCESS;
}

aclError aclrtMallocHost(void **hostPtr, size_t size)
{
	*hostPtr = malloc(size);
	if (*hostPtr == NULL)
		return ACL_ERROR_RT_MEMORY_ALLOCATION;
	memset(*hostPtr, 1, size);
	return ACL_SUCCESS;
}
