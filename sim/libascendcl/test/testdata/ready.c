/* The ready kernels give what they should, with any number of blocks. */
#include <math.h>

#include "test.h"

enum { ROWS = 5, COLS = 7, N = ROWS * COLS };

static aclrtBinHandle bin;
static float *a, *b, *out; /* on the device */
static float x[N], y[N], got[N];

static void *device(const void *data, size_t n)
{
	void *p;

	OK(aclrtMalloc(&p, n, ACL_MEM_MALLOC_HUGE_FIRST));
	if (data)
		OK(aclrtMemcpy(p, n, data, n, ACL_MEMCPY_HOST_TO_DEVICE));
	return p;
}

static void launch(const char *name, uint32_t blocks, void *args, size_t size)
{
	aclrtFuncHandle f;

	OK(aclrtMemset(out, sizeof got, 0xee, sizeof got));
	OK(aclrtBinaryGetFunction(bin, name, &f));
	OK(aclrtLaunchKernelWithHostArgs(f, blocks, NULL, NULL, args, size, NULL, 0));
	OK(aclrtSynchronizeStream(NULL));
	OK(aclrtMemcpy(got, sizeof got, out, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void near(const char *name, int i, double want)
{
	if (fabs(got[i] - want) > 1e-5 * (1 + fabs(want))) {
		fprintf(stderr, "%s: element %d is %g, not %g\n", name, i, got[i], want);
		exit(1);
	}
}

#define EACH(name, count, want)            \
	for (int i = 0; i < (count); i++) \
	near(name, i, want)

static void all(uint32_t blocks)
{
	struct { void *in, *out; uint64_t n; } copy = {a, out, sizeof x};
	struct { void *out; uint64_t n; float value; } fill = {out, N, 2.5f};
	struct { void *a, *b, *out; uint64_t n; } two = {a, b, out, N};
	struct { void *in, *out; uint32_t rows, cols; } rows = {a, out, ROWS, COLS};

	launch("copy", blocks, &copy, sizeof copy);
	EACH("copy", N, x[i]);
	launch("fill", blocks, &fill, sizeof fill);
	EACH("fill", N, 2.5);
	launch("add", blocks, &two, sizeof two);
	EACH("add", N, x[i] + y[i]);
	launch("mul", blocks, &two, sizeof two);
	EACH("mul", N, x[i] * y[i]);

	/* (ROWS x COLS) times (COLS x ROWS) */
	struct { void *a, *b, *c; uint32_t m, n, k; } matmul = {a, b, out, ROWS, ROWS, COLS};
	launch("matmul", blocks, &matmul, sizeof matmul);
	for (int i = 0; i < ROWS; i++)
		for (int j = 0; j < ROWS; j++) {
			double sum = 0;
			for (int k = 0; k < COLS; k++)
				sum += (double)x[i * COLS + k] * y[k * ROWS + j];
			near("matmul", i * ROWS + j, sum);
		}

	launch("reduce", blocks, &rows, sizeof rows);
	for (int i = 0; i < ROWS; i++) {
		double sum = 0;
		for (int j = 0; j < COLS; j++)
			sum += x[i * COLS + j];
		near("reduce", i, sum);
	}
	launch("softmax", blocks, &rows, sizeof rows);
	for (int i = 0; i < ROWS; i++) {
		double sum = 0;
		for (int j = 0; j < COLS; j++)
			sum += exp(x[i * COLS + j]);
		for (int j = 0; j < COLS; j++)
			near("softmax", i * COLS + j, exp(x[i * COLS + j]) / sum);
	}
	launch("transpose", blocks, &rows, sizeof rows);
	for (int i = 0; i < ROWS; i++)
		for (int j = 0; j < COLS; j++)
			near("transpose", j * ROWS + i, x[i * COLS + j]);

	struct { void *in, *gamma, *beta, *out; uint32_t rows, cols; float epsilon; } norm = {a, b, b + COLS, out, ROWS, COLS, 1e-5f};
	launch("layer_norm", blocks, &norm, sizeof norm);
	for (int i = 0; i < ROWS; i++) {
		double mean = 0, variance = 0;
		for (int j = 0; j < COLS; j++)
			mean += x[i * COLS + j] / (double)COLS;
		for (int j = 0; j < COLS; j++)
			variance += pow(x[i * COLS + j] - mean, 2) / COLS;
		for (int j = 0; j < COLS; j++)
			near("layer_norm", i * COLS + j, (x[i * COLS + j] - mean) / sqrt(variance + 1e-5) * y[j] + y[COLS + j]);
	}

	static const int32_t index[] = {4, 0, -1, 2, 5};
	static void *d_index;
	if (!d_index)
		d_index = device(index, sizeof index);
	struct { void *table, *index, *out; uint32_t n, rows, cols; } gather = {a, d_index, out, ROWS, 5, COLS};
	launch("gather", blocks, &gather, sizeof gather);
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < COLS; j++)
			near("gather", i * COLS + j, index[i] >= 0 && index[i] < ROWS ? x[index[i] * COLS + j] : 0);

	struct { void *in, *out; uint64_t n; } cast = {a, out, N};
	launch("cast_f32_i32", blocks, &cast, sizeof cast);
	for (int i = 0; i < N; i++)
		CHECK(((int32_t *)got)[i] == (int32_t)x[i]);
	cast.in = d_index;
	cast.n = 5;
	launch("cast_i32_f32", blocks, &cast, sizeof cast);
	EACH("cast_i32_f32", 5, index[i]);
}

int main(int argc, char **argv)
{
	static const uint32_t blocks[] = {1, 3, 100};

	CHECK(argc == 2);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtBinaryLoadFromFile(argv[1], NULL, &bin));
	for (int i = 0; i < N; i++) {
		x[i] = (float)(i * 37 % 19 - 9) / 4;
		y[i] = (float)(i * 53 % 23 - 11) / 8;
	}
	a = device(x, sizeof x);
	b = device(y, sizeof y);
	out = device(NULL, sizeof got);
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
		all(blocks[i]);

	/* An extent that does not fit is no crash. */
	aclrtFuncHandle f;
	struct { void *in, *out; uint32_t rows, cols; } rows = {a, out, UINT32_MAX, UINT32_MAX};
	OK(aclrtBinaryGetFunction(bin, "softmax", &f));
	OK(aclrtLaunchKernelWithHostArgs(f, 1, NULL, NULL, &rows, sizeof rows, NULL, 0));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(NULL));
	return 0;
}
