/*
 * unmapped HOW: an asynchronous copy whose source can't be read, which the runtime would find out later. A recorder must not die of it.
 *
 * HOW: child, of pinned memory that a forked child does not have; guard and hole, of 1 MiB with a page that is not readable, or is
 * not there; freed, of pinned memory after its end. Another copy has a source of 1 MiB that can be read. Ends with 5.
 *
 * With RUNTIME: the runtime, which touches no memory.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

enum { SIZE = 1 << 20, PAGE = 4096 };

#ifdef RUNTIME
aclError aclInit(const char *config) { return config != NULL; }
aclError aclrtSetDevice(int32_t device) { return device; }
aclError aclrtMalloc(void **p, size_t size, aclrtMemMallocPolicy policy)
{
	(void)size, (void)policy;
	*p = (void *)0x124000000000;
	return ACL_SUCCESS;
}
aclError aclrtMallocHost(void **p, size_t size)
{
	*p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return *p == MAP_FAILED;
}
aclError aclrtFreeHost(void *p) { return munmap(p, SIZE) != 0; }
aclError aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t n, aclrtMemcpyKind kind, aclrtStream stream)
{
	(void)kind, (void)stream;
	return to == NULL || from == NULL || n > room;
}
#else

static void *device;

static void copy(const void *from)
{
	if (aclrtMemcpyAsync(device, SIZE, from, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, NULL) != ACL_SUCCESS)
		_exit(4);
}

int main(int argc, char **argv)
{
	void *pinned;
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (argc != 2 || p == MAP_FAILED || aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtMallocHost(&pinned, SIZE))
		return 3;
	copy(p);
	if (strcmp(argv[1], "child") == 0) {
		pid_t child = fork();
		if (child == 0) {
			if (mmap(pinned, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
				_exit(3);
			copy(p);
			copy(pinned);
			_exit(5);
		}
		int status;
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 5)
			return 6;
		return 5;
	}
	if (strcmp(argv[1], "freed") == 0) {
		if (aclrtFreeHost(pinned) != ACL_SUCCESS)
			return 3;
		p = pinned;
	} else if (strcmp(argv[1], "guard") == 0) {
		mprotect(p + SIZE - PAGE, PAGE, PROT_NONE);
	} else {
		munmap(p + SIZE / 2, PAGE);
	}
	copy(p);
	return 5;
}
#endif
