/* The operators that are computed. Names of parameters are those of the operators' public documents. */
#include "compute.h"

#include <fenv.h>

/* A function that computes an expression of the operands a, b and c and of the numbers p, for n elements. */
#define FUNCTION(name, type, expression)                                               \
	static void name(type *out, type *const *in, const number *p, int64_t n)       \
	{                                                                              \
		const type *a = in[0], *b = in[1], *c = in[2];                         \
		(void)a, (void)b, (void)c, (void)p;                                    \
		for (int64_t i = 0; i < n; i++)                                        \
			out[i] = expression;                                           \
	}
#define EACH(name, expression) FUNCTION(real_##name, double, expression)
#define EACH_WHOLE(name, expression) FUNCTION(whole_##name, int64_t, expression)
/* Whole numbers wrap around, as on a processor. */
#define WRAP(x, op, y) (int64_t)((uint64_t)(x) op (uint64_t)(y))
#define BOTH(name, expression) EACH(name, expression) EACH_WHOLE(name, expression)

#define REAL(k) p[k].real
#define WHOLE(k) p[k].whole

EACH(add, a[i] + REAL(0) * b[i]) EACH_WHOLE(add, WRAP(a[i], +, WRAP(WHOLE(0), *, b[i])))
EACH(sub, a[i] - REAL(0) * b[i]) EACH_WHOLE(sub, WRAP(a[i], -, WRAP(WHOLE(0), *, b[i])))
EACH(adds, a[i] + REAL(0) * REAL(1)) EACH_WHOLE(adds, WRAP(a[i], +, WRAP(WHOLE(0), *, WHOLE(1))))
EACH(subs, a[i] - REAL(0) * REAL(1)) EACH_WHOLE(subs, WRAP(a[i], -, WRAP(WHOLE(0), *, WHOLE(1))))
EACH(mul, a[i] * b[i]) EACH_WHOLE(mul, WRAP(a[i], *, b[i]))
EACH(muls, a[i] * REAL(0)) EACH_WHOLE(muls, WRAP(a[i], *, WHOLE(0)))
EACH(div, a[i] / b[i])
EACH(divs, a[i] / REAL(0))
EACH(plus, a[i] + REAL(0))
EACH(lerp, REAL(0) < 0.5 ? a[i] + REAL(0) * (b[i] - a[i]) : b[i] - (b[i] - a[i]) * (1 - REAL(0)))
EACH(lerp_by, c[i] < 0.5 ? a[i] + c[i] * (b[i] - a[i]) : b[i] - (b[i] - a[i]) * (1 - c[i]))
EACH(addcmul, a[i] + REAL(0) * b[i] * c[i])
EACH(addcdiv, a[i] + REAL(0) * (b[i] / c[i]))
EACH(maximum, a[i] > b[i] || a[i] != a[i] ? a[i] : b[i]) EACH_WHOLE(maximum, a[i] > b[i] ? a[i] : b[i])
EACH(minimum, a[i] < b[i] || a[i] != a[i] ? a[i] : b[i]) EACH_WHOLE(minimum, a[i] < b[i] ? a[i] : b[i])
EACH(clamp, a[i] != a[i] ? a[i] : fmin(fmax(a[i], REAL(0)), REAL(1)))
EACH_WHOLE(clamp, (a[i] < WHOLE(0) ? WHOLE(0) : a[i]) > WHOLE(1) ? WHOLE(1) : a[i] < WHOLE(0) ? WHOLE(0) : a[i])
BOTH(eq, a[i] == b[i]) BOTH(ne, a[i] != b[i]) BOTH(lt, a[i] < b[i]) BOTH(le, a[i] <= b[i]) BOTH(gt, a[i] > b[i]) BOTH(ge, a[i] >= b[i])
EACH(eqs, a[i] == REAL(0)) EACH_WHOLE(eqs, a[i] == WHOLE(0))
EACH(nes, a[i] != REAL(0)) EACH_WHOLE(nes, a[i] != WHOLE(0))
EACH(lts, a[i] < REAL(0)) EACH_WHOLE(lts, a[i] < WHOLE(0))
EACH(les, a[i] <= REAL(0)) EACH_WHOLE(les, a[i] <= WHOLE(0))
EACH(gts, a[i] > REAL(0)) EACH_WHOLE(gts, a[i] > WHOLE(0))
EACH(ges, a[i] >= REAL(0)) EACH_WHOLE(ges, a[i] >= WHOLE(0))
EACH(fill_where, b[i] != 0 ? REAL(0) : a[i]) EACH_WHOLE(fill_where, b[i] ? WHOLE(0) : a[i])
BOTH(where, a[i] != 0 ? b[i] : c[i])
BOTH(copy, a[i])
EACH(neg, -a[i]) EACH_WHOLE(neg, WRAP(0, -, a[i]))
EACH(abs, fabs(a[i])) EACH_WHOLE(abs, a[i] < 0 ? WRAP(0, -, a[i]) : a[i])
EACH(relu, a[i] < 0 ? 0 : a[i]) EACH_WHOLE(relu, a[i] < 0 ? 0 : a[i])
EACH(threshold_backward, b[i] <= REAL(0) ? 0 : a[i])
EACH(reciprocal, 1 / a[i])
EACH(sqrt, sqrt(a[i]))
EACH(rsqrt, 1 / sqrt(a[i]))
EACH(exp, own_exp(a[i]))
EACH(log, own_log(a[i]))
EACH(tanh, own_tanh(a[i]))
EACH(tanh_backward, a[i] * (1 - b[i] * b[i]))
EACH(sigmoid, own_sigmoid(a[i]))
EACH(sigmoid_backward, a[i] * b[i] * (1 - b[i]))
EACH(silu, a[i] * own_sigmoid(a[i]))
EACH(pow, own_pow(a[i], REAL(0)))
EACH(rsub, b[i] - REAL(0) * a[i]) EACH_WHOLE(rsub, WRAP(b[i], -, WRAP(WHOLE(0), *, a[i])))
EACH(rsubs, REAL(1) - REAL(0) * a[i]) EACH_WHOLE(rsubs, WRAP(WHOLE(1), -, WRAP(WHOLE(0), *, a[i])))
EACH(ceil, ceil(a[i]))
EACH(floor, floor(a[i]))
EACH(round, rint(a[i]))
EACH(trunc, trunc(a[i]))
EACH(sin, own_sin(a[i]))
EACH(cos, own_cos(a[i]))
EACH(erf, own_erf(a[i]))
EACH(is_finite, isfinite(a[i]) ? 1 : 0)
EACH(is_inf, isinf(a[i]) ? 1 : 0)
EACH(is_neg_inf, a[i] == -INFINITY)
EACH(is_pos_inf, a[i] == INFINITY)
EACH_WHOLE(bits_and, a[i] & b[i])
EACH_WHOLE(bits_or, a[i] | b[i])
BOTH(both, a[i] != 0 && b[i] != 0)
BOTH(either, a[i] != 0 || b[i] != 0)
BOTH(not, a[i] == 0)
BOTH(sign, (a[i] > 0) - (a[i] < 0))
EACH(square, a[i] * a[i]) EACH_WHOLE(square, WRAP(a[i], *, a[i]))
EACH(leaky_relu, a[i] > 0 ? a[i] : REAL(0) * a[i])
EACH(silu_backward, a[i] * own_sigmoid(b[i]) * (1 + b[i] * (1 - own_sigmoid(b[i]))))

