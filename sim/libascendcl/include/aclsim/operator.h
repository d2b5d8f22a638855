/*
 * The argument block of an operator.
 *
 * Phase two of an operator of sim/opapi launches one kernel with this block. The block is self-contained: it has all that the
 * operator's caller passed, except the contents of device memory. So an operator that was recorded without being computed can be
 * computed later.
 *
 * Kernels with such blocks come from a binary with the section ".aclsim.operators", whose content is ACLSIM_OPERATOR_VERSION as
 * uint32_t. All integers are little-endian. Offsets are bytes from the start of the block. Tables and values begin at multiples of 8.
 * The name, the parameters, the tensors and the values lie in the block and never overlap its header.
 *
 * The same layout is in sim/opapi/block (Go), which checks each number before it is used.
 */
#ifndef ACLSIM_OPERATOR_H
#define ACLSIM_OPERATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACLSIM_OPERATOR_MAGIC UINT64_C(0x6b6c62706f6c6361) /* "aclopblk" */
#define ACLSIM_OPERATOR_VERSION 1

typedef struct aclsim_operator_block {
	uint64_t magic;
	uint32_t version;
	uint32_t size;           /* bytes of the whole block */
	uint64_t workspace;      /* device address, 0 for none */
	uint64_t workspace_size; /* bytes */
	uint32_t name;           /* offset of the operator's name, which ends with a zero byte */
	uint32_t num_params;
	uint32_t params; /* offset of num_params aclsim_operator_param, in the order of phase one */
	uint32_t num_tensors;
	uint32_t tensors; /* offset of num_tensors aclsim_operator_tensor */
	uint32_t reserved;
} aclsim_operator_block;

/*
 * A parameter of phase one, without the last two. The letters of types are those of the operator table:
 *   T t  tensor            value is the index of its record
 *   L l  list of tensors   value is the index of the first record
 *   S    scalar            one aclsim_operator_scalar
 *   A    list of scalars   count aclsim_operator_scalar
 *   I    int64_t array     count int64_t
 *   F    float array       count float
 *   B    bool array        count uint8_t
 *   s    text              count bytes, without the zero byte
 *   i u j h c b            one int64_t; signed types are extended by their sign
 *   d f                    one double
 *   p                      pointer of another type; no value
 * An absent argument (a null pointer) has null = 1 and count 0. The tensors of an absent list element have num_dims 0 and base 0,
 * and ACLSIM_OPERATOR_ABSENT.
 */
typedef struct aclsim_operator_param {
	uint8_t type;
	uint8_t null;
	uint16_t reserved;
	uint32_t count; /* elements; 1 for a tensor and for values that are not lists */
	uint32_t value; /* offset, or index of a tensor */
	uint32_t reserved2;
} aclsim_operator_param;

typedef struct aclsim_operator_scalar {
	uint32_t dtype; /* aclDataType */
	uint32_t reserved;
	uint8_t value[16]; /* as passed; the rest is 0 */
} aclsim_operator_scalar;

/* Roles of a tensor. */
enum { ACLSIM_OPERATOR_IN = 1, ACLSIM_OPERATOR_OUT = 2 };

/* Flags of a tensor. */
enum {
	ACLSIM_OPERATOR_ROLE_UNKNOWN = 1, /* the operator table has no role: both IN and OUT are set */
	ACLSIM_OPERATOR_ABSENT = 2,       /* a null element of a list */
};

/*
 * A tensor. Its first element is at base + offset elements. A tensor in format ND, or another format without blocks, covers the
 * elements that dims and strides reach; one in a blocked format covers its whole storage.
 */
typedef struct aclsim_operator_tensor {
	uint64_t base;  /* device address of the storage; the only word of a tensor that a move changes */
	int64_t offset; /* elements */
	int32_t dtype;  /* aclDataType */
	int32_t format; /* aclFormat */
	uint8_t role;   /* IN, OUT or both */
	uint8_t flags;
	uint8_t num_dims;
	uint8_t num_storage_dims;
	uint32_t dims;     /* offset of num_dims dims, num_dims strides (elements), num_storage_dims dims of the storage; int64_t each */
	uint32_t param;    /* index of its parameter */
	uint32_t position; /* in its list, else 0 */
} aclsim_operator_tensor;

#ifdef __cplusplus
}
#endif

#endif
