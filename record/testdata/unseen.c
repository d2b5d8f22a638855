/*
 * Calls while recording is off, and related calls before and afterwards. Between its parts it creates the file DIR/N and waits for
 * DIR/Ngo.
 *
 *	unseen DIR paused KERNELS   recording is off at first, on after the first part, off and on again
 *	unseen DIR lost             the ring is full until it is drained before the last part
 *	unseen DIR left early       a stream is destroyed whose work is done, which the program has not queried
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"
#include "step.h"

enum { SIZE = 512 };

static uint32_t gates[2];

static void gate(void *opened)
{
	while (!__atomic_exchange_n((uint32_t *)opened, 0, __ATOMIC_ACQ_REL))
		usleep(1000);
}

/* Opens the gate before the last copy on a stream. A stream has two copies. */
static aclrtStream second;
static void go(aclrtStream s) { __atomic_store_n(&gates[s == second], 1, __ATOMIC_RELEASE); }

static void *device;

/* An asynchronous copy of one letter to the host, which runs when the gate is open. */
static void copy(void *to, char letter, aclrtStream s)
{
	char fill[SIZE];
	memset(fill, letter, SIZE);
	CHECK(aclrtMemcpy(device, SIZE, fill, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	memset(to, '-', SIZE);
	CHECK(aclrtLaunchHostFunc(s, gate, &gates[s == second]));
	CHECK(aclrtMemcpyAsync(to, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, s));
}

static void *page(void)
{
	void *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static uint64_t handle[4096];

/* An argument list in the program's memory, followed by a buffer if its size is not 0. */
static void list(aclrtFuncHandle f, void *memory, uint64_t bytes)
{
	aclrtParamHandle first, param;
	uint64_t word = 0;
	void *buffer;
	CHECK(aclrtKernelArgsInitByUserMem(f, handle, memory, 1 << 16));
	if (bytes != 0)
		CHECK(aclrtKernelArgsAppendPlaceHolder(handle, &first));
	for (int i = bytes != 0; i < 4; i++)
		CHECK(aclrtKernelArgsAppend(handle, &word, sizeof word, &param));
	if (bytes != 0) {
		CHECK(aclrtKernelArgsGetPlaceHolderBuffer(handle, first, bytes, &buffer));
		memset(buffer, 'b', bytes);
	}
	CHECK(aclrtKernelArgsFinalize(handle));
}

static int paused(aclrtStream s, const char *kernels)
{
	aclrtBinHandle binary;
	aclrtFuncHandle f;
	void *early, *late, *registered = page(), *memory = page(), *other = page();
	if (registered == NULL || memory == NULL || other == NULL)
		return 2;
	CHECK(aclrtBinaryLoadFromFile(kernels, NULL, &binary));
	CHECK(aclrtBinaryGetFunction(binary, "add", &f));
	CHECK(aclrtMallocHost(&early, SIZE));
	CHECK(aclrtHostRegisterV2(registered, 1 << 16, ACL_HOST_REG_PINNED));
	step(0); /* on */

	copy(early, 'A', s); /* to memory that was allocated before */
	go(s);
	CHECK(aclrtSynchronizeStream(s));
	copy(registered, 'B', s);
	go(s);
	CHECK(aclrtSynchronizeStream(s));
	copy(early, 'C', s); /* awaited while recording is off */
	list(f, memory, 4096);
	step(1); /* off */

	go(s);
	CHECK(aclrtSynchronizeStream(s));
	memset(early, '*', SIZE);
	list(f, other, 0);
	munmap(memory, 1 << 16);
	CHECK(aclrtMallocHost(&late, SIZE));
	step(2); /* on */

	CHECK(aclrtSynchronizeStream(s));
	CHECK(aclrtLaunchKernelWithConfig(f, 1, s, NULL, handle, NULL));
	copy(late, 'D', s);
	go(s);
	CHECK(aclrtSynchronizeStream(s));
	copy(late, 'E', s); /* not awaited before recording ends */
	step(3); /* off */

	go(s);
	CHECK(aclrtSynchronizeStream(s));
	return 0;
}

static int lost(aclrtStream s)
{
	void *early, *twice, *late;
	CHECK(aclrtCreateStream(&second));
	CHECK(aclrtMallocHost(&early, SIZE));
	CHECK(aclrtMallocHost(&twice, SIZE));
	copy(early, 'A', s);
	copy(twice, 'B', second);
	for (int i = 0; i < 10000; i++) {
		int32_t n;
		CHECK(aclrtGetDevice(&n));
	}
	go(s);
	CHECK(aclrtSynchronizeStream(s));
	memset(early, '*', SIZE);
	CHECK(aclrtMemcpyAsync(twice, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, second));
	CHECK(aclrtMallocHost(&late, SIZE));
	step(0);

	go(second);
	CHECK(aclrtSynchronizeStream(second));
	copy(late, 'C', s);
	go(s);
	CHECK(aclrtSynchronizeStream(s));
	return 0;
}

static int done;

static void behind(void *unused)
{
	(void)unused;
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
}

static int left(aclrtStream s)
{
	int32_t n;
	void *host;
	CHECK(aclrtMallocHost(&host, SIZE));
	CHECK(aclrtMemset(device, SIZE, 0, SIZE));
	CHECK(aclrtMemcpyAsync(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, s));
	CHECK(aclrtLaunchHostFunc(s, behind, NULL));
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		usleep(1000);
	CHECK(aclrtDestroyStream(s));
	CHECK(aclrtGetDevice(&n));
	return 0;
}

int main(int argc, char **argv)
{
	aclrtStream s;
	if (argc < 3)
		return 2;
	dir = argv[1];
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	if (argc < 4)
		return lost(s);
	return strcmp(argv[2], "left") == 0 ? left(s) : paused(s, argv[3]);
}
