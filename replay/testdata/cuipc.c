/* Two processes: the second opens the first one's memory by its key, reads it, and changes a part. The first then sees the change. */
#include <cuda.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

enum { BYTES = 6000, CHANGED = 1000 };

static void begin(void)
{
	CUcontext context;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0);
}

int main(void)
{
	int there[2], back[2], status;
	uint8_t bytes[BYTES], got[BYTES];
	CUipcMemHandle key;
	CUdeviceptr other, mine;
	char c = 0;
	for (int i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i * 7);
	MUST(pipe(there) == 0 && pipe(back) == 0);
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0) {
		begin();
		MUST(read(there[0], &key, sizeof key) == sizeof key);
		MUST(cuIpcOpenMemHandle(&other, key, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == 0);
		MUST(cuMemcpyDtoH(got, other, BYTES) == 0 && memcmp(got, bytes, BYTES) == 0);
		MUST(cuMemsetD8(other + CHANGED, 0xab, CHANGED) == 0);
		MUST(cuIpcCloseMemHandle(other) == 0);
		MUST(write(back[1], &c, 1) == 1);
		return 0;
	}
	begin();
	/* The address is not page-aligned. */
	MUST(cuMemAlloc(&mine, 512) == 0 && cuMemAlloc(&mine, BYTES) == 0 && cuMemcpyHtoD(mine, bytes, BYTES) == 0);
	MUST(cuIpcGetMemHandle(&key, mine) == 0);
	MUST(cuIpcOpenMemHandle(&other, key, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_ERROR_INVALID_CONTEXT);
	MUST(write(there[1], &key, sizeof key) == sizeof key && read(back[0], &c, 1) == 1);
	memset(bytes + CHANGED, 0xab, CHANGED);
	MUST(cuMemcpyDtoH(got, mine, BYTES) == 0 && memcmp(got, bytes, BYTES) == 0);
	MUST(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
