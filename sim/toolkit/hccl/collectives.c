/*
 * libhccl.so: collective communication of ranks on one machine, in stream order. A collective is a list of messages between pairs of
 * ranks. Ranks that disagree on a message wait until the time limit of the waits (HCCL_EXEC_TIMEOUT).
 */
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

enum { ALIGN = 512 }; /* of parts of a buffer: a multiple of each element size */

/* Values of HcclSetConfig. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HcclConfigValue deterministic;

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
	case HCCL_E_TIMEOUT:
		return "a rank has not come in time";
	case HCCL_E_TCP_CONNECT:
		return "the process that made the root information can't be reached";
	case HCCL_E_RUNTIME:
		return "a call of the runtime failed";
	case HCCL_E_REMOTE:
		return "another rank has failed or ended";
	case HCCL_E_OOM:
		return "out of device memory";
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

/* A message to or from a rank. */
struct message {
	uint32_t rank;
	void *at;
	uint64_t bytes;
};

/* What a rank does in a collective. All ranks know the sizes of their messages, so both ends of a pair make the same number of rounds. */
struct exchange {
	struct communicator *c;
	aclrtStream stream;
	struct message *out, *in;
	uint32_t outs, ins;
	bool same;  /* all messages out have the same content, and share a part of the buffer */
	bool joins;  /* messages in are reduced, in order */
	HcclDataType type;
	HcclReduceOp op;
};

/* Bytes that one round of a message moves. */
static uint64_t portion(const struct exchange *x) { return x->same ? x->c->half : x->c->half / x->c->ranks / ALIGN * ALIGN; }

/* The part of a buffer for a reader. */
static char *part(const struct exchange *x, char *buffer, uint32_t reader) { return buffer + (x->same ? 0 : reader * portion(x)); }

/* Bytes of a round. An empty message has one round, which only signals. */
static bool in_round(const struct exchange *x, const struct message *m, uint64_t round, uint64_t *from, uint64_t *n)
{
	*from = round * portion(x);
	*n = *from < m->bytes ? m->bytes - *from : 0;
	if (*n > portion(x))
		*n = portion(x);
	return *n || round == 0;
}

