/*
 * Objects of the host that need no device: descriptions of tensors, attributes of operators, and options of the operator compiler.
 * The operators themselves are refused: see headers_gen.c.
 */
#define _GNU_SOURCE
#include "face.h"

#include "acl/acl_base_mdl.h"
#include "acl/acl_op.h"
#include "acl/acl_op_compiler.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 128 };

struct aclTensorDesc {
	aclDataType type;
	aclFormat format, storage_format;
	aclMemType memory;
	size_t num_dims, num_storage_dims;
	int64_t dims[MAX_DIMS], storage_dims[MAX_DIMS];
	char *name;
};

struct aclopAttr {
	char unused; /* no operator reads the attributes */
};

static int set_dims(int64_t *to, size_t *n, int num_dims, const int64_t *dims)
{
	if (num_dims < 0 || num_dims > MAX_DIMS || (num_dims && !dims))
		return 0;
	*n = (size_t)num_dims;
	if (num_dims)
		memcpy(to, dims, *n * sizeof *dims);
	return 1;
}

FACE_EXPORT aclTensorDesc *aclCreateTensorDesc(aclDataType type, int num_dims, const int64_t *dims, aclFormat format)
{
	aclTensorDesc *d = calloc(1, sizeof *d);

	if (d && !set_dims(d->dims, &d->num_dims, num_dims, dims)) {
		free(d);
		return NULL;
	}
	if (d) {
		d->type = type;
		d->format = d->storage_format = format;
	}
	return d;
}

FACE_EXPORT void aclDestroyTensorDesc(const aclTensorDesc *desc)
{
	if (desc)
		free(desc->name);
	free((void *)(uintptr_t)desc);
}

FACE_EXPORT aclDataType aclGetTensorDescType(const aclTensorDesc *desc) { return desc ? desc->type : ACL_DT_UNDEFINED; }

FACE_EXPORT aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc) { return desc ? desc->format : ACL_FORMAT_UNDEFINED; }

FACE_EXPORT size_t aclGetTensorDescNumDims(const aclTensorDesc *desc) { return desc ? desc->num_dims : 0; }

FACE_EXPORT size_t aclGetTensorDescElementCount(const aclTensorDesc *desc)
{
	size_t n = desc ? 1 : 0;

	for (size_t i = 0; n && i < desc->num_dims; i++)
		if (desc->dims[i] < 0 || __builtin_mul_overflow(n, (size_t)desc->dims[i], &n))
			return 0;
	return n;
}

static size_t bits(aclDataType type)
{
	switch ((int)type) {
	case ACL_UINT1:
		return 1;
	case ACL_INT4:
	case ACL_FLOAT4_E2M1:
	case ACL_FLOAT4_E1M2:
		return 4;
	case ACL_INT8:
	case ACL_UINT8:
	case ACL_BOOL:
	case ACL_HIFLOAT8:
	case ACL_FLOAT8_E5M2:
	case ACL_FLOAT8_E4M3FN:
	case ACL_FLOAT8_E8M0:
		return 8;
	case ACL_FLOAT16:
	case ACL_BF16:
	case ACL_INT16:
	case ACL_UINT16:
		return 16;
	case ACL_FLOAT:
	case ACL_INT32:
	case ACL_UINT32:
	case ACL_COMPLEX32:
		return 32;
	case ACL_DOUBLE:
	case ACL_INT64:
	case ACL_UINT64:
	case ACL_COMPLEX64:
		return 64;
	case ACL_COMPLEX128:
	case ACL_STRING:
		return 128;
	}
	return 0;
}

FACE_EXPORT size_t aclGetTensorDescSize(const aclTensorDesc *desc)
{
	size_t n;

	if (!desc || __builtin_mul_overflow(aclGetTensorDescElementCount(desc), bits(desc->type), &n))
		return 0;
	return n / 8 + (n % 8 != 0);
}

FACE_EXPORT int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index)
{
	return desc && index < desc->num_dims ? desc->dims[index] : -1;
}

FACE_EXPORT aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *size)
{
	if (!desc || !size || index >= desc->num_dims)
		return ACL_ERROR_INVALID_PARAM;
	*size = desc->dims[index];
	return ACL_SUCCESS;
}

FACE_EXPORT void aclSetTensorDescName(aclTensorDesc *desc, const char *name)
{
	if (!desc)
		return;
	free(desc->name);
	desc->name = strdup(name ? name : "");
}

FACE_EXPORT const char *aclGetTensorDescName(aclTensorDesc *desc) { return desc && desc->name ? desc->name : ""; }

