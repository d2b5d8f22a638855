/*
 * Two processes. The second imports the memory of two pools of the first by descriptors and keys, and other memory by a descriptor. It waits
 * for the first one's event by its key, changes the data, and records the event, for which the first one waits. With an argument the
 * second opens no memory of the pools, so nothing identifies them.
 */
#include <cuda.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

enum { BYTES = 6000, CHANGED = 1000, UNIT = 2 << 20 };

static int way[2];

static void begin(void)
{
	CUcontext context;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0);
}

static void hand(int to, const void *p, size_t n, int fd)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c = {.h = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec v = {(void *)(uintptr_t)p, n};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = fd < 0 ? NULL : &c, .msg_controllen = fd < 0 ? 0 : sizeof c};
	memcpy(CMSG_DATA(&c.h), &fd, sizeof fd);
	MUST(sendmsg(to, &m, 0) == (ssize_t)n);
}

static int get(int from, void *p, size_t n)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c;
	struct iovec v = {p, n};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c};
	int fd = -1;
	MUST(recvmsg(from, &m, 0) == (ssize_t)n);
	if (m.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(&c.h), sizeof fd);
	return fd;
}

static const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

static CUdeviceptr mapped(CUmemGenericAllocationHandle h)
{
	CUmemAccessDesc access = {.location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr at;
	MUST(cuMemAddressReserve(&at, UNIT, 0, 0, 0) == 0 && cuMemMap(at, UNIT, 0, h, 0) == 0 && cuMemSetAccess(at, UNIT, &access, 1) == 0);
	return at;
}

static void second(int from, int keyless)
{
	uint8_t got[BYTES], want[BYTES];
	CUipcEventHandle key;
	CUmemPoolPtrExportData data;
	CUmemoryPool pool[2];
	CUmemGenericAllocationHandle physical;
	CUdeviceptr at[2], mine;
	CUevent event;
	CUstream s;
	char c = 0;
	begin();
	close(dup(1)); /* changes the descriptor numbers here */
	int fds[3];
	for (int i = 0; i < 3; i++)
		fds[i] = get(from, &c, 1);
	get(from, &key, sizeof key);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuIpcOpenEventHandle(&event, key) == 0);
	MUST(cuMemPoolImportFromShareableHandle(&pool[0], (void *)(intptr_t)fds[2], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_ERROR_INVALID_VALUE);
	/* Not in the order of their creation. */
	for (int i = 1; i >= 0; i--)
		MUST(cuMemPoolImportFromShareableHandle(&pool[i], (void *)(intptr_t)fds[i], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == 0);
	MUST(cuMemImportFromShareableHandle(&physical, (void *)(intptr_t)fds[2], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0);
	MUST(cuMemAllocFromPoolAsync(&mine, 512, pool[0], s) == CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < 2; i++) {
		get(from, &data, sizeof data);
		if (keyless)
			continue;
		MUST(cuMemPoolImportPointer(&at[i], pool[1 - i], &data) == CUDA_ERROR_INVALID_VALUE);
		MUST(cuMemPoolImportPointer(&at[i], pool[i], &data) == 0);
		MUST(cuStreamWaitEvent(s, event, 0) == 0 && cuMemcpyDtoHAsync(got, at[i], BYTES, s) == 0 && cuStreamSynchronize(s) == 0);
		memset(want, 17 + i, BYTES);
		MUST(memcmp(got, want, BYTES) == 0);
		MUST(cuMemsetD8Async(at[i] + CHANGED, (uint8_t)(0xa0 + i), CHANGED, s) == 0);
		MUST(i ? cuMemFreeAsync(at[i], s) == 0 : cuStreamSynchronize(s) == 0 && cuMemFree(at[i]) == 0);
	}
	mine = mapped(physical);
	MUST(cuMemsetD8Async(mine, 3, BYTES, s) == 0 && cuEventRecord(event, s) == 0);
	hand(from, &c, 1, -1);
	MUST(cuEventSynchronize(event) == 0 && cuEventQuery(event) == 0 && cuEventDestroy(event) == 0);
	get(from, &c, 1);
}

int main(int argc, char **argv)
{
	(void)argv;
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, way) == 0);
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0) {
		second(way[1], argc > 1);
		return 0;
	}
	uint8_t got[BYTES], want[BYTES];
	CUipcEventHandle key;
	CUmemPoolPtrExportData data;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, .location = device};
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, .location = device};
	CUmemoryPool pool[2];
	CUmemGenericAllocationHandle physical;
	CUdeviceptr at[2], mine;
	CUevent event;
	CUstream s;
	int fd = -1, status;
	char c = 0;
	begin();
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0);
	MUST(cuEventCreate(&event, CU_EVENT_INTERPROCESS) == CUDA_ERROR_INVALID_VALUE);
	MUST(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) == 0 && cuIpcGetEventHandle(&key, event) == 0);
	for (int i = 0; i < 2; i++) {
		MUST(cuMemPoolCreate(&pool[i], &props) == 0 && cuMemPoolExportToShareableHandle(&fd, pool[i], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == 0);
		hand(way[0], &c, 1, fd);
		close(fd);
		MUST(cuMemAllocFromPoolAsync(&at[i], BYTES, pool[i], s) == 0 && cuMemsetD8Async(at[i], (uint8_t)(17 + i), BYTES, s) == 0);
	}
	MUST(cuMemCreate(&physical, UNIT, &prop, 0) == 0 && cuMemExportToShareableHandle(&fd, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == 0);
	mine = mapped(physical);
	hand(way[0], &c, 1, fd);
	close(fd);
	hand(way[0], &key, sizeof key, -1);
	MUST(cuEventRecord(event, s) == 0);
	for (int i = 0; i < 2; i++) {
		MUST(cuMemPoolExportPointer(&data, at[i]) == 0);
		hand(way[0], &data, sizeof data, -1);
	}
	get(way[0], &c, 1);
	MUST(cuStreamWaitEvent(s, event, 0) == 0);
	for (int i = 0; i < 2 && argc < 2; i++) {
		memset(want, 17 + i, BYTES);
		memset(want + CHANGED, 0xa0 + i, CHANGED);
		MUST(cuMemcpyDtoHAsync(got, at[i], BYTES, s) == 0 && cuStreamSynchronize(s) == 0 && memcmp(got, want, BYTES) == 0);
	}
	memset(want, 3, BYTES);
	MUST(cuMemcpyDtoHAsync(got, mine, BYTES, s) == 0 && cuStreamSynchronize(s) == 0 && memcmp(got, want, BYTES) == 0);
	hand(way[0], &c, 1, -1);
	MUST(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