static HcclResult copy(const struct exchange *x, void *to, const void *from, uint64_t n)
{
	if (!n || to == from)
		return HCCL_SUCCESS;
	return aclrtMemcpyAsync(to, n, from, n, ACL_MEMCPY_DEVICE_TO_DEVICE, x->stream) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

static HcclResult record(const struct exchange *x, uint32_t rank, int kind)
{
	return aclrtRecordNotify(x->c->others[rank].signals[kind], x->stream) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

static HcclResult await(const struct exchange *x, uint32_t rank, int kind)
{
	return aclrtWaitAndResetNotify(own_signal(x->c, rank, kind), x->stream, x->c->time_limit) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
}

static HcclResult fill(const struct exchange *x, uint64_t round, bool *more)
{
	const struct communicator *c = x->c;
	HcclResult e = HCCL_SUCCESS;
	uint64_t from, n;

	for (uint32_t i = 0; i < x->outs && !e; i++)
		if (in_round(x, &x->out[i], round, &from, &n)) {
			*more = true;
			if (!x->same || i == 0)
				e = copy(x, part(x, c->buffer, x->out[i].rank), (char *)x->out[i].at + from, n);
		}
	for (uint32_t i = 0; i < x->outs && !e; i++)
		if (x->out[i].rank != c->rank && in_round(x, &x->out[i], round, &from, &n))
			e = record(x, x->out[i].rank, FILLED);
	return e;
}

static HcclResult receive(const struct exchange *x, uint64_t round, bool *more)
{
	struct communicator *c = x->c;
	HcclResult e = HCCL_SUCCESS;
	uint64_t from, n;

	for (uint32_t i = 0; i < x->ins && !e; i++) {
		const struct message *m = &x->in[i];
		bool own = m->rank == c->rank;
		char *to, *source = part(x, own ? c->buffer : c->others[m->rank].buffer, c->rank);

		if (!in_round(x, m, round, &from, &n))
			continue;
		to = (char *)m->at + from;
		*more = true;
		if (!own)
			e = await(x, m->rank, FILLED);
		if (!e && x->joins && i > 0 && n) {
			/* Only memory of one device can be reduced. */
			if (!own) {
				e = copy(x, c->buffer + c->half, source, n);
				source = c->buffer + c->half;
			}
			if (!e)
				e = reduce(c, to, source, n, x->type, x->op, x->stream);
		} else if (!e) {
			e = copy(x, to, source, n);
		}
		if (!e && !own)
			e = record(x, m->rank, READ);
	}
	return e;
}

/* The message of a rank to itself, NULL for none. */
static const struct message *own(const struct communicator *c, const struct message *m, uint32_t n)
{
	while (n && m->rank != c->rank)
		m++, n--;
	return n ? m : NULL;
}

/*
 * Makes the tasks of a collective. Rounds are independent of other rounds, and each rank needs only earlier rounds of the others, so ranks
 * with different numbers of rounds do not wait for each other in a circle.
 */
static HcclResult run(struct exchange *x)
{
	struct communicator *c = x->c;
	HcclResult e = HCCL_SUCCESS;
	const struct message *out = own(c, x->out, x->outs), *in = own(c, x->in, x->ins);
	bool more = true;

	if (out && in && out->bytes != in->bytes)
		return HCCL_E_PARA;
	if (c->ranks == 1)
		return out && in ? copy(x, in->at, out->at, in->bytes) : HCCL_SUCCESS;
	pthread_mutex_lock(&c->lock);
	for (uint64_t round = 0; more && !e; round++) {
		uint64_t from, n;

		more = false;
		e = fill(x, round, &more);
		if (!e)
			e = receive(x, round, &more);
		for (uint32_t i = 0; i < x->outs && !e; i++)
			if (x->out[i].rank != c->rank && in_round(x, &x->out[i], round, &from, &n))
				e = await(x, x->out[i].rank, READ);
	}
	pthread_mutex_unlock(&c->lock);
	return e;
}

/* One side of a collective. Counts and displacements are in elements. */
struct side {
	int64_t ranks; /* ALL, NOBODY or one rank */
	const void *at;
	uint64_t count;
	bool one;                                /* the same elements for all ranks, instead of a part for each */
	const uint64_t *counts, *displacements; /* of the parts, by rank; NULL if they have count elements, one after the other */
};

enum { ALL = -1, NOBODY = -2 };

/* Lists the messages of a side. */
static HcclResult list(const struct communicator *c, const struct side *s, uint64_t size, struct message *to, uint32_t *n)
{
	for (uint32_t i = 0; i < c->ranks; i++) {
		uint64_t count = s->counts ? s->counts[i] : s->count, at = 0;

		if (s->ranks != ALL && s->ranks != i)
			continue;
		if (s->displacements)
			at = s->displacements[i];
		else if (!s->one && s->ranks == ALL && __builtin_mul_overflow(i, count, &at))
			return HCCL_E_PARA;
		if (__builtin_mul_overflow(count, size, &count) || __builtin_mul_overflow(at, size, &at))
			return HCCL_E_PARA;
		if (count && !s->at)
			return HCCL_E_PTR;
		to[(*n)++] = (struct message){i, (char *)(uintptr_t)s->at + at, count};
	}
	return HCCL_SUCCESS;
}

/* A collective of one type. op is NULL if nothing is reduced. */
static HcclResult collective(HcclComm comm, struct side out, struct side in, HcclDataType type, const HcclReduceOp *op, aclrtStream stream)
{
	struct exchange x = {.c = communicator(comm), .stream = stream, .same = out.one, .joins = op, .type = type, .op = op ? *op : HCCL_REDUCE_SUM};
	uint64_t size = element_size(type);
	struct message *messages;
	HcclResult e;

	if (!x.c)
		return HCCL_E_PTR;
	if (!size || out.ranks >= x.c->ranks || in.ranks >= x.c->ranks)
		return HCCL_E_PARA;
	if (op && !reduces(type, *op))
		return HCCL_E_NOT_SUPPORT;
	messages = calloc(2ul * x.c->ranks, sizeof *messages);
	if (!messages)
		return HCCL_E_MEMORY;
	x.out = messages;
	x.in = messages + x.c->ranks;
	e = list(x.c, &out, size, x.out, &x.outs);
	if (!e)
		e = list(x.c, &in, size, x.in, &x.ins);
	if (!e)
		e = run(&x);
	free(messages);
	return e;
}

/* The rank of a communicator, one that no root is if it is none. */
static uint32_t rank_of(HcclComm comm) { return communicator(comm) ? communicator(comm)->rank : UINT32_MAX; }

/* The same elements for all ranks, a part of one length for each, and parts of other lengths. */
static struct side whole(int64_t ranks, const void *at, uint64_t count) { return (struct side){.ranks = ranks, .at = at, .count = count, .one = true}; }
static struct side parts(int64_t ranks, const void *at, uint64_t count) { return (struct side){.ranks = ranks, .at = at, .count = count}; }
static struct side lengths(const void *at, const void *counts, const void *displacements)
{
	return (struct side){.ranks = ALL, .at = at, .counts = counts, .displacements = displacements};
}

EXPORT HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream)
{
	return collective(comm, whole(ALL, sendBuf, count), whole(ALL, recvBuf, count), dataType, &op, stream);
}

EXPORT HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, uint32_t root, HcclComm comm, aclrtStream stream)
{
	return collective(comm, whole(root, sendBuf, count), whole(rank_of(comm) == root ? ALL : NOBODY, recvBuf, count), dataType, &op, stream);
}

