/*
 * Phase one refuses the null pointers that the operator's document lists for 161001, and no others.
 *
 * One letter a parameter: t tensor, l list of tensors, s scalar, a list of scalars, i list of numbers, b list of bools, 0 a number. A
 * capital letter stands for one that may not be null. Parameters of type double are left out: they are not passed in integer registers.
 */
#include "test.h"

static const char *const rows[][2] = {
	{"aclnnAdd", "TTST"},
	{"aclnnAddmm", "TTTssT0"},
	{"aclnnAddRmsNorm", "TTTTtt"},
	{"aclnnArange", "SSST"},
	{"aclnnBatchMatMul", "TTT0"},
	{"aclnnCast", "T0T"},
	{"aclnnCat", "L0T"},
	{"aclnnClamp", "TssT"},
	{"aclnnConvolution", "tttiii0i0t0"}, /* "a pointer parameter is null" names none, and the bias may be null */
	{"aclnnDiv", "TTT"},
	{"aclnnEmbedding", "TTT"},
	{"aclnnForeachAddListV2", "LLSL"},
	{"aclnnForeachDivScalarList", "LAL"},
	{"aclnnForeachSqrt", "LL"},
	{"aclnnGelu", "TT"},
	{"aclnnGeluBackward", "TTT"},
	{"aclnnGroupNorm", "ttt0000ttt"}, /* "a required parameter is null" names none */
	{"aclnnIndexSelect", "T0TT"},
	{"aclnnInplaceCopy", "TT"},
	{"aclnnInplaceFillScalar", "TS"},
	{"aclnnInplaceMul", "TT"},
	{"aclnnInplaceZero", "T"},
	{"aclnnLayerNorm", "TIttTtt"},
	{"aclnnLayerNormBackward", "TTITTttBttt"},
	{"aclnnLogSoftmax", "T0T"},
	{"aclnnMaskedSelect", "TTT"},
	{"aclnnMatmul", "TTT0"},
	{"aclnnMean", "TI00T"},
	{"aclnnMm", "TTT0"},
	{"aclnnMul", "TTT"},
	{"aclnnMuls", "TST"},
	{"aclnnNLLLoss", "TTT00TT"},
	{"aclnnPermute", "TIT"},
	{"aclnnReduceSum", "TI00T"},
	{"aclnnSilu", "TT"},
	{"aclnnSoftmax", "T0T"},
	{"aclnnSoftmaxBackward", "TT0T"},
	{"aclnnSub", "TTST"},
	{"aclnnSwiGlu", "T0T"},
};

/* A phase one with enough words for each row. Words after the last one of a function are not read. */
typedef int32_t phase(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static uint64_t size;
static aclOpExecutor *e;

static int32_t call(phase *f, const uint64_t *params, size_t n, uint64_t without)
{
	uint64_t w[13] = {0};

	for (size_t i = 0; i < n; i++)
		w[i] = without >> i & 1 ? 0 : params[i];
	w[n] = (uintptr_t)&size;
	w[n + 1] = (uintptr_t)&e;
	return f(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12]);
}

int main(void)
{
	void *library = dlopen("libopapi.so", RTLD_NOW);

	CHECK(library);
	start();
	int64_t one = 1;
	aclTensor *t = aclCreateTensor((int64_t[]){2, 2}, 2, F32, (int64_t[]){2, 1}, 0, ND, (int64_t[]){2, 2}, 2, device(64)); /* any shapes of it go together */
	aclScalar *s = aclCreateScalar(&one, I64);
	const struct {
		char letter;
		const void *value;
	} values[] = {
		{'t', t},
		{'l', aclCreateTensorList((const aclTensor *const[]){vector(4, NULL)}, 1)},
		{'s', s},
		{'a', aclCreateScalarList((const aclScalar *const[]){aclCreateScalar(&one, I64)}, 1)},
		{'i', aclCreateIntArray(&one, 1)},
		{'b', aclCreateBoolArray((const bool[]){true}, 1)},
		{'0', NULL},
	};
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		const char *letters = rows[r][1];
		size_t n = strlen(letters);
		uint64_t params[16] = {0}, optional = 0;
		char name[80];
		snprintf(name, sizeof name, "%sGetWorkspaceSize", rows[r][0]);
		phase *f = (phase *)(uintptr_t)dlsym(library, name);
		CHECK(f && n <= 11);
		for (size_t i = 0; i < n; i++) {
			for (size_t k = 0; k < sizeof values / sizeof *values; k++)
				if ((letters[i] | 0x20) == (values[k].letter | 0x20))
					params[i] = (uintptr_t)values[k].value;
			optional |= (uint64_t)(letters[i] >= 'a') << i;
		}
		for (size_t i = 0; i < n; i++) {
			if (letters[i] < 'A' || letters[i] > 'Z')
				continue;
			e = NULL;
			int32_t got = call(f, params, n, UINT64_C(1) << i);
			if (got != 161001 || e) {
				fprintf(stderr, "%s without parameter %zu: %d, executor %p\n", rows[r][0], i, got, (void *)e);
				return 1;
			}
		}
		int32_t got = call(f, params, n, optional);
		if (got) {
			fprintf(stderr, "%s without the parameters that may be null: %d: %s\n", rows[r][0], got, aclGetRecentErrMsg());
			return 1;
		}
	}
	return 0;
}
