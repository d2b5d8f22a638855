/* The blocks of operators with every type of parameter. */
#define DUMP 1
#include "test.h"

OPERATOR(aclnnFusedInferAttentionScoreV3, const aclTensor *a0, const array *a1, const array *a2, const aclTensor *a3, const aclTensor *a4, const array *a5, const array *a6,
	 const aclTensor *a7, const aclTensor *a8, const aclTensor *a9, const aclTensor *a10, const aclTensor *a11, const aclTensor *a12, const aclTensor *a13, const aclTensor *a14,
	 const aclTensor *a15, const aclTensor *a16, const aclTensor *a17, const aclTensor *a18, const aclTensor *a19, const aclTensor *a20, const aclTensor *a21, const aclTensor *a22,
	 const array *a23, const aclTensor *a24, const aclTensor *a25, const aclTensor *a26, int64_t a27, double a28, int64_t a29, int64_t a30, const char *a31, int64_t a32, int64_t a33,
	 int64_t a34, int64_t a35, int64_t a36, bool a37, int64_t a38, int64_t a39, const aclTensor *a40, const aclTensor *a41);
OPERATOR(aclnnInplaceNormal, const aclTensor *self, float mean, float std, int64_t seed, int64_t offset);
OPERATOR(aclnnInplaceUniform, const aclTensor *self, double from, double to, uint64_t seed, uint64_t offset);
OPERATOR(aclnnMatmul, const aclTensor *self, const aclTensor *mat2, aclTensor *out, int8_t mode);
OPERATOR(aclnnCast, const aclTensor *self, int32_t dtype, aclTensor *out);
OPERATOR(aclnnCat, const array *tensors, int64_t dim, aclTensor *out);
OPERATOR(aclnnForeachDivScalarList, const array *x, const array *scalars, const array *out);
OPERATOR(aclnnNonMaxSuppression, const aclTensor *boxes, const aclTensor *scores, array *most, array *iou, array *score, int32_t center, aclTensor *selected);
OPERATOR(aclnnLayerNormBackward, const aclTensor *grad, const aclTensor *input, const array *shape, const aclTensor *mean, const aclTensor *rstd, const aclTensor *weight,
	 const aclTensor *bias, const array *mask, aclTensor *a, aclTensor *b, aclTensor *c);
OPERATOR(aclnnAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out);
OPERATOR(aclnnRsub, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out);
OPERATOR(aclnnAcosGrad, const aclTensor *a, const aclTensor *b, const aclTensor *c);

static uint64_t size;
static aclOpExecutor *e;
static char *memory;

