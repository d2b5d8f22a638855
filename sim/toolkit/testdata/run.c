/* Built against a root only. Adds two tensors by an operator, and moves data by a communicator of one rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <acl/acl.h>
#include <acl/acl_op_compiler.h>
#include <aclnn/aclnn_base.h>
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_trans_matmul_weight.h>
#include <hccl/hccl.h>
#include <hccl/hccl_types.h>

#define WANT(want, call)                                                                     \
	do {                                                                                 \
		long long want_ = (want), got_ = (call);                                     \
		if (want_ != got_) {                                                         \
			fprintf(stderr, "%d: %s is %lld, not %lld\n", __LINE__, #call, got_, want_); \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

static void add(aclrtStream stream, void *a, void *b, void *out)
{
	const int64_t dims[] = {2, 3}, strides[] = {3, 1};
	float one = 1;
	aclTensor *t[3];
	void *at[] = {a, b, out};
	aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
	uint64_t size;
	aclOpExecutor *executor;
	aclIntArray *shape = aclCreateIntArray(dims, 2);

	WANT(ACLNN_SUCCESS, aclnnCalculateMatmulWeightSizeV2(shape, ACL_FLOAT16, &size));
	WANT(ACLNN_SUCCESS, aclDestroyIntArray(shape));
	for (int i = 0; i < 3; i++)
		t[i] = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, at[i]);
	WANT(ACLNN_SUCCESS, aclnnAddGetWorkspaceSize(t[0], t[1], alpha, t[2], &size, &executor));
	WANT(ACLNN_SUCCESS, aclnnAdd(NULL, size, executor, stream));
	WANT(ACLNN_SUCCESS, aclDestroyScalar(alpha));
	for (int i = 0; i < 3; i++)
		WANT(ACLNN_SUCCESS, aclDestroyTensor(t[i]));
}

static void describe(void)
{
	const int64_t dims[] = {2, 3};
	int64_t n = 0;
	char value[16] = "";
	aclTensorDesc *d = aclCreateTensorDesc(ACL_FLOAT16, 2, dims, ACL_FORMAT_ND);

	WANT(2, aclGetTensorDescNumDims(d));
	WANT(12, aclGetTensorDescSize(d));
	WANT(ACL_FLOAT16, aclGetTensorDescType(d));
	WANT(0, aclGetTensorDescDimV2(d, 1, &n));
	WANT(3, n);
	WANT(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(d, 2, &n));
	aclDestroyTensorDesc(d);
	WANT(8, aclGetCompileoptSize(ACL_OP_JIT_COMPILE));
	WANT(0, aclGetCompileopt(ACL_OP_JIT_COMPILE, value, sizeof value));
	WANT(0, strcmp(value, "disable"));
	for (int i = 0; i < 2; i++)
		WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclopCompileAndExecute("Add", 0, NULL, NULL, 0, NULL, NULL, NULL, ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL, NULL));
}

static void communicate(aclrtStream stream, void *a, void *b)
{
	static HcclRootInfo root;
	HcclComm comm;
	HcclSendRecvItem items[] = {{HCCL_SEND, a, 6, HCCL_DATA_TYPE_FP32, 0}, {HCCL_RECV, b, 6, HCCL_DATA_TYPE_FP32, 0}};
	uint64_t count = 2, from = 1, to = 4;
	float got[6], in[] = {1, 2, 3, 4, 5, 6};
	uint32_t ranks = 0;

	WANT(HCCL_SUCCESS, HcclGetRootInfo(&root));
	WANT(HCCL_E_PARA, HcclCommInitRootInfo(1, &root, 1, &comm));
	WANT(HCCL_SUCCESS, HcclCommInitRootInfo(1, &root, 0, &comm));
	WANT(HCCL_SUCCESS, HcclGetRankSize(comm, &ranks));
	WANT(1, ranks);
	WANT(0, aclrtMemcpy(a, sizeof in, in, sizeof in, ACL_MEMCPY_HOST_TO_DEVICE));
	WANT(HCCL_SUCCESS, HcclAllReduce(a, b, 6, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
	WANT(HCCL_SUCCESS, HcclAlltoAllV(a, &count, &from, HCCL_DATA_TYPE_FP32, b, &count, &to, HCCL_DATA_TYPE_FP32, comm, stream));
	WANT(0, aclrtSynchronizeStream(stream));
	WANT(0, aclrtMemcpy(got, sizeof got, b, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
	WANT(0, memcmp(got, (float[]){1, 2, 3, 4, 2, 3}, sizeof got));
	WANT(HCCL_SUCCESS, HcclBatchSendRecv(items, 2, comm, stream));
	WANT(HCCL_SUCCESS, HcclBroadcast(b, 6, HCCL_DATA_TYPE_FP32, 0, comm, stream));
	WANT(HCCL_E_PARA, HcclBroadcast(b, 6, HCCL_DATA_TYPE_FP32, 1, comm, stream));
	WANT(HCCL_E_PARA, HcclAllGather(a, b, 6, (HcclDataType)99, comm, stream));
	WANT(0, aclrtSynchronizeStream(stream));
	WANT(0, aclrtMemcpy(got, sizeof got, b, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
	WANT(0, memcmp(got, in, sizeof got));
	WANT(HCCL_SUCCESS, HcclCommDestroy(comm));
}

int main(void)
{
	aclrtStream stream;
	void *at[3];

	WANT(0, aclInit(NULL));
	WANT(0, aclrtSetDevice(0));
	WANT(0, aclrtCreateStream(&stream));
	for (int i = 0; i < 3; i++)
		WANT(0, aclrtMalloc(&at[i], 32, ACL_MEM_MALLOC_HUGE_FIRST));
	add(stream, at[0], at[1], at[2]);
	WANT(0, aclrtSynchronizeStream(stream));
	describe();
	communicate(stream, at[0], at[1]);
	WANT(0, aclFinalize());
	puts("ran");
	return 0;
}
