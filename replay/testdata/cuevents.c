/*
 * An event that a graph and the program both record: a wait is for the latest record of either. A copy's result exists only
 * then: the program holds the copy's stream until it lets it go on.
 */
#include <cuda.h>
#include <pthread.h>
#include <string.h>

#include "must.h"

enum { N = 64 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void stand(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	CUcontext ctx;
	CUdeviceptr x;
	CUstream s, other;
	CUevent event, second;
	CUgraph g;
	CUgraphExec e;
	CUgraphNode n;
	uint8_t *host;
	MUST(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
	MUST(cuMemAlloc(&x, N) == 0 && cuMemsetD8(x, 7, N) == 0 && cuMemAllocHost((void **)&host, N) == 0);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == 0 && cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == 0);
	MUST(cuEventCreate(&event, 0) == 0 && cuEventCreate(&second, 0) == 0 && cuGraphCreate(&g, 0) == 0);
	if (strcmp(how, "external") == 0) {
		MUST(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == 0);
		MUST(cuEventRecordWithFlags(event, other, CU_EVENT_RECORD_EXTERNAL) == 0 && cuStreamEndCapture(other, &g) == 0);
	} else
		MUST(cuGraphAddEventRecordNode(&n, g, NULL, 0, event) == 0);
	MUST(cuGraphInstantiate(&e, g, 0) == 0);
	if (strcmp(how, "set") == 0)
		MUST(cuGraphExecEventRecordNodeSetEvent(e, n, second) == 0);

	bool last = strcmp(how, "last") == 0;
	memset(host, 1, N);
	pthread_mutex_lock(&gate);
	MUST(cuLaunchHostFunc(s, stand, NULL) == 0 && cuMemcpyDtoHAsync(host, x, N, s) == 0);
	if (last)
		MUST(cuGraphLaunch(e, other) == 0);
	MUST(cuEventRecord(event, s) == 0);
	if (!last)
		MUST(cuGraphLaunch(e, other) == 0);
	if (last || strcmp(how, "set") == 0) {
		pthread_mutex_unlock(&gate);
		MUST(cuEventSynchronize(event) == 0 && host[0] == 7);
		memset(host, 2, N); /* overwrites the copy's result */
	} else {
		MUST(cuEventSynchronize(event) == 0 && host[0] == 1);
		pthread_mutex_unlock(&gate);
	}
	MUST(cuStreamSynchronize(s) == 0 && cuStreamSynchronize(other) == 0);
	MUST(host[0] == (last || strcmp(how, "set") == 0 ? 2 : 7) && cuGraphExecDestroy(e) == 0 && cuGraphDestroy(g) == 0);
	MUST(cuMemFreeHost(host) == 0 && cuMemFree(x) == 0);
	return 0;
}
