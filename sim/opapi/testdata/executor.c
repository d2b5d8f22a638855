/* The life of handles and executors: what each misuse answers. */
#include "test.h"

OPERATOR(aclnnAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out);
OPERATOR(aclnnExp, const aclTensor *self, aclTensor *out);
OPERATOR(aclnnInplaceCopy, aclTensor *self, const aclTensor *src);
OPERATOR(aclnnLayerNorm, const aclTensor *input, const array *shape, const aclTensor *weight, const aclTensor *bias, double eps, aclTensor *out, aclTensor *mean, aclTensor *rstd);
OPERATOR(aclnnCat, const array *tensors, int64_t dim, aclTensor *out);
OPERATOR(aclnnMaskedSelect, const aclTensor *self, const aclTensor *mask, aclTensor *out);
OPERATOR(aclnnNonzero, const aclTensor *self, aclTensor *out);
int32_t aclnnGaussianBlurGetWorkspaceSize(const aclTensor *src, const array *size, double x, double y, int64_t border, const aclTensor *dst, uint64_t *n, aclOpExecutor **e);
int32_t aclnnGaussianBlur(void *w, uint64_t n, aclOpExecutor *e, const aclTensor *src, const array *size, double x, double y, int64_t border, aclTensor *dst, aclrtStream s);
int32_t aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor *src, int format, int dtype, int64_t **dims, uint64_t *n, int *actual);
int32_t aclnnCalculateMatmulWeightSize(const array *shape, uint64_t *size);
int32_t aclnnCalculateMatmulWeightSizeV2(const array *shape, int32_t dtype, uint64_t *size);
int32_t aclnnCalculateConvolutionWeightSize(const array *shape, bool transposed, int64_t groups, int32_t dtype, uint64_t *size);
int32_t aclnnTransQuantParam(const float *scales, uint64_t n, const float *offsets, uint64_t m, uint64_t **out, uint64_t *k);
int32_t aclnnSetPytorchRandom(int32_t on);
int32_t aclnnInit(const char *path);
int32_t aclnnFinalize(void);
int32_t aclnnTransSparse4to2Para();

int32_t aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize(const aclTensor *query, const aclTensor *key, const aclTensor *value, const aclTensor *shift, const aclTensor *drop,
        const aclTensor *padding, const aclTensor *mask, const aclTensor *sink, const aclTensor *query_rope, const aclTensor *key_rope, const array *prefix, const array *query_lengths,
        const array *key_lengths, const array *query_starts, const array *key_starts, double scale, double keep, int64_t before, int64_t after, int64_t heads, const char *layout,
        int64_t precise, int64_t sparse, int64_t type, const char *out_layout, const aclTensor *max, const aclTensor *sum, const aclTensor *reserved, const aclTensor *out,
        uint64_t *n, aclOpExecutor **e);

static uint64_t size;
static aclOpExecutor *e;
static char *memory;
static aclTensor *t, *u;

/* Phase two ends the executor, also when it fails. An ended one is refused, and so is everything that never was one. */
static void life(void)
{
	aclOpExecutor *first;

	OK(aclnnExpGetWorkspaceSize(t, u, &size, &e));
	first = e;
	OK(aclnnExp(NULL, 0, e, stream));
	WANT(561103, aclnnExp(NULL, 0, e, stream));
	WANT(161001, aclnnExp(NULL, 0, NULL, stream));
	WANT(561103, aclnnExp(NULL, 0, (aclOpExecutor *)t, stream));
	WANT(161002, aclSetAclOpExecutorRepeatable(e));
	WANT(161002, aclDestroyAclOpExecutor(e));
	OK(aclnnExpGetWorkspaceSize(t, u, &size, &e));
	CHECK(e == first); /* as in the toolkit, addresses recur */
	WANT(361001, aclnnExp(NULL, 0, e, (aclrtStream)&size));
	WANT(561103, aclnnExp(NULL, 0, e, stream));
	OK(aclnnExpGetWorkspaceSize(t, u, &size, &e));
	OK(aclDestroyAclOpExecutor(e));
	WANT(561103, aclnnExp(NULL, 0, e, stream));
	WANT(161001, aclnnExpGetWorkspaceSize(t, u, NULL, &e));
	WANT(161001, aclnnExpGetWorkspaceSize(t, u, &size, NULL));
	OK(aclnnExpGetWorkspaceSize(t, u, &size, &e));
	OK(aclnnInplaceCopy(NULL, 0, e, stream)); /* the executor knows what to run */
	CHECK(!strcmp(launched + block->name, "aclnnExp"));
}