EACH(elu, a[i] > 0 ? REAL(1) * a[i] : REAL(0) * REAL(1) * (own_exp(REAL(2) * a[i]) - 1))
EACH(hard_sigmoid, a[i] != a[i] ? a[i] : fmin(fmax(a[i] + 3, 0), 6) / 6)
EACH(hard_swish, a[i] != a[i] ? a[i] : a[i] * fmin(fmax(a[i] + 3, 0), 6) / 6)

/* The logarithm of 1 + x, for x from 0 on. */
static double log_of_next(double x)
{
	double next = 1 + x;

	return next == 1 ? x : next == INFINITY ? next : own_log(next) * x / (next - 1);
}
EACH(softplus, a[i] * REAL(0) > REAL(1) ? a[i] : log_of_next(own_exp(a[i] * REAL(0))) / REAL(0))

EACH(mse_backward, a[i] * REAL(0) * (b[i] - c[i]))
EACH(is_close, a[i] == b[i] || (fabs(a[i] - b[i]) <= REAL(1) + REAL(0) * fabs(b[i]) && isfinite(b[i])) || (p[2].whole && a[i] != a[i] && b[i] != b[i]))
EACH_WHOLE(bits_not, a[i] ^ WHOLE(0))
EACH(fast_gelu, a[i] * own_sigmoid(1.702 * a[i]))

