// The operators and helper functions that the program uses.
#ifndef ACLNN_H
#define ACLNN_H

#include "acl/acl.h"

extern "C" {
struct aclTensor;
struct aclTensorList;
struct aclScalar;
struct aclIntArray;
struct aclOpExecutor;
typedef int32_t aclnnStatus;

aclTensor *aclCreateTensor(const int64_t *dims, uint64_t count, aclDataType type, const int64_t *strides, int64_t offset, aclFormat format,
			   const int64_t *storage, uint64_t storageCount, void *base);
aclTensorList *aclCreateTensorList(const aclTensor *const *tensors, uint64_t count);
aclScalar *aclCreateScalar(void *value, aclDataType type);
aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t count);
aclnnStatus aclDestroyTensor(const aclTensor *tensor);
aclnnStatus aclDestroyTensorList(const aclTensorList *list);
aclnnStatus aclDestroyScalar(const aclScalar *scalar);
aclnnStatus aclDestroyIntArray(const aclIntArray *array);

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *shape, aclDataType type, uint64_t *size);

#define OPERATOR(name, ...)                                                                                      \
	aclnnStatus aclnn##name##GetWorkspaceSize(__VA_ARGS__, uint64_t *workspaceSize, aclOpExecutor **executor); \
	aclnnStatus aclnn##name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)

OPERATOR(IndexSelect, const aclTensor *self, int64_t dim, const aclTensor *index, aclTensor *out);
OPERATOR(LayerNorm, const aclTensor *input, const aclIntArray *shape, const aclTensor *weight, const aclTensor *bias, double epsilon, aclTensor *out,
	 aclTensor *mean, aclTensor *deviation);
OPERATOR(Matmul, const aclTensor *self, const aclTensor *other, aclTensor *out, int8_t cubeMathType);
OPERATOR(Cat, const aclTensorList *tensors, int64_t dim, aclTensor *out);
OPERATOR(Softmax, const aclTensor *self, int64_t dim, aclTensor *out);
OPERATOR(Add, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out);
OPERATOR(InplaceAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha);
OPERATOR(TransMatmulWeight, aclTensor *weight);
}

#endif