/* The largest size comes with an executor. The framework destroys it and throws if that fails. */
static void largest(void)
{
	e = NULL;
	OK(aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize(t, t, t, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, 1, 0, 0, 1, "TND", 0, 0, 1, "TND", u, u, u, u, &size, &e));
	OK(aclDestroyAclOpExecutor(e));
	WANT(161002, aclDestroyAclOpExecutor(e));
}

static void handles(void)
{
	aclTensor *v = vector(3, memory), *w = vector(4, memory);
	int64_t *dims, offset, many[26] = {0};
	uint64_t n;
	array *list;
	float one = 1;

	OK(aclDestroyTensor(NULL));
	OK(aclDestroyTensor(v));
	WANT(161002, aclDestroyTensor(v));
	WANT(161002, aclnnExpGetWorkspaceSize(v, u, &size, &e));
	WANT(161002, aclnnExpGetWorkspaceSize((aclTensor *)aclCreateScalar(&one, F32), u, &size, &e));
	WANT(161002, aclGetViewOffset(v, &offset));
	WANT(161001, aclGetViewOffset(w, NULL));
	OK(aclGetViewShape(w, &dims, &n));
	CHECK(n == 1 && dims[0] == 4);
	free(dims);
	OK(aclInitTensor(w, (int64_t[]){2, 3}, 2, F32, NULL, 1, ND, (int64_t[]){7}, 1, memory));
	OK(aclGetViewStrides(w, &dims, &n));
	CHECK(n == 2 && dims[0] == 3 && dims[1] == 1);
	free(dims);
	OK(aclGetStorageShape(w, &dims, &n));
	CHECK(n == 1 && dims[0] == 7);
	free(dims);
	list = aclCreateTensorList((const aclTensor *const[]){w}, 1);
	OK(aclGetTensorListSize(list, &n));
	CHECK(n == 1);
	OK(aclDestroyTensorList(list)); /* and its tensor */
	WANT(161002, aclGetViewOffset(w, &offset));
	WANT(161002, aclDestroyTensorList(list));
	CHECK(!aclCreateTensor(many, 26, F32, NULL, 0, ND, many, 1, NULL) && !aclCreateTensor(NULL, 1, F32, NULL, 0, ND, many, 1, NULL));
	CHECK(!aclCreateScalar(NULL, F32) && !aclCreateScalar(&one, 28) && !aclCreateIntArray(NULL, 3));
	list = aclCreateTensorList((const aclTensor *const[]){t, v}, 2); /* v has ended */
	WANT(161002, aclnnCatGetWorkspaceSize(list, 0, u, &size, &e));
}