EXPORT HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm, aclrtStream stream)
{
	bool gives = rank_of(comm) == root;

	if (communicator(comm) && root >= communicator(comm)->ranks)
		return HCCL_E_PARA;
	return collective(comm, whole(gives ? ALL : NOBODY, buf, count), whole(gives ? NOBODY : (int64_t)root, buf, count), dataType, NULL, stream);
}

EXPORT HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream)
{
	return collective(comm, parts(ALL, sendBuf, recvCount), whole(ALL, recvBuf, recvCount), dataType, &op, stream);
}

EXPORT HcclResult HcclReduceScatterV(void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream)
{
	if (!sendCounts || !sendDispls)
		return HCCL_E_PTR;
	return collective(comm, lengths(sendBuf, sendCounts, sendDispls), whole(ALL, recvBuf, recvCount), dataType, &op, stream);
}

EXPORT HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root, HcclComm comm, aclrtStream stream)
{
	return collective(comm, parts(rank_of(comm) == root ? ALL : NOBODY, sendBuf, recvCount), parts(root, recvBuf, recvCount), dataType, NULL, stream);
}

EXPORT HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm, aclrtStream stream)
{
	return collective(comm, whole(ALL, sendBuf, sendCount), parts(ALL, recvBuf, sendCount), dataType, NULL, stream);
}

EXPORT HcclResult HcclAllGatherV(void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts, const void *recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream)
{
	if (!recvCounts || !recvDispls)
		return HCCL_E_PTR;
	return collective(comm, whole(ALL, sendBuf, sendCount), lengths(recvBuf, recvCounts, recvDispls), dataType, NULL, stream);
}

EXPORT HcclResult HcclBarrier(HcclComm comm, aclrtStream stream)
{
	return collective(comm, whole(ALL, NULL, 0), whole(ALL, NULL, 0), HCCL_DATA_TYPE_INT8, NULL, stream);
}

/* A rank can't send to itself outside a batch: the call would wait for its partner. */
EXPORT HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm, aclrtStream stream)
{
	if (rank_of(comm) == destRank)
		return HCCL_E_PARA;
	return collective(comm, parts(destRank, sendBuf, count), parts(NOBODY, NULL, 0), dataType, NULL, stream);
}

EXPORT HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm, aclrtStream stream)
{
	if (rank_of(comm) == srcRank)
		return HCCL_E_PARA;
	return collective(comm, parts(NOBODY, NULL, 0), parts(srcRank, recvBuf, count), dataType, NULL, stream);
}

