/*
 * A runtime with few functions, for tests where the simulator can't run: on another processor, and in programs that would break
 * the Go runtime. It has no device. Its streams finish at once, except a program's second stream: a synchronization on it lasts
 * until that stream is destroyed.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"

#define FAKE __attribute__((visibility("default")))
#define DEVICE 0x124000000000ULL /* addresses from here on map to the library's own memory */

static char memory[1 << 20];
static atomic_size_t used;
static atomic_int streams;
static atomic_int gone; /* the second stream was destroyed */
static _Thread_local int32_t device;

FAKE aclError aclInit(const char *path) { return path == NULL ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM; }
FAKE aclError aclFinalize(void) { return ACL_SUCCESS; }

FAKE aclError aclrtSetDevice(int32_t id)
{
	device = id;
	return ACL_SUCCESS;
}

FAKE aclError aclrtGetDevice(int32_t *id)
{
	*id = device;
	return ACL_SUCCESS;
}

FAKE aclError aclrtMalloc(void **p, size_t size, aclrtMemMallocPolicy policy)
{
	(void)policy;
	size_t at = atomic_fetch_add(&used, (size + 63) & ~(size_t)63);
	if (size > sizeof memory || at > sizeof memory - size)
		return ACL_ERROR_RT_MEMORY_ALLOCATION;
	*p = (void *)(DEVICE + at);
	return ACL_SUCCESS;
}

FAKE aclError aclrtFree(void *p) { return p != NULL ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM; }

FAKE aclError aclrtMallocHost(void **p, size_t size) { return (*p = malloc(size)) != NULL ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION; }

FAKE aclError aclrtFreeHost(void *p)
{
	free(p);
	return ACL_SUCCESS;
}

static void *at(const void *p) { return (uintptr_t)p >= DEVICE && (uintptr_t)p < DEVICE + sizeof memory ? memory + ((uintptr_t)p - DEVICE) : (void *)(uintptr_t)p; }

FAKE aclError aclrtMemcpy(void *dst, size_t room, const void *src, size_t n, aclrtMemcpyKind kind)
{
	(void)kind;
	if (n > room)
		return ACL_ERROR_INVALID_PARAM;
	memcpy(at(dst), at(src), n);
	return ACL_SUCCESS;
}

FAKE aclError aclrtMemcpyAsync(void *dst, size_t room, const void *src, size_t n, aclrtMemcpyKind kind, aclrtStream stream)
{
	(void)stream;
	return aclrtMemcpy(dst, room, src, n, kind);
}

FAKE aclError aclrtCreateStream(aclrtStream *stream)
{
	*stream = (aclrtStream)(uintptr_t)(0x5000 + atomic_fetch_add(&streams, 1));
	return ACL_SUCCESS;
}

FAKE aclError aclrtDestroyStream(aclrtStream stream)
{
	if ((uintptr_t)stream == 0x5001)
		atomic_store(&gone, 1);
	return ACL_SUCCESS;
}

FAKE aclError aclrtSynchronizeStream(aclrtStream stream)
{
	struct timespec pause = {0, 1000000};
	while ((uintptr_t)stream == 0x5001 && !atomic_load(&gone))
		nanosleep(&pause, NULL);
	return ACL_SUCCESS;
}

FAKE aclrtBinary aclrtCreateBinary(const void *data, size_t size) { return data != NULL && size > 0 ? (aclrtBinary)0x66 : NULL; }

FAKE aclError aclrtBinaryLoad(aclrtBinary binary, aclrtBinHandle *handle)
{
	*handle = (aclrtBinHandle)0x67;
	return binary != NULL ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

FAKE aclError aclrtBinaryGetFunction(aclrtBinHandle handle, const char *name, aclrtFuncHandle *kernel)
{
	*kernel = (aclrtFuncHandle)0x77;
	return handle != NULL && strcmp(name, "kernel") == 0 ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

FAKE aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle kernel, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg, void *args,
	size_t size, aclrtPlaceHolderInfo *holders, size_t count)
{
	(void)blocks, (void)stream, (void)cfg, (void)holders, (void)count;
	return kernel != NULL && args != NULL && size > 0 ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}
