/* Memory that a process exports as a file descriptor and imports again. With an argument another process imports it too. */
#include <cuda.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

enum { UNIT = 2 << 20, N = 4096 };

int main(int argc, char **argv)
{
	CUcontext ctx;
	CUmemGenericAllocationHandle mine, same;
	CUdeviceptr at[2];
	uint8_t out[N], back[N];
	int fd = -1;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	(void)argv;
	pid_t child = argc > 1 ? fork() : 1;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuMemCreate(&mine, UNIT, &prop, 0) == 0 && cuMemExportToShareableHandle(&fd, mine, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == 0 && fd > 2);
	MUST(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0 && close(fd) == 0);
	for (int i = 0; i < 2; i++)
		MUST(cuMemAddressReserve(&at[i], UNIT, 0, 0, 0) == 0 && cuMemMap(at[i], UNIT, 0, i ? same : mine, 0) == 0 && cuMemSetAccess(at[i], UNIT, &access, 1) == 0);
	memset(out, 5, N);
	MUST(cuMemcpyHtoD(at[0], out, N) == 0 && cuMemcpyDtoH(back, at[1], N) == 0 && memcmp(out, back, N) == 0);
	for (int i = 0; i < 2; i++)
		MUST(cuMemUnmap(at[i], UNIT) == 0 && cuMemAddressFree(at[i], UNIT) == 0 && cuMemRelease(i ? same : mine) == 0);
	if (argc > 1 && child > 0)
		MUST(waitpid(child, NULL, 0) == child);
	return 0;
}