static void repeatable(void)
{
	aclTensor *out = vector(8, memory + 256);
	array *shape = aclCreateIntArray((int64_t[]){8}, 1), *list = aclCreateTensorList((const aclTensor *const[]){vector(1, memory), NULL, vector(1, memory)}, 3);

	OK(aclnnLayerNormGetWorkspaceSize(t, shape, NULL, u, 0.5, out, NULL, NULL, &size, &e));
	OK(aclSetAclOpExecutorRepeatable(e));
	OK(aclnnLayerNorm(NULL, 0, e, stream));
	OK(aclSetInputTensorAddr(e, 2, t, memory + 512)); /* bias: an absent weight counts */
	OK(AclSetOutputTensorAddr(e, 0, t, memory + 1024));
	WANT(161002, aclSetInputTensorAddr(e, 1, t, memory));
	WANT(161002, aclSetInputTensorAddr(e, 3, t, memory));
	WANT(161002, AclSetOutputTensorAddr(e, 1, t, memory));
	WANT(161002, aclSetTensorAddr(e, 6, t, memory));
	WANT(161001, aclSetTensorAddr(e, 0, NULL, memory));
	WANT(161002, aclSetDynamicInputTensorAddr(e, 0, 0, list, memory));
	OK(AclSetTensorAddr(e, 0, t, memory + 2048));
	OK(aclnnLayerNorm(memory, 32, e, stream));
	CHECK(tensor(0)->base == (uintptr_t)memory + 2048 && tensor(1)->base == (uintptr_t)memory + 512 && tensor(2)->base == (uintptr_t)memory + 1024);
	CHECK(block->workspace == (uintptr_t)memory);
	OK(aclDestroyAclOpExecutor(e));
	WANT(561103, aclnnLayerNorm(NULL, 0, e, stream));
	WANT(161002, aclSetInputTensorAddr(e, 0, t, memory));

	OK(aclnnCatGetWorkspaceSize(list, 0, out, &size, &e));
	OK(aclSetDynamicInputTensorAddr(e, 0, 2, list, memory + 96));
	WANT(161002, aclSetDynamicInputTensorAddr(e, 0, 1, list, memory));
	WANT(161002, AclSetDynamicTensorAddr(e, 0, 3, list, memory));
	WANT(161002, AclSetDynamicTensorAddr(e, 1, 0, list, memory));
	WANT(161002, aclSetTensorAddr(e, 0, t, memory));
	OK(aclSetTensorAddr(e, 1, t, memory + 128));
	OK(aclnnCat(NULL, 0, e, stream));
	CHECK(tensor(2)->base == (uintptr_t)memory + 96 && tensor(3)->base == (uintptr_t)memory + 128);
}

/* A launch takes 64 KiB. */
static void limit(void)
{
	enum { MANY = 1500 };
	static const aclTensor *all[MANY];
	array *list;

	for (int i = 0; i < MANY; i++)
		all[i] = vector(1, memory);
	list = aclCreateTensorList(all, MANY);
	WANT(161002, aclnnCatGetWorkspaceSize(list, 0, u, &size, &e));
	OK(aclDestroyTensorList(list));
	for (int i = 0; i < 900; i++)
		all[i] = vector(1, memory);
	list = aclCreateTensorList(all, 900);
	OK(aclnnCatGetWorkspaceSize(list, 0, u, &size, &e));
	OK(aclnnCat(NULL, 0, e, stream));
	CHECK(block->num_tensors == 901);
}

/* Operators whose result has a shape that only the device knows. */
static void shapes(void)
{
	int64_t *dims;
	uint64_t n;
	aclmdlRI model;

	/* The number of elements that are chosen. A type that is not computed leaves all that the tensor has room for. */
	const int64_t two = 2, one = 1, eight = 8;
	const uint8_t mask[] = {0, 1};
	const float values[] = {3, 5};
	OK(aclrtMemcpy(memory + 128, 2, mask, 2, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtMemcpy(memory + 192, 8, values, 8, ACL_MEMCPY_HOST_TO_DEVICE));
	for (int known = 0; known < 2; known++) {
		aclTensor *of = aclCreateTensor(&two, 1, BOOL8, &one, 0, ND, &two, 1, memory + 128), *from = aclCreateTensor(&two, 1, F32, &one, 0, ND, &two, 1, memory + 192);
		aclTensor *unknown = aclCreateTensor(&two, 1, 16, &one, 0, ND, &two, 1, memory + 128), *to = aclCreateTensor(&eight, 1, F32, &one, 0, ND, &eight, 1, memory + 256);
		OK(aclnnMaskedSelectGetWorkspaceSize(from, known ? of : unknown, to, &size, &e));
		OK(aclnnMaskedSelect(NULL, 0, e, stream));
		OK(aclGetViewShape(to, &dims, &n));
		CHECK(n == 1 && dims[0] == (known ? 1 : 8));
		free(dims);
	}
	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclnnNonzeroGetWorkspaceSize(t, u, &size, &e));
	int before = launches;
	WANT(361001, aclnnNonzero(NULL, 0, e, stream));
	CHECK(launches == before);
	OK(aclnnExpGetWorkspaceSize(t, u, &size, &e));
	OK(aclnnExp(NULL, 0, e, stream));
	OK(aclmdlRICaptureEnd(stream, &model));
}

