/* Launches the kernel of an operator, and describes it to streams that keep descriptions. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "executor.h"
#include "operators_gen.h"

/* Handles that the runtime gave to this process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static aclrtBinHandle binary;
static _Atomic(aclrtFuncHandle) functions[OPERATORS];

/* find gets an operator's function from the runtime. It loads the binary if there is none, or if the program has unloaded it. */
static aclError find(const frozen *o, aclrtFuncHandle *f)
{
	pthread_mutex_lock(&lock);
	aclError e = binary ? aclrtBinaryGetFunction(binary, o->text, f) : ACL_ERROR_RT_INVALID_HANDLE;
	if (e == ACL_ERROR_RT_INVALID_HANDLE) {
		size_t size;
		void *data = binary_make(&size);
		e = data ? aclrtBinaryLoadFromData(data, size, NULL, &binary) : ACL_ERROR_RT_MEMORY_ALLOCATION;
		free(data);
		if (!e)
			e = aclrtBinaryGetFunction(binary, o->text, f);
	}
	if (!e)
		atomic_store(&functions[o->index], *f);
	pthread_mutex_unlock(&lock);
	return e;
}

static aclError submit(aclrtFuncHandle f, aclrtStream stream, const aclsim_operator_block *b)
{
	return aclrtLaunchKernelWithHostArgs(f, 1, stream, NULL, (void *)(uintptr_t)b, b->size, NULL, 0);
}

bool launch_describes(void *stream)
{
	aclrtStreamAttrValue v = {0};

	return aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &v) == ACL_SUCCESS && v.cacheOpInfoSwitch == 1;
}

bool launch_captures(void *stream)
{
	aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
	aclmdlRI model;

	return aclmdlRICaptureGetInfo(stream, &status, &model) == ACL_SUCCESS && status != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
}

/* The description of an operator, as the toolkit 9 lays it out. */
typedef struct description {
	uint32_t task_type, blocks;
	uint64_t node, op_type, attributes, reserved;
	uint32_t flags, num_tensors;
	struct {
		uint32_t is_output, format, dtype, dims[8];
	} tensors[];
} description;

_Static_assert(sizeof(description) == 48, "the head of a description");
_Static_assert(sizeof(((description *)0)->tensors[0]) == 44, "a tensor of a description");

enum { MAX_DESCRIPTION = 64 << 10, MAX_DESCRIBED = (MAX_DESCRIPTION - 48) / 44 };

/* The profiler's number of a text that consists of parts. */
static uint64_t text_id(const char *const *parts, size_t n)
{
	uint32_t high = 0, low = 0;

	for (size_t i = 0; i < n; i++)
		for (const char *p = parts[i]; *p; p++) {
			high = high * 29 + (uint8_t)*p;
			low = low * 131 + (uint8_t)*p;
		}
	return (uint64_t)high << 32 | low;
}

#define TEXT_ID(...) text_id((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Whether a view covers its memory without a gap, with its dims in an order, the outermost first. */
static bool dense(const aclsim_operator_tensor *t, const int64_t *dims, const uint8_t *order)
{
	int64_t size = 1;

	for (int i = t->num_dims - 1; i >= 0; i--) {
		if (dims[order[i]] != 1 && dims[t->num_dims + order[i]] != size)
			return false;
		size *= dims[order[i]];
	}
	return true;
}

/*
 * Writes a tensor's dims as its memory has them. A storage with one dimension, as PyTorch makes it, says little. Then the dims are those of the view, in
 * the order of its strides if it covers the memory: a transposed matrix has the shape in which it is stored. Other views are made contiguous. Public
 * profiles of PyTorch on a device have such shapes.
 */
static void memory_dims(uint32_t *to, const aclsim_operator_tensor *t, const int64_t *dims)
{
	const int64_t *strides = dims + t->num_dims, *storage = strides + t->num_dims;
	uint8_t as_given[8] = {0, 1, 2, 3, 4, 5, 6, 7}, order[8];

	if (t->num_storage_dims != 1 || t->num_dims < 2 || t->num_dims > 8) {
		for (int i = 0; i < t->num_storage_dims && i < 8; i++)
			to[i] = (uint32_t)storage[i];
		return;
	}
	for (int i = 0; i < t->num_dims; i++) {
		int k = i;
		for (; k > 0 && strides[order[k - 1]] < strides[i]; k--)
			order[k] = order[k - 1];
		order[k] = (uint8_t)i;
	}
	bool turned = !dense(t, dims, as_given) && dense(t, dims, order);
	for (int i = 0; i < t->num_dims; i++)
		to[i] = (uint32_t)dims[turned ? order[i] : i];
}

static void describe_tensors(description *d, const aclsim_operator_block *b, uint8_t role)
{
	const aclsim_operator_tensor *t = (const void *)((const char *)b + b->tensors);

	for (uint32_t i = 0; i < b->num_tensors && d->num_tensors < MAX_DESCRIBED; i++, t++) {
		if (!(t->role & role) || t->flags & ACLSIM_OPERATOR_ABSENT)
			continue;
		uint32_t k = d->num_tensors++;
		d->tensors[k].is_output = role == ACLSIM_OPERATOR_OUT;
		d->tensors[k].format = (uint32_t)t->format;
		d->tensors[k].dtype = (uint32_t)t->dtype;
		memset(d->tensors[k].dims, 0, sizeof d->tensors[k].dims);
		memory_dims(d->tensors[k].dims, t, (const int64_t *)((const char *)b + t->dims));
	}
}

static void describe(const frozen *f)
{
	_Alignas(8) char buffer[MAX_DESCRIPTION];
	description *d = (description *)buffer;
	const char *name = f->text, *type = op_kernel_type(name);

	*d = (description){.blocks = 1, .node = TEXT_ID(name, "_", type, "AiCore_", type), .op_type = TEXT_ID(type)};
	describe_tensors(d, f->block, ACLSIM_OPERATOR_IN);
	describe_tensors(d, f->block, ACLSIM_OPERATOR_OUT);
	aclrtCacheLastTaskOpInfo(d, sizeof *d + d->num_tensors * sizeof *d->tensors);
}

int32_t launch(const frozen *f, void *stream, bool describes)
{
	aclrtFuncHandle function = atomic_load(&functions[f->index]);
	aclError e = function ? ACL_SUCCESS : find(f, &function);

	if (!e) {
		e = submit(function, stream, f->block);
		/* The binary was unloaded. */
		if (e == ACL_ERROR_RT_INVALID_HANDLE && !find(f, &function))
			e = submit(function, stream, f->block);
	}
	if (e)
		return report(OPAPI_RUNTIME, f->text, "the runtime refuses the launch with error %d", e);
	if (describes)
		describe(f);
	return OPAPI_OK;
}