FACE_EXPORT aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format)
{
	if (!desc)
		return ACL_ERROR_INVALID_PARAM;
	desc->storage_format = format;
	return ACL_SUCCESS;
}

FACE_EXPORT aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format)
{
	if (!desc)
		return ACL_ERROR_INVALID_PARAM;
	desc->storage_format = format;
	return ACL_SUCCESS;
}

FACE_EXPORT aclError aclSetTensorShape(aclTensorDesc *desc, int num_dims, const int64_t *dims)
{
	if (!desc || !set_dims(desc->storage_dims, &desc->num_storage_dims, num_dims, dims))
		return ACL_ERROR_INVALID_PARAM;
	return ACL_SUCCESS;
}

FACE_EXPORT aclError aclSetTensorStorageShape(aclTensorDesc *desc, int num_dims, const int64_t *dims)
{
	if (!desc || !set_dims(desc->storage_dims, &desc->num_storage_dims, num_dims, dims))
		return ACL_ERROR_INVALID_PARAM;
	return ACL_SUCCESS;
}

FACE_EXPORT aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memory)
{
	if (!desc)
		return ACL_ERROR_INVALID_PARAM;
	desc->memory = memory;
	return ACL_SUCCESS;
}

FACE_EXPORT aclopAttr *aclopCreateAttr(void) { return calloc(1, sizeof(aclopAttr)); }

FACE_EXPORT void aclopDestroyAttr(const aclopAttr *attr) { free((void *)(uintptr_t)attr); }

static aclError attribute(const aclopAttr *attr, const char *name) { return attr && name ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM; }

static aclError list(const aclopAttr *attr, const char *name, int n, const void *values)
{
	return n >= 0 && (n == 0 || values) ? attribute(attr, name) : ACL_ERROR_INVALID_PARAM;
}

#define ATTRIBUTE(name, type) \
	FACE_EXPORT aclError name(aclopAttr *attr, const char *attrName, type value) \
	{ \
		(void)value; \
		return attribute(attr, attrName); \
	}
#define LIST(name, type) \
	FACE_EXPORT aclError name(aclopAttr *attr, const char *attrName, int n, type *values) { return list(attr, attrName, n, values); }

ATTRIBUTE(aclopSetAttrBool, uint8_t)
ATTRIBUTE(aclopSetAttrInt, int64_t)
ATTRIBUTE(aclopSetAttrFloat, float)
ATTRIBUTE(aclopSetAttrString, const char *)
ATTRIBUTE(aclopSetAttrDataType, aclDataType)
LIST(aclopSetAttrListBool, const uint8_t)
LIST(aclopSetAttrListInt, const int64_t)
LIST(aclopSetAttrListFloat, const float)
LIST(aclopSetAttrListDataType, const aclDataType)
LIST(aclopSetAttrListString, const char *)

FACE_EXPORT aclError aclopSetAttrListListInt(aclopAttr *attr, const char *name, int n, const int *counts, const int64_t *const *values)
{
	return n == 0 || counts ? list(attr, name, n, values) : ACL_ERROR_INVALID_PARAM;
}

/* Options of the compiler. They change nothing, and read as they were set. */
enum { OPTIONS = ACL_OP_DEBUG_OPTION + 1, VALUE = 256 };

static pthread_mutex_t options_lock = PTHREAD_MUTEX_INITIALIZER;
static char options[OPTIONS][VALUE] = {[ACL_OP_JIT_COMPILE] = "disable"};

FACE_EXPORT aclError aclSetCompileopt(aclCompileOpt opt, const char *value)
{
	if ((unsigned)opt >= OPTIONS || !value || strlen(value) >= VALUE)
		return ACL_ERROR_INVALID_PARAM;
	pthread_mutex_lock(&options_lock);
	strcpy(options[opt], value);
	pthread_mutex_unlock(&options_lock);
	return ACL_SUCCESS;
}

FACE_EXPORT size_t aclGetCompileoptSize(aclCompileOpt opt)
{
	size_t n = 0;

	if ((unsigned)opt >= OPTIONS)
		return 0;
	pthread_mutex_lock(&options_lock);
	n = strlen(options[opt]) + 1;
	pthread_mutex_unlock(&options_lock);
	return n;
}

FACE_EXPORT aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length)
{
	aclError e = ACL_ERROR_INVALID_PARAM;

	if ((unsigned)opt >= OPTIONS || !value)
		return e;
	pthread_mutex_lock(&options_lock);
	if (strlen(options[opt]) < length) {
		strcpy(value, options[opt]);
		e = ACL_SUCCESS;
	}
	pthread_mutex_unlock(&options_lock);
	return e;
}