EACH(round_decimals, WHOLE(0) ? rint(a[i] / REAL(0)) * REAL(0) : rint(a[i] * REAL(0)) / REAL(0))
EACH(threshold, a[i] <= REAL(0) ? REAL(1) : a[i]) EACH_WHOLE(threshold, a[i] <= WHOLE(0) ? WHOLE(1) : a[i])
EACH(leaky_relu_backward, b[i] > 0 ? a[i] : REAL(0) * a[i])
EACH(pow_by, own_pow(a[i], b[i]))
EACH(clamp_by, b[i] != b[i] ? b[i] : c[i] != c[i] ? c[i] : a[i] != a[i] ? a[i] : fmin(fmax(a[i], b[i]), c[i]))
EACH_WHOLE(clamp_by, (a[i] < b[i] ? b[i] : a[i]) > c[i] ? c[i] : a[i] < b[i] ? b[i] : a[i])
BOTH(fill_by, b[i] != 0 ? c[i] : a[i])
EACH_WHOLE(bits_xor, a[i] ^ b[i])
BOTH(one_of, (a[i] != 0) != (b[i] != 0))

/* Powers of whole numbers wrap around. */
static int64_t whole_power(int64_t x, int64_t y)
{
	uint64_t power = 1, base = (uint64_t)x;

	if (y < 0)
		return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
	for (; y; y >>= 1, base *= base)
		if (y & 1)
			power *= base;
	return (int64_t)power;
}
EACH_WHOLE(pow_by, whole_power(a[i], b[i]))
EACH_WHOLE(pow, whole_power(a[i], WHOLE(0)))
EACH(pow_of, own_pow(REAL(0), a[i])) EACH_WHOLE(pow_of, whole_power(WHOLE(0), a[i]))

/* aclnnGelu is the form with tanh. */
static double gelu_inner(double x) { return own_tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)); }
EACH(gelu, 0.5 * a[i] * (1 + gelu_inner(a[i])))

EACH(gelu_erf, 0.5 * a[i] * (1 + own_erf(a[i] * 0.70710678118654752440)))

/* An operator with a parameter for the form of GELU, whose number is kind: 1 is the form with tanh. */
bool gelu_of(const block *b, const operator *o, bool dry)
{
	number form = number_of(b, (uint32_t)o->kind, 0);
	operator each = *o;

	each.real = form.whole ? real_gelu : real_gelu_erf;
	return form.given && !(form.whole & ~INT64_C(1)) && (o->in ? elementwise : gated)(b, &each, dry);
}

static double gelu_slope(double x)
{
	double t = gelu_inner(x);

	return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}
EACH(gelu_backward, a[i] * gelu_slope(b[i]))

/* self, min, max, out: one bound may be absent */
static bool clamp_by(const block *b, const operator *o, bool dry)
{
	operator each = *o;

	if (is_absent(b, 2))
		each = (operator){.in = "01", .out = 3, .real = real_maximum, .whole = whole_maximum};
	else if (is_absent(b, 1))
		each = (operator){.in = "02", .out = 3, .real = real_minimum, .whole = whole_minimum};
	return elementwise(b, &each, dry);
}

#define UNARY(name, fn) {#name, elementwise, "0", 1, NULL, real_##fn, NULL, 0}
#define UNARY_ANY(name, fn) {#name, elementwise, "0", 1, NULL, real_##fn, whole_##fn, 0}
#define BINARY(name, in, out, fn) {#name, elementwise, in, out, NULL, real_##fn, NULL, 0}
#define BINARY_ANY(name, in, out, fn) {#name, elementwise, in, out, NULL, real_##fn, whole_##fn, 0}
#define SCALED(name, in, out, scalars, fn) {#name, elementwise, in, out, scalars, real_##fn, NULL, 0}
#define SCALED_ANY(name, in, out, scalars, fn) {#name, elementwise, in, out, scalars, real_##fn, whole_##fn, 0}
#define LIST(name, in, out, scalars, fn) {#name, foreach, in, out, scalars, real_##fn, NULL, 0}
#define OTHER(name, fn, kind) {#name, fn, NULL, 0, NULL, NULL, NULL, kind}
#define REDUCE(name, dims, out, kind) {#name, reduce, NULL, out, dims, NULL, NULL, kind}

