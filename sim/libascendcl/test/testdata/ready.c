/* The ready kernels compute the expected results, with any number of blocks. */
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

static void run(const char *name, uint32_t blocks, void *args, size_t size)
{
	aclrtFuncHandle f;

	OK(aclrtBinaryGetFunction(bin, name, &f));
	OK(aclrtLaunchKernelWithHostArgs(f, blocks, NULL, NULL, args, size, NULL, 0));
}

/* A cast on the device, of n numbers. */
static void cast(const char *from, const char *to, void *in, void *dst, uint64_t n)
{
	struct { void *in, *out; uint64_t n; } args = {in, dst, n};
	char name[32];

	snprintf(name, sizeof name, "cast_%s_%s", from, to);
	run(name, 1, &args, sizeof args);
}

/* Each number of a type goes to a float and back, and a float becomes the nearest number, the even one of two. */
static void numbers(const char *type)
{
	enum { ALL = 1 << 16 };
	static uint16_t h[ALL], back[ALL];
	static float f[ALL], middle[ALL];
	void *dh = device(NULL, sizeof h), *df = device(NULL, sizeof f);

	for (int i = 0; i < ALL; i++)
		h[i] = (uint16_t)i;
	OK(aclrtMemcpy(dh, sizeof h, h, sizeof h, ACL_MEMCPY_HOST_TO_DEVICE));
	cast(type, "f32", dh, df, ALL);
	cast("f32", type, df, dh, ALL);
	OK(aclrtSynchronizeStream(NULL));
	OK(aclrtMemcpy(f, sizeof f, df, sizeof f, ACL_MEMCPY_DEVICE_TO_HOST));
	OK(aclrtMemcpy(back, sizeof back, dh, sizeof back, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < ALL; i++)
		if (f[i] == f[i] ? back[i] != i : isnan(f[i]) == 0) {
			fprintf(stderr, "%s: %#x is %g, which becomes %#x\n", type, i, f[i], back[i]);
			exit(1);
		}
	CHECK(f[0x3f80] == (type[0] == 'b' ? 1.0f : 0x1.ep0f) && f[1] == (type[0] == 'b' ? 0x1p-133f : 0x1p-24f));
	for (int i = 0; i + 1 < ALL; i++)
		middle[i] = isfinite(f[i]) && isfinite(f[i + 1]) ? (float)(((double)f[i] + f[i + 1]) / 2) : 0;
	OK(aclrtMemcpy(df, sizeof middle, middle, sizeof middle, ACL_MEMCPY_HOST_TO_DEVICE));
	cast("f32", type, df, dh, ALL);
	OK(aclrtSynchronizeStream(NULL));
	OK(aclrtMemcpy(back, sizeof back, dh, sizeof back, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i + 1 < ALL; i++)
		if (middle[i] != 0 && (i & 0x8000) == ((i + 1) & 0x8000) && back[i] != (i & 1 ? i + 1 : i)) {
			fprintf(stderr, "%s: the middle of %#x and the next becomes %#x\n", type, i, back[i]);
			exit(1);
		}
	OK(aclrtFree(dh));
	OK(aclrtFree(df));
}

/* A kernel for another type gives the float kernel's results, rounded. */
static void typed(const char *type, double precision, uint32_t blocks)
{
	static const char *const names[] = {"fill", "add", "mul", "matmul", "reduce", "softmax", "layer_norm", "gather", "transpose"};
	static const int32_t index[ROWS] = {3, 0, -1, 2, 4};
	float want[N], gx[N];
	void *h[3], *f[3], *dindex = device(index, sizeof index);

	for (int i = 0; i < 3; i++) {
		h[i] = device(NULL, 2 * N);
		f[i] = device(NULL, 4 * N);
	}
	cast("f32", type, a, h[0], N);
	cast("f32", type, b, h[1], N);
	cast(type, "f32", h[0], f[0], N);
	cast(type, "f32", h[1], f[1], N);
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		for (int half = 0; half < 2; half++) {
			void **m = half ? h : f;
			struct { void *out; uint64_t n; float value; } fill = {m[2], N, 2.5f};
			struct { void *a, *b, *out; uint64_t n; } two = {m[0], m[1], m[2], N};
			struct { void *a, *b, *c; uint32_t m, n, k; } matmul = {m[0], m[1], m[2], ROWS, ROWS, COLS};
			struct { void *in, *out; uint32_t rows, cols; } rows = {m[0], m[2], ROWS, COLS};
			struct { void *in, *gamma, *beta, *out; uint32_t rows, cols; float epsilon; } norm = {m[0], m[1], m[0], m[2], ROWS, COLS, 1e-5f};
			struct { void *table, *index, *out; uint32_t n, rows, cols; } gather = {m[0], dindex, m[2], ROWS, ROWS, COLS};
			void *args[] = {&fill, &two, &two, &matmul, &rows, &rows, &norm, &gather, &rows};
			size_t sizes[] = {sizeof fill, sizeof two, sizeof two, sizeof matmul, sizeof rows, sizeof rows, sizeof norm, sizeof gather, sizeof rows};
			char name[32];

			OK(aclrtMemset(m[2], half ? 2 * N : 4 * N, 0, half ? 2 * N : 4 * N));
			snprintf(name, sizeof name, "%s%s%s", names[k], half ? "_" : "", half ? type : "");
			run(name, blocks, args[k], sizes[k]);
			OK(aclrtSynchronizeStream(NULL));
		}
		OK(aclrtMemcpy(want, sizeof want, f[2], sizeof want, ACL_MEMCPY_DEVICE_TO_HOST));
		cast(type, "f32", h[2], f[2], N);
		OK(aclrtSynchronizeStream(NULL));
		OK(aclrtMemcpy(gx, sizeof gx, f[2], sizeof gx, ACL_MEMCPY_DEVICE_TO_HOST));
		for (int i = 0; i < N; i++)
			if (!(fabs(gx[i] - want[i]) <= precision * fabs(want[i]) + 1e-7)) {
				fprintf(stderr, "%s_%s: element %d is %g, not %g\n", names[k], type, i, gx[i], want[i]);
				exit(1);
			}
	}
	for (int i = 0; i < 3; i++) {
		OK(aclrtFree(h[i]));
		OK(aclrtFree(f[i]));
	}
	OK(aclrtFree(dindex));
}

/* Enough work for the blocks of a launch to run at once. */
static void many(void)
{
	enum { MANY = 1 << 18 };
	static float v[MANY];
	void *d = device(NULL, sizeof v);
	struct { void *out; uint64_t n; float value; } fill = {d, MANY, 3};
	struct { void *a, *b, *out; uint64_t n; } two = {d, d, d, MANY};

	run("fill", 1000, &fill, sizeof fill);
	run("mul", 1000, &two, sizeof two);
	OK(aclrtSynchronizeStream(NULL));
	OK(aclrtMemcpy(v, sizeof v, d, sizeof v, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < MANY; i++)
		CHECK(v[i] == 9);
	OK(aclrtFree(d));
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
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
		all(blocks[i]);
		typed("f16", 0x1p-11, blocks[i]);
		typed("bf16", 0x1p-8, blocks[i]);
	}
	numbers("f16");
	numbers("bf16");
	many();

	/* An extent out of bounds is an error and not a crash. */
	aclrtFuncHandle f;
	struct { void *in, *out; uint32_t rows, cols; } rows = {a, out, UINT32_MAX, UINT32_MAX};
	OK(aclrtBinaryGetFunction(bin, "softmax", &f));
	OK(aclrtLaunchKernelWithHostArgs(f, 1, NULL, NULL, &rows, sizeof rows, NULL, 0));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(NULL));
	return 0;
}
