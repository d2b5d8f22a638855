/*
 * A program with allocations whose address does not show their kind: pinned memory inside the device's address window, and unreadable
 * device memory outside it. With -DLIBRARY: a minimal runtime that returns such memory.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl.h"

#define PINNED ((void *)0x110000000000)
#define RESERVED ((void *)0x200000000000)

#ifdef LIBRARY

static int map(void **at, void *where, size_t size, int prot)
{
	*at = mmap(where, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return *at == where ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC;
}

aclError aclrtMallocHost(void **host, size_t size) { return map(host, PINNED, size, PROT_READ | PROT_WRITE); }
aclError aclrtReserveMemAddress(void **at, size_t size, size_t alignment, void *expected, uint64_t flags)
{
	(void)alignment, (void)expected, (void)flags;
	return map(at, RESERVED, size, PROT_NONE);
}
aclError aclrtReleaseMemAddress(void *at) { return munmap(at, 8192) ? ACL_ERROR_BAD_ALLOC : ACL_SUCCESS; }
aclError aclrtMemcpy(void *to, size_t most, const void *from, size_t size, aclrtMemcpyKind kind)
{
	(void)to, (void)most, (void)from, (void)size, (void)kind;
	return ACL_SUCCESS;
}
aclError aclrtMemcpyAsync(void *to, size_t most, const void *from, size_t size, aclrtMemcpyKind kind, aclrtStream stream)
{
	(void)to, (void)most, (void)from, (void)size, (void)kind, (void)stream;
	return ACL_SUCCESS;
}
aclError aclrtSynchronizeStream(aclrtStream stream) { return (void)stream, ACL_SUCCESS; }

#else

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s failed\n", #call); return 1; } } while (0)

int main(void)
{
	enum { SIZE = 4096 };
	void *pinned, *device, *again;
	MUST(aclrtMallocHost(&pinned, SIZE));
	MUST(aclrtReserveMemAddress(&device, 2 * SIZE, 0, NULL, 0));
	memset(pinned, 'p', SIZE);
	MUST(aclrtMemcpyAsync(device, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
	MUST(aclrtMemcpyAsync((char *)device + SIZE, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, NULL));
	MUST(aclrtMemcpy((char *)device + SIZE, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
	MUST(aclrtMemcpyAsync(pinned, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, NULL));
	MUST(aclrtSynchronizeStream(NULL));
	MUST(aclrtReleaseMemAddress(device));
	/* Former device memory belongs to the program now. */
	again = mmap(RESERVED, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (again != RESERVED)
		return 1;
	memset(again, 'h', SIZE);
	MUST(aclrtMemcpy((void *)0x120000000000, SIZE, again, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	return 0;
}

#endif
