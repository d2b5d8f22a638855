/*
 * A program that includes the runtime's further headers and uses their types like programs for the vendor's headers. It compiles as C and as C++.
 * A function that is not simulated fails with the runtime's code and prints one line, at any number of calls.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_prof.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"

#define WANT(want, call)                                                               \
	do {                                                                           \
		long long got_ = (long long)(call);                                    \
		if (got_ != (long long)(want)) {                                       \
			fprintf(stderr, "%s is %lld at line %d\n", #call, got_, __LINE__); \
			exit(1);                                                       \
		}                                                                      \
	} while (0)
#define UNSUPPORTED(call) WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, call)

static int32_t on_dump(const acldumpChunk *chunk, int32_t length)
{
	return chunk->isLastChunk && chunk->bufLen > 0 ? (int32_t)chunk->dataBuf[0] + length : (int32_t)strlen(chunk->fileName);
}

static void *allocate(aclrtAllocator allocator, size_t size)
{
	(void)allocator;
	return malloc(size);
}

/* Nested structures, pointers and enumerations of acl.h. */
static void structures(void)
{
	aclrtUtilizationInfo use;
	aclrtRandomNumTaskInfo task;
	aclrtPhysicalMemProp prop;
	aclrtBarrierTaskInfo barrier;
	aclrtErrorInfo error;
	int32_t pids[2] = {1, 2};
	aclrtServerPid server;

	memset(&task, 0, sizeof task);
	memset(&prop, 0, sizeof prop);
	memset(&barrier, 0, sizeof barrier);
	memset(&error, 0, sizeof error);
	use.utilizationExtend = NULL;
	use.memoryUtilization = -1;
	WANT(ACL_SUCCESS, aclrtGetDeviceUtilizationRate(0, &use));
	WANT(1, use.memoryUtilization < 0);
	task.dataType = ACL_FLOAT;
	task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
	task.randomNumFuncParaInfo.paramInfo.uniformDisInfo.min.size = 4;
	task.randomNumFuncParaInfo.paramInfo.uniformDisInfo.max.valueOrAddr[0] = 1;
	task.randomParaAddr = NULL;
	task.randomSeed.isAddr = 0;
	prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
	prop.memAttr = ACL_HBM_MEM_HUGE;
	prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	barrier.cmoInfo[ACL_RT_CMO_MAX_BARRIER_NUM - 1].cmoType = ACL_RT_CMO_TYPE_PREFETCH;
	error.errorType = ACL_RT_ERROR_MEMORY;
	error.detail.uceInfo.memUceInfoArray[0].addr = &error;
	server.pid = pids;
	server.num = 2;
	WANT(2, server.pid[1]);
	UNSUPPORTED(aclrtRandomNumAsync(&task, NULL, NULL));
}

static void dump_and_profiling(void)
{
	uint32_t devices[1] = {0};
	acldumpTensorInfo tensor;
	aclprofConfig *config;

	memset(&tensor, 0, sizeof tensor);
	tensor.type = ACL_DUMP_TENSOR_INPUT;
	tensor.addrType = ACL_DUMP_ADDR_RAW;
	tensor.placement = ACL_DUMP_PLACEMENT_DEVICE;
	UNSUPPORTED(acldumpRegCallback(on_dump, 0));
	acldumpUnregCallback();
	WANT(0, acldumpGetPath(DATA_DUMP) != NULL);
	UNSUPPORTED(acldumpSaveExceptionInfo("info", NULL, &tensor, 1));
	UNSUPPORTED(aclprofInit("/tmp", 4));
	UNSUPPORTED(aclprofInit("/tmp", 4));
	config = aclprofCreateConfig(devices, 1, ACL_AICORE_PIPE_UTILIZATION, NULL, ACL_PROF_ACL_API | ACL_PROF_TASK_TIME);
	WANT(1, config == NULL);
	UNSUPPORTED(aclprofStart(config));
	WANT(ACL_SUBSCRIBE_NONE, aclprofGetOpFlag(NULL, 0, 0));
}

static void queues(void)
{
	uint32_t queue, depth = 2;
	acltdtBuf buffer = NULL;
	acltdtQueueAttr *attr = acltdtCreateQueueAttr();
	acltdtChannelHandle *channel = acltdtCreateChannel(0, "channel");
	acltdtDataItem *item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_FLOAT, NULL, 0);

	WANT(1, attr == NULL && channel == NULL && item == NULL);
	UNSUPPORTED(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof depth, &depth));
	UNSUPPORTED(acltdtCreateQueue(attr, &queue));
	UNSUPPORTED(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buffer));
	UNSUPPORTED(acltdtSendTensor(channel, NULL, -1));
	WANT(ACL_TENSOR_DATA_UNDEFINED, acltdtGetTensorTypeFromItem(item));
	WANT(ACL_DT_UNDEFINED, acltdtGetDataTypeFromItem(item));
}

int main(void)
{
	WANT(ACL_SUCCESS, aclInit(NULL));
	WANT(ACL_SUCCESS, aclrtSetDevice(0));
	aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
	WANT(ACL_SUCCESS, aclrtAllocatorSetAllocFuncToDesc(desc, allocate));
	WANT(ACL_SUCCESS, aclrtAllocatorDestroyDesc(desc));
	structures();
	dump_and_profiling();
	queues();
	WANT(ACL_SUCCESS, aclrtResetDevice(0));
	WANT(ACL_SUCCESS, aclFinalize());
	return 0;
}