static void attention(void)
{
	aclTensor *q = vector(8, memory), *k = vector(16, memory + 64), *out = vector(8, memory + 128);
	array *keys = aclCreateTensorList((const aclTensor *const[]){k, NULL}, 2);
	array *lengths = aclCreateIntArray((int64_t[]){3, -4}, 2);
	char layout[] = "BNSD";

	OK(aclnnFusedInferAttentionScoreV3GetWorkspaceSize(q, keys, keys, NULL, NULL, lengths, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
							   NULL, NULL, NULL, NULL, NULL, NULL, 27, 0.125, -29, 30, layout, 32, 33, 34, 35, 36, true, 38, INT64_MIN, out, NULL, &size, &e));
	memset(layout, 'x', sizeof layout); /* the block is self-contained */
	OK(aclDestroyTensorList(keys));
	OK(aclDestroyTensor(q));
	OK(aclDestroyIntArray(lengths));
	OK(aclnnFusedInferAttentionScoreV3(memory + 192, 64, e, stream));
	CHECK(!strcmp(launched + block->name, "aclnnFusedInferAttentionScoreV3"));
	CHECK(block->num_params == 42 && block->num_tensors == 6 && block->workspace == (uintptr_t)memory + 192 && block->workspace_size == 64);
	for (uint32_t i = 0; i < 42; i++) {
		bool given = i < 3 || i == 5 || (i >= 27 && i < 41);
		CHECK(param(i)->type == "TLLTTIITTTTTTTTTTTTTTTTITTTidiisiiiiibiiTT"[i]);
		CHECK(param(i)->null == !given && (given || !param(i)->count));
	}
	for (uint32_t i = 27; i < 39; i++)
		CHECK(i == 28 || i == 31 || i == 37 || integer(i) == (i == 29 ? -29 : (int64_t)i));
	CHECK(real(28) == 0.125 && integer(37) == 1 && integer(39) == INT64_MIN);
	CHECK(param(31)->count == 4 && !memcmp(value(31), "BNSD", 4));
	CHECK(param(5)->count == 2 && ((const int64_t *)value(5))[0] == 3 && ((const int64_t *)value(5))[1] == -4);
	CHECK(param(1)->count == 2 && param(1)->value == 1 && param(2)->value == 3 && param(40)->value == 5);
	CHECK(tensor(0)->base == (uintptr_t)memory && tensor(0)->role == ACLSIM_OPERATOR_IN && tensor(0)->flags == 0);
	CHECK(tensor(1)->base == (uintptr_t)memory + 64 && tensor(1)->param == 1 && tensor(1)->position == 0);
	CHECK(tensor(4)->flags == ACLSIM_OPERATOR_ABSENT && !tensor(4)->base && !tensor(4)->num_dims && tensor(4)->param == 2 && tensor(4)->position == 1);
	CHECK(tensor(5)->role == ACLSIM_OPERATOR_OUT && tensor(5)->param == 40);

	OK(aclDestroyTensor(out));
}

/* Each narrow type, with values that show a wrong size, sign or register. */
static void numbers(void)
{
	aclTensor *t = vector(8, memory), *u = vector(8, memory + 64);

	OK(aclnnInplaceNormalGetWorkspaceSize(t, 1.5f, -0.25f, INT64_MAX, -1, &size, &e));
	OK(aclnnInplaceNormal(NULL, 0, e, stream));
	CHECK(real(1) == 1.5 && real(2) == -0.25 && integer(3) == INT64_MAX && integer(4) == -1);
	CHECK(tensor(0)->role == ACLSIM_OPERATOR_OUT && block->workspace == 0);
	OK(aclnnInplaceUniformGetWorkspaceSize(t, 0.1, -1e300, UINT64_MAX, 7, &size, &e));
	OK(aclnnInplaceUniform(NULL, 0, e, stream));
	CHECK(real(1) == 0.1 && real(2) == -1e300 && integer(3) == -1 && integer(4) == 7);
	aclTensor *dot = aclCreateTensor(NULL, 0, F32, NULL, 0, ND, NULL, 0, memory);
	OK(aclnnMatmulGetWorkspaceSize(t, u, dot, -3, &size, &e));
	OK(aclnnMatmul(NULL, 0, e, stream));
	CHECK(integer(3) == -3 && param(3)->type == 'c' && tensor(2)->role == ACLSIM_OPERATOR_OUT);
	OK(aclDestroyTensor(dot));
	OK(aclnnCastGetWorkspaceSize(t, INT32_MIN, u, &size, &e));
	OK(aclnnCast(NULL, 0, e, stream));
	CHECK(integer(1) == INT32_MIN);
	OK(aclnnAcosGradGetWorkspaceSize(t, u, t, &size, &e));
	OK(aclnnAcosGrad(NULL, 0, e, stream));
	CHECK(tensor(1)->role == (ACLSIM_OPERATOR_IN | ACLSIM_OPERATOR_OUT) && tensor(1)->flags == ACLSIM_OPERATOR_ROLE_UNKNOWN);
}