static void single(void)
{
	int64_t *dims, v[] = {40, 24};
	uint64_t n, *q;
	int format;
	aclTensor *m = aclCreateTensor(v, 2, F16, NULL, 0, ND, v, 2, memory);
	array *shape = aclCreateIntArray((int64_t[]){2, 4, 8, 8}, 4), *matrix = aclCreateIntArray(v, 2);

	OK(aclnnNpuFormatCastCalculateSizeAndFormat(m, 29, -1, &dims, &n, &format));
	CHECK(format == 29 && n == 4 && dims[0] == 2 && dims[1] == 3 && dims[2] == 16 && dims[3] == 16);
	free(dims);
	OK(aclnnNpuFormatCastCalculateSizeAndFormat(m, 29, 2, &dims, &n, &format)); /* in blocks of int8 */
	CHECK(n == 4 && dims[0] == 1 && dims[3] == 32);
	free(dims);
	OK(aclnnNpuFormatCastCalculateSizeAndFormat(m, ND, -1, &dims, &n, &format));
	CHECK(n == 2 && dims[0] == 40 && format == ND);
	free(dims);
	WANT(161002, aclnnNpuFormatCastCalculateSizeAndFormat(m, 32, -1, &dims, &n, &format));
	WANT(161001, aclnnNpuFormatCastCalculateSizeAndFormat(NULL, 29, -1, &dims, &n, &format));
	OK(aclnnCalculateConvolutionWeightSize(shape, false, 1, F16, &n));
	CHECK(n == 16384); /* the document's example */
	OK(aclnnCalculateMatmulWeightSize(matrix, &n));
	CHECK(n == 48 * 32);
	OK(aclnnCalculateMatmulWeightSizeV2(matrix, 2, &n));
	CHECK(n == 48 * 32);
	OK(aclnnTransQuantParam((float[]){1.5f}, 1, (float[]){-1, 300}, 2, &q, &n));
	CHECK(n == 2 && q[0] == (UINT64_C(1) << 46 | UINT64_C(0x1ff) << 37 | 0x3fc00000) && q[1] == (UINT64_C(1) << 46 | UINT64_C(255) << 37 | 0x3fc00000));
	free(q);
	WANT(161002, aclnnTransQuantParam((float[]){1}, 0, NULL, 0, &q, &n));
	WANT(561003, aclnnTransSparse4to2Para());
	OK(aclnnSetPytorchRandom(1));
	OK(aclnnInit(NULL));
	OK(aclnnFinalize());

	OK(aclnnGaussianBlurGetWorkspaceSize(t, matrix, 1.5, 2.5, 4, u, &size, &e));
	OK(aclnnGaussianBlur(NULL, 0, e, t, matrix, 1.5, 2.5, 4, u, stream));
	CHECK(!strcmp(launched + block->name, "aclnnGaussianBlur") && real(3) == 2.5);
}

/* libopapi.so finds all that the others have, and no more. */
static void lookup(void)
{
	void *h = dlopen("libopapi.so", RTLD_NOW | RTLD_LOCAL);
	const char *names[] = {"aclnnAdd", "aclnnMatmulGetWorkspaceSize", "aclnnFusedInferAttentionScoreV4GetMaxWorkspaceSize", "aclCreateTensor", "PTAGetExecCache"};

	CHECK(h);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		CHECK(dlsym(h, names[i]));
	CHECK(!dlsym(h, "aclnnNoSuchOperator") && !dlsym(h, "aclnnNoSuchOperatorGetWorkspaceSize"));
}

int main(void)
{
	start();
	memory = device(4096);
	t = vector(8, memory);
	u = vector(8, memory + 64);
	life();
	largest();
	handles();
	repeatable();
	limit();
	shapes();
	single();
	lookup();
	OK(aclrtSynchronizeStream(stream));
	return 0;
}
