/* Copies of different sizes on a context's default stream, on two streams that synchronize with it, and on one that does not. */
#include <cuda.h>

#include "must.h"

enum { UNIT = 1000 };

int main(void)
{
	CUcontext ctx;
	CUdeviceptr from, to;
	CUstream first, apart, last;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuMemAlloc(&from, UNIT) == 0 && cuMemAlloc(&to, UNIT) == 0);
	MUST(cuStreamCreate(&first, CU_STREAM_DEFAULT) == 0 && cuStreamCreateWithPriority(&apart, CU_STREAM_NON_BLOCKING, 0) == 0 && cuStreamCreate(&last, CU_STREAM_DEFAULT) == 0);
	CUstream streams[] = {first, apart, NULL, NULL, first, apart, NULL, last, first};
	/* Without a wait, no duration can be estimated. Units: first 0 to 1, default 1 to 3, first 3 to 4, default 4 to 5, last and first 5 to 6; the other one 0 to 2 */
	for (unsigned i = 0; i < sizeof streams / sizeof *streams; i++)
		MUST(cuMemcpyDtoDAsync(to, from, UNIT, streams[i]) == 0);
	return 0;
}