static void lists(void)
{
	aclTensor *t = vector(8, memory), *u = vector(8, memory + 64);
	double half = 0.5;
	int64_t minus = -2;
	aclScalar *s = aclCreateScalar(&half, F64), *n = aclCreateScalar(&minus, I64);
	array *x = aclCreateTensorList((const aclTensor *const[]){t, u}, 2), *scalars = aclCreateScalarList((const aclScalar *const[]){s, n}, 2);
	const aclsim_operator_scalar *v;

	OK(aclnnForeachDivScalarListGetWorkspaceSize(x, scalars, x, &size, &e));
	OK(aclnnForeachDivScalarList(NULL, 0, e, stream));
	v = value(1);
	CHECK(param(1)->count == 2 && v[0].dtype == F64 && !memcmp(v[0].value, &half, 8) && v[1].dtype == I64 && !memcmp(v[1].value, &minus, 8));
	CHECK(block->num_tensors == 4 && tensor(3)->base == (uintptr_t)memory + 64 && tensor(3)->role == ACLSIM_OPERATOR_OUT && tensor(3)->position == 1);
	OK(aclnnCatGetWorkspaceSize(x, -1, u, &size, &e));
	OK(aclnnCat(NULL, 0, e, stream));
	CHECK(integer(1) == -1 && param(2)->value == 2);
	array *none = aclCreateTensorList(NULL, 0);
	OK(aclnnCatGetWorkspaceSize(none, 0, u, &size, &e));
	OK(aclnnCat(NULL, 0, e, stream));
	CHECK(param(0)->count == 0 && !param(0)->null && block->num_tensors == 1);

	array *most = aclCreateIntArray((int64_t[]){5}, 1), *iou = aclCreateFloatArray((float[]){0.5f, -1, 2}, 3);
	OK(aclnnNonMaxSuppressionGetWorkspaceSize(t, u, most, iou, NULL, 1, t, &size, &e));
	OK(aclnnNonMaxSuppression(NULL, 0, e, stream));
	CHECK(param(3)->count == 3 && ((const float *)value(3))[1] == -1 && param(4)->null && integer(5) == 1);
	array *mask = aclCreateBoolArray((bool[]){true, false, true}, 3);
	OK(aclnnLayerNormBackwardGetWorkspaceSize(t, u, most, t, u, NULL, NULL, mask, t, NULL, u, &size, &e));
	OK(aclnnLayerNormBackward(NULL, 0, e, stream));
	CHECK(param(7)->count == 3 && !memcmp(value(7), "\1\0\1", 3) && param(9)->null && !param(10)->null);
}

/* A view: offset, strides and the dims of the storage. */
static void views(void)
{
	int64_t dims[] = {2, 3}, strides[] = {1, 4}, storage[] = {4, 4, 1}, one = 1;
	aclTensor *t = aclCreateTensor(dims, 2, F16, strides, 5, ND, storage, 3, memory), *zero = aclCreateTensor(NULL, 0, F32, NULL, 0, ND, NULL, 0, memory);
	aclScalar *alpha = aclCreateScalar(&one, I64);

	OK(aclnnAddGetWorkspaceSize(t, zero, alpha, t, &size, &e));
	OK(aclnnAdd(NULL, 0, e, stream));
	const int64_t *d = (const int64_t *)(launched + tensor(0)->dims);
	CHECK(tensor(0)->offset == 5 && tensor(0)->dtype == F16 && tensor(0)->format == ND && tensor(0)->num_dims == 2 && tensor(0)->num_storage_dims == 3);
	CHECK(!memcmp(d, (int64_t[]){2, 3, 1, 4, 4, 4, 1}, 56));
	CHECK(tensor(1)->num_dims == 0 && tensor(1)->num_storage_dims == 0 && tensor(1)->base == (uintptr_t)memory);
	CHECK(block->size % 8 == 0 && block->params == sizeof *block);
	OK(aclnnRsubGetWorkspaceSize(t, NULL, NULL, t, &size, &e)); /* no document was read */
	OK(aclnnRsub(NULL, 0, e, stream));
	CHECK(param(1)->null && param(2)->null && block->num_tensors == 2 && param(3)->value == 1);
}

int main(void)
{
	start();
	memory = device(4096);
	attention();
	numbers();
	lists();
	views();
	OK(aclrtSynchronizeStream(stream));
	return 0;
}
