/*
 * Makes and ends arguments of an operator, asks for their properties, and runs the operator, as a program that is linked to libnnopbase does, or by functions
 * that it looks up. Exits with 0 if all results are right.
 */
#include "acl/acl.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EACH(X)                                                                                                              \
	X(void *, aclCreateTensor, (const int64_t *, uint64_t, aclDataType, const int64_t *, int64_t, aclFormat, const int64_t *, uint64_t, void *)) \
	X(void *, aclCreateScalar, (void *, aclDataType))                                                                    \
	X(void *, aclCreateIntArray, (const int64_t *, uint64_t))                                                            \
	X(int, aclGetIntArraySize, (const void *, uint64_t *))                                                               \
	X(int, aclGetDataType, (const void *, aclDataType *))                                                                \
	X(int, aclDestroyTensor, (const void *))                                                                             \
	X(int, aclDestroyScalar, (const void *))                                                                             \
	X(int, aclDestroyIntArray, (const void *))                                                                           \
	X(int, aclnnAddGetWorkspaceSize, (void *, void *, void *, void *, uint64_t *, void **))                              \
	X(int, aclnnAdd, (void *, uint64_t, void *, void *))
#define DECLARE(type, name, params) type name params __attribute__((weak)); static type(*p_##name) params;
#define LOOK_UP(type, name, params) if ((p_##name = linked ? (type(*) params)name : (type(*) params)dlsym(library, #name)) == NULL) return 2;
EACH(DECLARE)

#define MUST(x)                                                          \
	do                                                               \
		if (!(x)) {                                              \
			fprintf(stderr, "line %d: %s\n", __LINE__, #x);  \
			return 1;                                        \
		}                                                        \
	while (0)

int main(int argc, char **argv)
{
	bool linked = argc < 2;
	void *library = linked ? NULL : dlopen(argv[1], RTLD_NOW);
	int64_t dims[] = {2, 3}, strides[] = {3, 1};
	float alpha = 2.5f;
	uint64_t size = 0;
	aclDataType dtype = ACL_DT_UNDEFINED;
	void *memory, *executor, *stream, *tensors[3], *scalar, *array;

	MUST(linked || library);
	EACH(LOOK_UP)
	MUST(!aclInit(NULL) && !aclrtSetDevice(0) && !aclrtCreateStream(&stream) && !aclrtMalloc(&memory, 4096, 0));
	for (int i = 0; i < 3; i++)
		MUST((tensors[i] = p_aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, (char *)memory + 512 * i)));
	MUST((scalar = p_aclCreateScalar(&alpha, ACL_FLOAT)));
	MUST((array = p_aclCreateIntArray(dims, 2)) && !p_aclGetIntArraySize(array, &size) && size == 2);
	MUST(!p_aclGetDataType(tensors[0], &dtype) && dtype == ACL_FLOAT && p_aclGetDataType(NULL, &dtype) == 161001);
	MUST(!p_aclnnAddGetWorkspaceSize(tensors[0], tensors[1], scalar, tensors[2], &size, &executor));
	MUST(!p_aclnnAdd(memory, size, executor, stream) && !aclrtSynchronizeStream(stream));
	for (int i = 0; i < 3; i++)
		MUST(!p_aclDestroyTensor(tensors[i]));
	MUST(!p_aclDestroyScalar(scalar) && !p_aclDestroyIntArray(array));
	return aclFinalize();
}
