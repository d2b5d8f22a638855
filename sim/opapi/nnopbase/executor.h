/* Executors, and the caches that keep them. */
#ifndef EXECUTOR_H
#define EXECUTOR_H

#include "../../libascendcl/include/aclsim/operator.h"
#include "handle.h"

typedef struct cached cached;

/* The content of an executor: an operator with its arguments. */
typedef struct frozen {
	uint32_t index;
	const char *text; /* see aclsim_operator_phase_one */
	aclsim_operator_block *block;
} frozen;

/* The tensors of a call whose result has a shape that only the device knows, in the order of phase one. Their handles live until phase two has returned. */
typedef struct shaped {
	aclTensor *tensors[4];
	bool counts; /* aclnnUnique2 counts its elements */
} shaped;

struct aclOpExecutor {
	handle head;
	frozen call;
	shaped shaped; /* empty if a cache made the executor */
	uint64_t workspace_size;
	cached *entry; /* the cache entry that becomes usable when this executor has ended; NULL for none */
	_Atomic bool repeatable;
};

/* Reads the parts of a text. */
const char *text_types(const char *text);
const char *text_roles(const char *text);
const char *text_shapes(const char *text);

/* check_shapes applies the rule for shapes of an operator, whose arguments are valid. It returns and reports the error. */
int32_t check_shapes(const char *text, const uint64_t *args);

/* role_of returns the bits of a letter of text_roles; 0 for a parameter that is not a tensor. */
uint8_t role_of(char letter);

/* block_make freezes the arguments of an operator. It returns NULL and sets *error if it fails. The caller frees it. */
aclsim_operator_block *block_make(const char *text, const uint64_t *args, int32_t *error);

/* block_copy returns a copy; NULL if memory is exhausted. */
aclsim_operator_block *block_copy(const aclsim_operator_block *b);

/* Tables of a block. */
aclsim_operator_param *block_params(aclsim_operator_block *b);
aclsim_operator_tensor *block_tensors(aclsim_operator_block *b);

/* binary_make returns the binary of all operators; NULL if memory is exhausted. The caller frees it. */
void *binary_make(size_t *size);

/* launch submits the operator's kernel. With describes it then reports operator and shapes to the runtime. */
int32_t launch(const frozen *f, void *stream, bool describes);

/* shapes_read waits for the launch of an operator and sets the dims of its results, if it knows the operator and its types. */
void shapes_read(const char *name, const shaped *s, void *stream);

/* launch_describes reports whether the stream's attribute CACHE_OP_INFO is on. */
bool launch_describes(void *stream);

/* launch_captures reports whether the stream is being captured. */
bool launch_captures(void *stream);

/* cache_add offers a new executor to the cache of this thread. */
void cache_add(aclOpExecutor *e);

/* cache_ran makes an entry usable, unless its executor failed, and drops the executor's reference. */
void cache_ran(cached *entry, bool well);

/* executor_of makes an executor that owns a block. */
aclOpExecutor *executor_of(uint32_t index, const char *text, aclsim_operator_block *block);

#endif
