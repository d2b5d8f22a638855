/*
 * libhccl.so: collective communication of one rank. A collective is a copy on the stream, or nothing. More ranks are refused: the
 * simulator has no links between ranks.
 */
#include "acl/acl.h"
#include "hccl_gen.h"
#include "say.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x6c636368u /* "hccl" */

struct communicator {
	uint32_t magic;
	char name[128];
};

/* Values of HcclSetConfig. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HcclConfigValue deterministic;
static unsigned made; /* communicators, for their names */

static HcclResult make(const char *function, uint32_t ranks, uint32_t rank, HcclComm *comm)
{
	struct communicator *c;

	if (!comm)
		return HCCL_E_PTR;
	if (ranks == 0 || rank >= ranks)
		return HCCL_E_PARA;
	if (ranks > 1) {
		SAY_ONCE("%s: %u ranks are not simulated, only one; returns %d; start the program with one rank\n", function, ranks, HCCL_E_NOT_SUPPORT);
		return HCCL_E_NOT_SUPPORT;
	}
	if (!(c = calloc(1, sizeof *c)))
		return HCCL_E_MEMORY;
	c->magic = MAGIC;
	pthread_mutex_lock(&lock);
	snprintf(c->name, sizeof c->name, "aclsim_%u", made++);
	pthread_mutex_unlock(&lock);
	*comm = c;
	return HCCL_SUCCESS;
}

static struct communicator *communicator(HcclComm comm)
{
	struct communicator *c = comm;

	return c && c->magic == MAGIC ? c : NULL;
}

/* Counts the ranks that a rank table names. */
static uint32_t ranks_in(const char *file)
{
	char line[4096];
	uint32_t n = 0;
	FILE *f = file ? fopen(file, "r") : NULL;

	if (!f)
		return 0;
	while (fgets(line, sizeof line, f))
		for (const char *s = line; (s = strstr(s, "\"rank_id\"")); s++)
			n++;
	fclose(f);
	return n;
}

EXPORT HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm)
{
	return make("HcclCommInitClusterInfo", ranks_in(clusterInfo), rank, comm);
}

EXPORT HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank, HcclCommConfig *config, HcclComm *comm)
{
	(void)config;
	return make("HcclCommInitClusterInfoConfig", ranks_in(clusterInfo), rank, comm);
}

EXPORT HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId, uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm)
{
	(void)subCommId;
	(void)config;
	if (!comm || !communicator(*comm) || (rankNum && !rankIds))
		return HCCL_E_PTR;
	if (rankNum == 1 && rankIds[0] != 0)
		return HCCL_E_PARA;
	return make("HcclCreateSubCommConfig", rankNum, subCommRankId, subComm);
}

EXPORT HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo)
{
	if (!rootInfo)
		return HCCL_E_PTR;
	memset(rootInfo, 0, sizeof *rootInfo);
	memcpy(rootInfo, "aclsim", sizeof "aclsim");
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm)
{
	return rootInfo ? make("HcclCommInitRootInfo", nRanks, rank, comm) : HCCL_E_PTR;
}

EXPORT HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, const HcclCommConfig *config, HcclComm *comm)
{
	(void)config;
	return rootInfo ? make("HcclCommInitRootInfoConfig", nRanks, rank, comm) : HCCL_E_PTR;
}

EXPORT HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms)
{
	return devices ? make("HcclCommInitAll", ndev, 0, comms) : HCCL_E_PTR;
}

EXPORT HcclResult HcclCommDestroy(HcclComm comm)
{
	struct communicator *c = communicator(comm);

	if (!c)
		return HCCL_E_PARA;
	c->magic = 0;
	free(c);
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize)
{
	if (!communicator(comm) || !rankSize)
		return HCCL_E_PTR;
	*rankSize = 1;
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank)
{
	if (!communicator(comm) || !rank)
		return HCCL_E_PTR;
	*rank = 0;
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetCommName(HcclComm comm, char *commName)
{
	struct communicator *c = communicator(comm);

	if (!c || !commName)
		return HCCL_E_PTR;
	strcpy(commName, c->name);
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError)
{
	if (!communicator(comm) || !asyncError)
		return HCCL_E_PTR;
	*asyncError = HCCL_SUCCESS;
	return HCCL_SUCCESS;
}

EXPORT const char *HcclGetErrorString(HcclResult code)
{
	switch ((int)code) {
	case HCCL_SUCCESS:
		return "no error";
	case HCCL_E_PARA:
		return "parameter error";
	case HCCL_E_PTR:
		return "null pointer or not a communicator";
	case HCCL_E_MEMORY:
		return "out of memory";
	case HCCL_E_NOT_SUPPORT:
		return "not simulated";
	case HCCL_E_RUNTIME:
		return "a call of the runtime failed";
	}
	return "unknown error";
}

EXPORT uint32_t HcclGetCommConfigCapability(void) { return 0; }

EXPORT HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue value)
{
	if (config != HCCL_DETERMINISTIC)
		return HCCL_E_PARA;
	pthread_mutex_lock(&lock);
	deterministic = value;
	pthread_mutex_unlock(&lock);
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *value)
{
	if (config != HCCL_DETERMINISTIC || !value)
		return HCCL_E_PARA;
	pthread_mutex_lock(&lock);
	*value = deterministic;
	pthread_mutex_unlock(&lock);
	return HCCL_SUCCESS;
}

