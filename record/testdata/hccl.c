/*
 * A program with collectives. With -DLIBRARY: a minimal collectives library with one rank, which copies to itself by runtime calls.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

#include "hccl_gen.h"

#define RANKS 2

#ifdef LIBRARY

struct communicator { void *window; };

void (*hccl_escape)(void);

HcclResult HcclGetRankSize(HcclComm comm, uint32_t *n)
{
	int32_t device;
	/* A query that calls the runtime. */
	*n = comm == NULL || aclrtGetDevice(&device) != 0 ? 0 : RANKS;
	return *n == 0 ? HCCL_E_PTR : HCCL_SUCCESS;
}

HcclResult HcclGetRootInfo(HcclRootInfo *info)
{
	memset(info, 7, sizeof *info);
	return HCCL_SUCCESS;
}

HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo *info, uint32_t rank, const HcclCommConfig *config, HcclComm *comm)
{
	struct communicator *c = malloc(sizeof *c);
	uint32_t n;
	if (ranks != RANKS || rank != 0 || info->internal[4107] != 7 || config->configSize != sizeof *config || aclrtMalloc(&c->window, 4096, ACL_MEM_MALLOC_HUGE_FIRST) != 0)
		return HCCL_E_PARA;
	*comm = c;
	return HcclGetRankSize(*comm, &n);
}

HcclResult HcclAllReduce(void *send, void *recv, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm, aclrtStream stream)
{
	struct communicator *c = comm;
	uint64_t n = 4 * count;
	if (type != HCCL_DATA_TYPE_FP32 || op != HCCL_REDUCE_SUM)
		return HCCL_E_NOT_SUPPORT;
	return aclrtMemcpyAsync(c->window, n, send, n, ACL_MEMCPY_DEVICE_TO_DEVICE, stream) ||
			       aclrtMemcpyAsync(recv, n, c->window, n, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)
		       ? HCCL_E_RUNTIME
		       : HCCL_SUCCESS;
}

HcclResult HcclAlltoAllV(const void *send, const void *counts, const void *displs, HcclDataType type, const void *recv, const void *recv_counts,
			 const void *recv_displs, HcclDataType recv_type, HcclComm comm, aclrtStream stream)
{
	(void)send, (void)counts, (void)displs, (void)type, (void)recv, (void)recv_counts, (void)recv_displs, (void)recv_type, (void)comm, (void)stream;
	return HCCL_SUCCESS;
}

/* Very many runtime calls inside one call. */
HcclResult HcclGroupEnd(void)
{
	int32_t device;
	for (int i = 0; i < 100000; i++)
		if (aclrtGetDevice(&device) != 0)
			return HCCL_E_RUNTIME;
	return HCCL_SUCCESS;
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream)
{
	int32_t device;
	(void)comm, (void)stream;
	aclrtGetDevice(&device);
	hccl_escape();
	return HCCL_SUCCESS;
}

HcclResult HcclCommDestroy(HcclComm comm)
{
	struct communicator *c = comm;
	HcclResult e = aclrtFree(c->window) ? HCCL_E_RUNTIME : HCCL_SUCCESS;
	free(c);
	return e;
}

#else

extern void (*hccl_escape)(void);
static jmp_buf back;

static void jump(void) { longjmp(back, 1); }
static void die(void) { kill(getpid(), SIGKILL); }

int main(int argc, char **argv)
{
	static HcclRootInfo root;
	HcclCommConfig config = {.configSize = sizeof config, .hcclBufferSize = 200};
	float data[64], result[64] = {0};
	uint64_t counts[RANKS] = {3, 5}, displs[RANKS] = {0, 3};
	void *send, *recv;
	HcclComm comm;
	aclrtStream stream;
	const char *what = argc > 1 ? argv[1] : "";

	for (int i = 0; i < 64; i++)
		data[i] = (float)i;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtMalloc(&send, sizeof data, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMalloc(&recv, sizeof data, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(send, sizeof data, data, sizeof data, ACL_MEMCPY_HOST_TO_DEVICE));
	CHECK(HcclGetRootInfo(&root));
	CHECK(HcclCommInitRootInfoConfig(RANKS, &root, 0, &config, &comm));
	CHECK(HcclAllReduce(send, recv, 64, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
	CHECK(HcclAlltoAllV(send, counts, displs, HCCL_DATA_TYPE_INT8, recv, counts, displs, HCCL_DATA_TYPE_INT8, comm, stream));
	CHECK(HcclAllReduce(send, recv, 64, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, comm, stream) != HCCL_E_NOT_SUPPORT);
	CHECK(aclrtSynchronizeStream(stream));
	CHECK(aclrtMemcpy(result, sizeof result, recv, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(memcmp(data, result, sizeof data));
	if (strcmp(what, "many") == 0)
		CHECK(HcclGroupEnd());
	hccl_escape = jump;
	if (strcmp(what, "jump") == 0 && setjmp(back) == 0)
		HcclBarrier(comm, stream);
	if (strcmp(what, "die") == 0) {
		hccl_escape = die;
		HcclBarrier(comm, stream);
	}
	CHECK(HcclCommDestroy(comm));
	CHECK(aclrtFree(send));
	CHECK(aclrtFree(recv));
	CHECK(aclrtDestroyStream(stream));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}

#endif