/* In the order of names: aclsim_compute searches it. */
const operator operators[] = {
	UNARY_ANY(aclnnAbs, abs),
	OTHER(aclnnAdaptiveAvgPool2d, adaptive_average_pool, 2),
	OTHER(aclnnAdaptiveAvgPool2dBackward, adaptive_average_pool, 2 | BACKWARD),
	OTHER(aclnnAdaptiveAvgPool3d, adaptive_average_pool, 3),
	OTHER(aclnnAdaptiveAvgPool3dBackward, adaptive_average_pool, 3 | BACKWARD),
	SCALED_ANY(aclnnAdd, "01", 3, "2", add),
	OTHER(aclnnAddRmsNorm, rms_norm, 1),
	SCALED(aclnnAddcdiv, "012", 4, "3", addcdiv),
	SCALED(aclnnAddcmul, "012", 4, "3", addcmul),
	OTHER(aclnnAddmm, addmm, 0),
	SCALED_ANY(aclnnAdds, "0", 3, "21", adds),
	REDUCE(aclnnAll, "1", 3, ALL),
	REDUCE(aclnnAmax, "1", 3, MAX),
	REDUCE(aclnnAmin, "1", 3, MIN),
	REDUCE(aclnnAny, "1", 3, ANY),
	OTHER(aclnnArange, arange, 0),
	{"aclnnArgMax", best, NULL, 3, NULL, NULL, NULL, MAX},
	{"aclnnArgMin", best, NULL, 3, NULL, NULL, NULL, MIN},
	OTHER(aclnnArgsort, argsort, 0),
	{"aclnnAvgPool2d", average_pool, NULL, 8, NULL, NULL, NULL, 2},
	{"aclnnAvgPool2dBackward", average_pool, NULL, 9, NULL, NULL, NULL, 2 | BACKWARD},
	{"aclnnAvgPool3d", average_pool, NULL, 7, NULL, NULL, NULL, 3},
	{"aclnnAvgPool3dBackward", average_pool, NULL, 8, NULL, NULL, NULL, 3 | BACKWARD},
	OTHER(aclnnBaddbmm, addmm, 0),
	OTHER(aclnnBatchMatMul, matmul, 0),
	OTHER(aclnnBatchNorm, batch_norm, 0),
	OTHER(aclnnBatchNormBackward, batch_norm_backward, 0),
	OTHER(aclnnBinaryCrossEntropyWithLogits, bce_with_logits, 0),
	OTHER(aclnnBinaryCrossEntropyWithLogitsBackward, bce_with_logits_backward, 0),
	{"aclnnBitwiseAndTensor", bitwise, "01", 2, NULL, NULL, whole_bits_and, 0},
	{"aclnnBitwiseNot", bitwise, "0", 1, NULL, NULL, whole_bits_not, 0},
	{"aclnnBitwiseOrTensor", bitwise, "01", 2, NULL, NULL, whole_bits_or, 0},
	{"aclnnBitwiseXorTensor", bitwise, "01", 2, NULL, NULL, whole_bits_xor, 0},
	{"aclnnCast", cast, "0", 2, NULL, real_copy, whole_copy, 0},
	{"aclnnCat", stack, NULL, 0, NULL, real_copy, whole_copy, 0},
	UNARY(aclnnCeil, ceil),
	{"aclnnClamp", clamp, "0", 3, NULL, real_clamp, whole_clamp, 0},
	{"aclnnClampMax", clamp, "0", 2, NULL, real_clamp, whole_clamp, 1},
	BINARY_ANY(aclnnClampMaxTensor, "01", 2, minimum),
	{"aclnnClampMin", clamp, "0", 2, NULL, real_clamp, whole_clamp, -1},
	BINARY_ANY(aclnnClampMinTensor, "01", 2, maximum),
	{"aclnnClampTensor", clamp_by, "012", 3, NULL, real_clamp_by, whole_clamp_by, 0},
	OTHER(aclnnConvolution, convolve, 0),
	OTHER(aclnnConvolutionBackward, convolve_backward, 0),
	UNARY(aclnnCos, cos),
	OTHER(aclnnCumsum, cumulate, 0),
	BINARY(aclnnDiv, "01", 2, div),
	SCALED(aclnnDivs, "0", 2, "1", divs),
	OTHER(aclnnDot, matmul, 0),
	OTHER(aclnnDropoutDoMask, dropout, 0),
	OTHER(aclnnDropoutGenMaskV2, dropout_mask, 0),
	OTHER(aclnnDropoutGenMaskV2Tensor, dropout_mask, 1),
	SCALED(aclnnElu, "0", 4, "123", elu),
	OTHER(aclnnEmbedding, embedding, 0),
	OTHER(aclnnEmbeddingDenseBackward, embedding_backward, 0),
	OTHER(aclnnEmbeddingRenorm, embedding_renorm, 0),
	SCALED_ANY(aclnnEqScalar, "0", 2, "1", eqs),
	BINARY_ANY(aclnnEqTensor, "01", 2, eq),
	OTHER(aclnnEqual, equal, 0),
	UNARY(aclnnErf, erf),
	UNARY(aclnnExp, exp),
	UNARY(aclnnFastGelu, fast_gelu),
	OTHER(aclnnFlashAttentionScore, flash_attention, 0),
	OTHER(aclnnFlashAttentionScoreGrad, flash_attention_backward, 0),
	OTHER(aclnnFlip, flip, 0),
	UNARY(aclnnFloor, floor),
	LIST(aclnnForeachAddListV2, "01", 3, "2", add),
	LIST(aclnnForeachAddScalarV2, "0", 2, "1", plus),
	LIST(aclnnForeachAddcdivScalarV2, "012", 4, "3", addcdiv),
	LIST(aclnnForeachAddcmulScalarV2, "012", 4, "3", addcmul),
	LIST(aclnnForeachDivList, "01", 2, NULL, div),
	LIST(aclnnForeachDivScalarList, "0", 2, "1", divs),
	LIST(aclnnForeachLerpScalar, "01", 3, "2", lerp),
	LIST(aclnnForeachMulList, "01", 2, NULL, mul),
	LIST(aclnnForeachMulScalarV2, "0", 2, "1", muls),
	LIST(aclnnForeachNeg, "0", 1, NULL, neg),
	OTHER(aclnnForeachNonFiniteCheckAndUnscale, unscale, 0),
	OTHER(aclnnForeachNorm, foreach_norm, 0),
	LIST(aclnnForeachReciprocal, "0", 1, NULL, reciprocal),
	LIST(aclnnForeachSqrt, "0", 1, NULL, sqrt),
	LIST(aclnnForeachSubListV2, "01", 3, "2", sub),
	{"aclnnFusedInferAttentionScore", infer_attention, NULL, 28, NULL, NULL, NULL, 17},
	{"aclnnFusedInferAttentionScoreV2", infer_attention, NULL, 37, NULL, NULL, NULL, 24},
	{"aclnnFusedInferAttentionScoreV3", infer_attention, NULL, 40, NULL, NULL, NULL, 27},
	{"aclnnFusedInferAttentionScoreV4", infer_attention, NULL, 43, NULL, NULL, NULL, 29},
	OTHER(aclnnGRU, recurrent, 3),
	OTHER(aclnnGRUBackward, recurrent_backward, 3),
	OTHER(aclnnGather, gather, 0),
	OTHER(aclnnGatherV2, pick_rows, 0),
	{"aclnnGeGluV3", gelu_of, NULL, 4, "3", NULL, NULL, 2},
	SCALED_ANY(aclnnGeScalar, "0", 2, "1", ges),
	BINARY_ANY(aclnnGeTensor, "01", 2, ge),
	UNARY(aclnnGelu, gelu),
	BINARY(aclnnGeluBackward, "01", 2, gelu_backward),
	{"aclnnGeluV2", gelu_of, "0", 2, NULL, NULL, NULL, 1},
	OTHER(aclnnGroupNorm, group_norm, 0),
	SCALED_ANY(aclnnGtScalar, "0", 2, "1", gts),
	BINARY_ANY(aclnnGtTensor, "01", 2, gt),
	UNARY(aclnnHardsigmoid, hard_sigmoid),
	UNARY(aclnnHardswish, hard_swish),
	OTHER(aclnnIm2col, im2col, 0),
	OTHER(aclnnIndex, index_of, 0),
	OTHER(aclnnIndexAdd, index_add, 0),
	OTHER(aclnnIndexPutImpl, index_put, 0),
	OTHER(aclnnIndexSelect, index_select, 0),
	SCALED_ANY(aclnnInplaceAdd, "01", 0, "2", add),
	SCALED(aclnnInplaceAddcdiv, "012", 0, "3", addcdiv),
	SCALED(aclnnInplaceAddcmul, "012", 0, "3", addcmul),
	SCALED_ANY(aclnnInplaceAdds, "0", 0, "21", adds),
	OTHER(aclnnInplaceBernoulli, bernoulli, 0),
	OTHER(aclnnInplaceBernoulliTensor, bernoulli, 0),
	{"aclnnInplaceCeil", elementwise, "0", 0, NULL, real_ceil, NULL, 0},
	{"aclnnInplaceClampMax", clamp, "0", 0, NULL, real_clamp, whole_clamp, 1},
	{"aclnnInplaceCopy", cast, "1", 0, NULL, real_copy, whole_copy, 0},
	{"aclnnInplaceCos", elementwise, "0", 0, NULL, real_cos, NULL, 0},
	BINARY(aclnnInplaceDiv, "01", 0, div),
	SCALED(aclnnInplaceDivs, "0", 0, "1", divs),
	SCALED(aclnnInplaceElu, "0", 0, "123", elu),
	{"aclnnInplaceErf", elementwise, "0", 0, NULL, real_erf, NULL, 0},
	{"aclnnInplaceExp", elementwise, "0", 0, NULL, real_exp, NULL, 0},
	{"aclnnInplaceFloor", elementwise, "0", 0, NULL, real_floor, NULL, 0},
	{"aclnnInplaceHardsigmoid", elementwise, "0", 0, NULL, real_hard_sigmoid, NULL, 0},
	{"aclnnInplaceHardswish", elementwise, "0", 0, NULL, real_hard_swish, NULL, 0},
	OTHER(aclnnInplaceIndexCopy, index_copy, 0),
	OTHER(aclnnInplaceIndexFillTensor, index_fill, 0),
	SCALED(aclnnInplaceLerps, "01", 0, "2", lerp),
	{"aclnnInplaceLog", elementwise, "0", 0, NULL, real_log, NULL, 0},
	BINARY_ANY(aclnnInplaceLogicalAnd, "01", 0, both),
	BINARY_ANY(aclnnInplaceLogicalOr, "01", 0, either),
	SCALED_ANY(aclnnInplaceMaskedFillScalar, "01", 0, "2", fill_where),
	BINARY_ANY(aclnnInplaceMaskedFillTensor, "012", 0, fill_by),
	OTHER(aclnnInplaceMaskedScatter, masked_scatter, 0),
	BINARY_ANY(aclnnInplaceMul, "01", 0, mul),
	SCALED_ANY(aclnnInplaceMuls, "0", 0, "1", muls),
	{"aclnnInplaceNeg", elementwise, "0", 0, NULL, real_neg, whole_neg, 0},
	OTHER(aclnnInplaceNormal, random_fill, NORMAL),
	OTHER(aclnnInplaceNormalTensor, random_fill, NORMAL + OF_TENSORS),
	SCALED_ANY(aclnnInplacePowTensorScalar, "0", 0, "1", pow),
	BINARY_ANY(aclnnInplacePowTensorTensor, "01", 0, pow_by),
	OTHER(aclnnInplaceRandom, random_fill, WHOLE_NUMBERS),
	OTHER(aclnnInplaceRandomTensor, random_fill, WHOLE_NUMBERS + OF_TENSORS),
	{"aclnnInplaceRelu", elementwise, "0", 0, NULL, real_relu, whole_relu, 0},
	{"aclnnInplaceRsqrt", elementwise, "0", 0, NULL, real_rsqrt, NULL, 0},
	{"aclnnInplaceScatter", scatter, NULL, 0, NULL, NULL, NULL, 0},
	{"aclnnInplaceSigmoid", elementwise, "0", 0, NULL, real_sigmoid, NULL, 0},
	{"aclnnInplaceSin", elementwise, "0", 0, NULL, real_sin, NULL, 0},
	{"aclnnInplaceSqrt", elementwise, "0", 0, NULL, real_sqrt, NULL, 0},
	SCALED_ANY(aclnnInplaceSub, "01", 0, "2", sub),
	SCALED_ANY(aclnnInplaceSubs, "0", 0, "21", subs),
	{"aclnnInplaceTanh", elementwise, "0", 0, NULL, real_tanh, NULL, 0},
	SCALED_ANY(aclnnInplaceThreshold, "0", 0, "12", threshold),
	OTHER(aclnnInplaceTril, triangle, 0),
	OTHER(aclnnInplaceTriu, triangle, 1),
	{"aclnnInplaceTrunc", elementwise, "0", 0, NULL, real_trunc, NULL, 0},
	OTHER(aclnnInplaceUniform, random_fill, UNIFORM),
	OTHER(aclnnInplaceUniformTensor, random_fill, UNIFORM + OF_TENSORS),
	{"aclnnIsClose", is_close, "01", 5, NULL, real_is_close, NULL, 0},
	UNARY(aclnnIsFinite, is_finite),
	UNARY(aclnnIsInf, is_inf),
	UNARY(aclnnIsNegInf, is_neg_inf),
	UNARY(aclnnIsPosInf, is_pos_inf),
	OTHER(aclnnLSTM, recurrent, 4),
	OTHER(aclnnLayerNorm, layer_norm, 0),
	OTHER(aclnnLayerNormBackward, layer_norm_backward, 0),
	SCALED_ANY(aclnnLeScalar, "0", 2, "1", les),
	BINARY_ANY(aclnnLeTensor, "01", 2, le),
	SCALED(aclnnLeakyRelu, "0", 2, "1", leaky_relu),
	SCALED(aclnnLeakyReluBackward, "01", 4, "2", leaky_relu_backward),
	BINARY(aclnnLerp, "012", 3, lerp_by),
	SCALED(aclnnLerps, "01", 3, "2", lerp),
	{"aclnnLinalgVectorNorm", norm_of, NULL, 5, NULL, NULL, NULL, NORM},
	OTHER(aclnnLinspace, linspace, 0),
	UNARY(aclnnLog, log),
	OTHER(aclnnLogSoftmax, softmax, 1),
	OTHER(aclnnLogSoftmaxBackward, softmax_backward, 1),
	BINARY_ANY(aclnnLogicalAnd, "01", 2, both),
	UNARY_ANY(aclnnLogicalNot, not),
	BINARY_ANY(aclnnLogicalOr, "01", 2, either),
	BINARY_ANY(aclnnLogicalXor, "01", 2, one_of),
	OTHER(aclnnLstmBackward, recurrent_backward, 4),
	SCALED_ANY(aclnnLtScalar, "0", 2, "1", lts),
	BINARY_ANY(aclnnLtTensor, "01", 2, lt),
	OTHER(aclnnMaskedSelect, masked_select, 0),
	OTHER(aclnnMatmul, matmul, 0),
	REDUCE(aclnnMax, NULL, 1, MAX),
	{"aclnnMaxDim", best, NULL, 4, NULL, NULL, NULL, MAX},
	OTHER(aclnnMaxPool, max_pool_alone, 0),
	OTHER(aclnnMaxPool2dWithIndices, max_pool, 2),
	OTHER(aclnnMaxPool2dWithIndicesBackward, max_pool_backward, 2),
	OTHER(aclnnMaxPool2dWithMask, max_pool, 2 | MASKED),
	OTHER(aclnnMaxPool2dWithMaskBackward, max_pool_backward, 2 | MASKED),
	OTHER(aclnnMaxPool3dWithArgmax, max_pool, 3),
	OTHER(aclnnMaxPool3dWithArgmaxBackward, max_pool_backward, 3),
	BINARY_ANY(aclnnMaximum, "01", 2, maximum),
	REDUCE(aclnnMean, "1", 4, MEAN),
	REDUCE(aclnnMin, NULL, 1, MIN),
	{"aclnnMinDim", best, NULL, 4, NULL, NULL, NULL, MIN},
	BINARY_ANY(aclnnMinimum, "01", 2, minimum),
	OTHER(aclnnMm, matmul, 0),
	OTHER(aclnnMseLoss, mse_loss, 0),
	{"aclnnMseLossBackward", mse_loss_backward, "012", 4, NULL, real_mse_backward, NULL, 0},
	BINARY_ANY(aclnnMul, "01", 2, mul),
	SCALED_ANY(aclnnMuls, "0", 2, "1", muls),
	OTHER(aclnnMultinomial, multinomial, 0),
	OTHER(aclnnMultinomialTensor, multinomial, 1),
	OTHER(aclnnMv, matmul, 0),
	OTHER(aclnnNLLLoss, nll_loss, 0),
	OTHER(aclnnNLLLoss2d, nll_loss, 0),
	OTHER(aclnnNLLLoss2dBackward, nll_loss_backward, 0),
	OTHER(aclnnNLLLossBackward, nll_loss_backward, 0),
	SCALED_ANY(aclnnNeScalar, "0", 2, "1", nes),
	BINARY_ANY(aclnnNeTensor, "01", 2, ne),
	UNARY_ANY(aclnnNeg, neg),
	OTHER(aclnnNonzero, nonzero, 0),
	OTHER(aclnnNonzeroV2, nonzero, 1),
	{"aclnnNorm", norm_of, NULL, 4, NULL, NULL, NULL, NORM},
	OTHER(aclnnPermute, permute, 0),
	SCALED_ANY(aclnnPowScalarTensor, "1", 2, "0", pow_of),
	SCALED_ANY(aclnnPowTensorScalar, "0", 2, "1", pow),
	BINARY_ANY(aclnnPowTensorTensor, "01", 2, pow_by),
	OTHER(aclnnRange, arange, 0),
	UNARY(aclnnReciprocal, reciprocal),
	REDUCE(aclnnReduceSum, "1", 4, SUM),
	OTHER(aclnnReflectionPad1d, reflection_pad, 0),
	UNARY_ANY(aclnnRelu, relu),
	OTHER(aclnnRepeat, repeat, 0),
	OTHER(aclnnRepeatInterleaveIntWithDim, repeat_elements, 0),
	OTHER(aclnnRmsNorm, rms_norm, 0),
	OTHER(aclnnRoll, roll, 0),
	{"aclnnRotaryPositionEmbedding", rotary, NULL, 4, NULL, NULL, NULL, 0},
	{"aclnnRotaryPositionEmbeddingV2", rotary, NULL, 5, NULL, NULL, NULL, 0},
	UNARY(aclnnRound, round),
	{"aclnnRoundDecimals", round_decimals, "0", 2, NULL, real_round_decimals, NULL, 0},
	UNARY(aclnnRsqrt, rsqrt),
	SCALED_ANY(aclnnRsub, "01", 3, "2", rsub),
	SCALED_ANY(aclnnRsubs, "0", 3, "21", rsubs),
	BINARY_ANY(aclnnSWhere, "012", 3, where),
	{"aclnnScatter", scatter, NULL, 5, NULL, NULL, NULL, 0},
	{"aclnnScatterAdd", scatter, NULL, 4, NULL, NULL, NULL, ADDS},
	UNARY(aclnnSigmoid, sigmoid),
	BINARY(aclnnSigmoidBackward, "01", 2, sigmoid_backward),
	UNARY_ANY(aclnnSign, sign),
	UNARY(aclnnSilu, silu),
	BINARY(aclnnSiluBackward, "01", 2, silu_backward),
	UNARY(aclnnSin, sin),
	OTHER(aclnnSlice, slice, 0),
	OTHER(aclnnSoftmax, softmax, 0),
	OTHER(aclnnSoftmaxBackward, softmax_backward, 0),
	OTHER(aclnnSoftmaxCrossEntropyWithLogits, softmax_loss, 0),
	SCALED(aclnnSoftplus, "0", 3, "12", softplus),
	OTHER(aclnnSort, sort, 0),
	UNARY(aclnnSqrt, sqrt),
	UNARY_ANY(aclnnSquare, square),
	{"aclnnStack", stack, NULL, 0, NULL, real_copy, whole_copy, 1},
	SCALED_ANY(aclnnSub, "01", 3, "2", sub),
	SCALED_ANY(aclnnSubs, "0", 3, "21", subs),
	{"aclnnSwiGlu", gated, NULL, 2, NULL, real_silu, NULL, 0},
	UNARY(aclnnTanh, tanh),
	BINARY(aclnnTanhBackward, "01", 2, tanh_backward),
	SCALED_ANY(aclnnThreshold, "0", 3, "12", threshold),
	SCALED(aclnnThresholdBackward, "01", 3, "2", threshold_backward),
	OTHER(aclnnTopk, top, 0),
	OTHER(aclnnTriangularSolve, triangular_solve, 0),
	{"aclnnTril", triangle, NULL, 2, NULL, NULL, NULL, 0},
	{"aclnnTriu", triangle, NULL, 2, NULL, NULL, NULL, 1},
	UNARY(aclnnTrunc, trunc),
	OTHER(aclnnUnique2, unique, 0),
	OTHER(aclnnUpsampleNearest2d, upsample_nearest, 0),
};

const size_t num_operators = sizeof operators / sizeof *operators;

static int by_name(const void *name, const void *o) { return strcmp(name, ((const operator *)o)->name); }

_Thread_local part share;

/* Runs an operator with the modes of rounding and of small numbers that C begins with. */
static bool run(const block *b, bool dry)
{
	const operator *o = bsearch((const char *)b + b->name, operators, num_operators, sizeof *operators, by_name);
	fenv_t caller;

	if (!o || fegetenv(&caller) || fesetenv(FE_DFL_ENV))
		return false;
	bool done = o->run(b, o, dry);
	fesetenv(&caller);
	return done;
}

int64_t aclsim_shares(const block *b)
{
	share = (part){.n = 1, .wanted = 1};
	return run(b, true) ? share.wanted : 0;
}

bool aclsim_compute(const block *b, int64_t i, int64_t n)
{
	if (i > 0 && aclsim_shares(b) < 2)
		return true;
	share = (part){.i = i, .n = n};
	return run(b, false);
}