/* Bytes of an element, 0 for an unknown type. */
static uint64_t size(HcclDataType type)
{
	static const uint8_t sizes[] = {
		[HCCL_DATA_TYPE_INT8] = 1, [HCCL_DATA_TYPE_INT16] = 2, [HCCL_DATA_TYPE_INT32] = 4, [HCCL_DATA_TYPE_FP16] = 2, [HCCL_DATA_TYPE_FP32] = 4,
		[HCCL_DATA_TYPE_INT64] = 8, [HCCL_DATA_TYPE_UINT64] = 8, [HCCL_DATA_TYPE_UINT8] = 1, [HCCL_DATA_TYPE_UINT16] = 2, [HCCL_DATA_TYPE_UINT32] = 4,
		[HCCL_DATA_TYPE_FP64] = 8, [HCCL_DATA_TYPE_BFP16] = 2, [HCCL_DATA_TYPE_INT128] = 16, [HCCL_DATA_TYPE_HIF8] = 1, [HCCL_DATA_TYPE_FP8E4M3] = 1,
		[HCCL_DATA_TYPE_FP8E5M2] = 1, [HCCL_DATA_TYPE_FP8E8M0] = 1, [HCCL_DATA_TYPE_MXFP8] = 1,
	};

	return (unsigned)type < sizeof sizes ? sizes[type] : 0;
}

/* Copies count elements from a displacement to another, also in elements. */
static HcclResult copy_at(HcclComm comm, const void *from, uint64_t read_at, void *to, uint64_t write_at, uint64_t count, HcclDataType type, aclrtStream stream)
{
	uint64_t n = size(type), bytes;
	const char *source = from;
	char *target = to;

	if (!communicator(comm) || (count && (!from || !to)))
		return HCCL_E_PTR;
	if (!n || __builtin_mul_overflow(count, n, &bytes))
		return HCCL_E_PARA;
	source += read_at * n;
	target += write_at * n;
	if (!bytes || source == target)
		return HCCL_SUCCESS;
	return aclrtMemcpyAsync(target, bytes, source, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

static HcclResult copy(HcclComm comm, const void *from, void *to, uint64_t count, HcclDataType type, aclrtStream stream)
{
	return copy_at(comm, from, 0, to, 0, count, type, stream);
}

EXPORT HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream)
{
	(void)op;
	return copy(comm, sendBuf, recvBuf, count, dataType, stream);
}

EXPORT HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, uint32_t root, HcclComm comm, aclrtStream stream)
{
	(void)op;
	return root ? HCCL_E_PARA : copy(comm, sendBuf, recvBuf, count, dataType, stream);
}

EXPORT HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm, aclrtStream stream)
{
	return root ? HCCL_E_PARA : copy(comm, buf, buf, count, dataType, stream);
}

EXPORT HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream)
{
	(void)op;
	return copy(comm, sendBuf, recvBuf, recvCount, dataType, stream);
}

EXPORT HcclResult HcclReduceScatterV(void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream)
{
	const uint64_t *counts = sendCounts, *at = sendDispls;

	(void)op;
	if (!counts || !at)
		return HCCL_E_PTR;
	return counts[0] == recvCount ? copy_at(comm, sendBuf, at[0], recvBuf, 0, recvCount, dataType, stream) : HCCL_E_PARA;
}

EXPORT HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root, HcclComm comm, aclrtStream stream)
{
	return root ? HCCL_E_PARA : copy(comm, sendBuf, recvBuf, recvCount, dataType, stream);
}

EXPORT HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm, aclrtStream stream)
{
	return copy(comm, sendBuf, recvBuf, sendCount, dataType, stream);
}

EXPORT HcclResult HcclAllGatherV(void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts, const void *recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream)
{
	const uint64_t *counts = recvCounts, *at = recvDispls;

	if (!counts || !at)
		return HCCL_E_PTR;
	return counts[0] == sendCount ? copy_at(comm, sendBuf, 0, recvBuf, at[0], sendCount, dataType, stream) : HCCL_E_PARA;
}