/* Makes the n-th send to each rank and the n-th receive from each rank at once. The n-th send of a pair is for its n-th receive. */
static HcclResult wave(struct exchange *x, const HcclSendRecvItem *items, uint32_t num, uint32_t n, uint32_t *seen)
{
	struct communicator *c = x->c;

	x->outs = x->ins = 0;
	memset(seen, 0, 2 * c->ranks * sizeof *seen);
	for (uint32_t i = 0; i < num; i++) {
		const HcclSendRecvItem *item = &items[i];
		bool out = item->sendRecvType == HCCL_SEND;
		struct message m = {item->remoteRank, item->buf, item->count * element_size(item->dataType)};

		if (seen[2 * item->remoteRank + out]++ != n)
			continue;
		if (out)
			x->out[x->outs++] = m;
		else
			x->in[x->ins++] = m;
	}
	if (!own(c, x->out, x->outs) != !own(c, x->in, x->ins))
		return HCCL_E_PARA;
	return run(x);
}

EXPORT HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream)
{
	struct exchange x = {.c = communicator(comm), .stream = stream, .outs = 1};
	HcclResult e = HCCL_SUCCESS;
	uint32_t *seen;

	if (!x.c || (itemNum && !sendRecvInfo))
		return HCCL_E_PTR;
	for (uint32_t i = 0; i < itemNum; i++) {
		uint64_t bytes, size = element_size(sendRecvInfo[i].dataType);

		if (sendRecvInfo[i].remoteRank >= x.c->ranks || (unsigned)sendRecvInfo[i].sendRecvType > HCCL_RECV || !size ||
		    __builtin_mul_overflow(sendRecvInfo[i].count, size, &bytes))
			return HCCL_E_PARA;
		if (bytes && !sendRecvInfo[i].buf)
			return HCCL_E_PTR;
	}
	seen = calloc(2ul * x.c->ranks, sizeof *seen);
	x.out = calloc(2ul * x.c->ranks, sizeof *x.out);
	if (seen && x.out) {
		x.in = x.out + x.c->ranks;
		for (uint32_t n = 0; !e && x.outs + x.ins; n++)
			e = wave(&x, sendRecvInfo, itemNum, n, seen);
	} else {
		e = HCCL_E_MEMORY;
	}
	free(x.out);
	free(seen);
	return e;
}

EXPORT HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf, uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream)
{
	if (sendCount != recvCount || sendType != recvType)
		return HCCL_E_PARA;
	return collective(comm, parts(ALL, sendBuf, sendCount), parts(ALL, recvBuf, recvCount), sendType, NULL, stream);
}

EXPORT HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType, const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream)
{
	if (!sendCounts || !sdispls || !recvCounts || !rdispls)
		return HCCL_E_PTR;
	if (sendType != recvType)
		return HCCL_E_PARA;
	return collective(comm, lengths(sendBuf, sendCounts, sdispls),
		lengths(recvBuf, recvCounts, rdispls), sendType, NULL, stream);
}

/* The matrix has the elements from each rank (row) to each rank (column). */
EXPORT HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf, HcclDataType recvType, HcclComm comm, aclrtStream stream)
{
	const uint64_t *matrix = sendCountMatrix;
	struct communicator *c = communicator(comm);
	uint64_t *lists, sent = 0, received = 0;
	HcclResult e;

	if (!c || !matrix)
		return HCCL_E_PTR;
	if (sendType != recvType)
		return HCCL_E_PARA;
	lists = calloc(4ul * c->ranks, sizeof *lists);
	if (!lists)
		return HCCL_E_MEMORY;
	uint64_t *out = lists, *out_at = out + c->ranks, *in = out_at + c->ranks, *in_at = in + c->ranks;
	for (uint32_t i = 0; i < c->ranks; i++) {
		out[i] = matrix[(uint64_t)c->rank * c->ranks + i];
		in[i] = matrix[(uint64_t)i * c->ranks + c->rank];
		out_at[i] = sent;
		in_at[i] = received;
		sent += out[i];
		received += in[i];
	}
	e = collective(comm, lengths(sendBuf, out, out_at), lengths(recvBuf, in, in_at), sendType, NULL, stream);
	free(lists);
	return e;
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