EXPORT HcclResult HcclBarrier(HcclComm comm, aclrtStream stream)
{
	(void)stream;
	return communicator(comm) ? HCCL_SUCCESS : HCCL_E_PTR;
}

/* A rank can't send to itself outside a batch: the call would wait for its partner. */
EXPORT HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm, aclrtStream stream)
{
	(void)sendBuf, (void)count, (void)dataType, (void)destRank, (void)stream;
	return communicator(comm) ? HCCL_E_PARA : HCCL_E_PTR;
}

EXPORT HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm, aclrtStream stream)
{
	(void)recvBuf, (void)count, (void)dataType, (void)srcRank, (void)stream;
	return communicator(comm) ? HCCL_E_PARA : HCCL_E_PTR;
}

/* The n-th send of a rank to itself is for its n-th receive. */
EXPORT HcclResult HcclBatchSendRecv(HcclSendRecvItem *items, uint32_t n, HcclComm comm, aclrtStream stream)
{
	uint32_t to = 0;

	if (!communicator(comm) || (n && !items))
		return HCCL_E_PTR;
	for (uint32_t from = 0; from < n; from++) {
		HcclResult e;

		if (items[from].remoteRank != 0)
			return HCCL_E_PARA;
		if (items[from].sendRecvType != HCCL_SEND)
			continue;
		while (to < n && items[to].sendRecvType != HCCL_RECV)
			to++;
		if (to == n || items[to].count != items[from].count || items[to].dataType != items[from].dataType)
			return HCCL_E_PARA;
		e = copy(comm, items[from].buf, items[to++].buf, items[from].count, items[from].dataType, stream);
		if (e)
			return e;
	}
	return HCCL_SUCCESS;
}

EXPORT HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf, uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream)
{
	if (sendCount != recvCount || sendType != recvType)
		return HCCL_E_PARA;
	return copy(comm, sendBuf, (void *)(uintptr_t)recvBuf, sendCount, sendType, stream);
}

EXPORT HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType, const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream)
{
	const uint64_t *sent = sendCounts, *from = sdispls, *received = recvCounts, *to = rdispls;

	if (!sent || !from || !received || !to)
		return HCCL_E_PTR;
	if (sent[0] != received[0] || sendType != recvType)
		return HCCL_E_PARA;
	return copy_at(comm, sendBuf, from[0], (void *)(uintptr_t)recvBuf, to[0], sent[0], sendType, stream);
}

EXPORT HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf, HcclDataType recvType, HcclComm comm, aclrtStream stream)
{
	const uint64_t *counts = sendCountMatrix;

	if (!counts)
		return HCCL_E_PTR;
	return sendType == recvType ? copy(comm, sendBuf, (void *)(uintptr_t)recvBuf, counts[0], sendType, stream) : HCCL_E_PARA;
}

EXPORT HcclResult HcclGroupStart(void) { return HCCL_SUCCESS; }
EXPORT HcclResult HcclGroupEnd(void) { return HCCL_SUCCESS; }
EXPORT HcclResult HcclCommSuspend(HcclComm comm) { return communicator(comm) ? HCCL_SUCCESS : HCCL_E_PTR; }
EXPORT HcclResult HcclCommResume(HcclComm comm) { return communicator(comm) ? HCCL_SUCCESS : HCCL_E_PTR; }

#define REFUSED(name, ...) \
	EXPORT HcclResult name(__VA_ARGS__) \
	{ \
		SAY_ONCE(#name " is not simulated; returns %d\n", HCCL_E_NOT_SUPPORT); \
		return HCCL_E_NOT_SUPPORT; \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"
REFUSED(HcclSetCommConfig, HcclComm comm, HcclConfig config, HcclConfigValue configValue)
REFUSED(HcclGetCommConfig, HcclComm comm, HcclConfig config, HcclConfigValue *configValue)
REFUSED(HcclCommSetMemoryRange, HcclComm comm, void *baseVirPtr, size_t size, size_t alignment, uint64_t flags)
REFUSED(HcclCommUnsetMemoryRange, HcclComm comm, void *baseVirPtr)
REFUSED(HcclCommActivateCommMemory, HcclComm comm, void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)
REFUSED(HcclCommDeactivateCommMemory, HcclComm comm, void *virPtr)
REFUSED(HcclCommWorkingDevNicSet, HcclComm comm, uint32_t *ranks, bool *useBackup, uint32_t nRanks)
REFUSED(HcclCommRegister, HcclComm comm, void *addr, uint64_t size, void **handle, uint32_t flag)
REFUSED(HcclCommDeregister, HcclComm comm, void *handle)
REFUSED(HcclCommExchangeMem, HcclComm comm, void *windowHandle, uint32_t *peerRanks, uint32_t peerRankNum)
