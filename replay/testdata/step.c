/* A training step by operators: each result is copied to the host. Prints nothing. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define OK(call)                                                              \
	do {                                                                  \
		int e_ = (int)(call);                                         \
		if (e_) {                                                     \
			fprintf(stderr, "%d: %s: %d\n", __LINE__, #call, e_); \
			exit(1);                                              \
		}                                                             \
	} while (0)

enum { F32 = 0, F16 = 1, I32 = 3, I64 = 9, BOOL8 = 12, BF16 = 27, ND = 2, ROOM = 1 << 20 };

void *aclCreateTensor(const int64_t *dims, uint64_t n, int32_t dtype, const int64_t *strides, int64_t offset, int32_t format, const int64_t *storage, uint64_t m, void *base);
void *aclCreateScalar(void *value, int32_t dtype);
void *aclCreateIntArray(const int64_t *v, uint64_t n);
void *aclCreateBoolArray(const bool *v, uint64_t n);

static char *arena;
static size_t used;
static aclrtStream stream;

/* The latest result: an operator's last argument but for flags. */
typedef struct operand {
	void *handle;
	char *at;
	size_t size;
} operand;

static size_t width_of(int32_t dtype) { return dtype == F32 || dtype == I32 ? 4 : dtype == I64 ? 8 : dtype == BOOL8 ? 1 : 2; }

/* A new tensor, with dims in reverse order in memory if it is transposed. */
static operand make(int32_t dtype, bool transposed, int n, const int64_t *dims)
{
	int64_t strides[4], count = 1;

	for (int i = 0; i < n; i++) {
		int d = transposed ? i : n - 1 - i;
		strides[d] = count;
		count *= dims[d];
	}
	operand o = {.at = arena + used, .size = (size_t)count * width_of(dtype)};
	used += (o.size + 63) & ~(size_t)63;
	o.handle = aclCreateTensor(dims, (uint64_t)n, dtype, strides, 0, ND, &count, 1, o.at);
	return o;
}

#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__}
#define NEW(dtype, ...) make(dtype, false, DIMS(__VA_ARGS__))
#define TRANSPOSED(dtype, ...) make(dtype, true, DIMS(__VA_ARGS__))

/* Fills a tensor with numbers of its type that are not 0. */
static operand filled(operand o, int32_t dtype)
{
	static const uint16_t halves[] = {0x3c00, 0xb800, 0x4000, 0x3800}, brains[] = {0x3f80, 0xbf00, 0x4000, 0x3f00};
	static const float floats[] = {1, -0.5F, 2, 0.5F, -1.25F};
	char *host = malloc(o.size);

	for (size_t i = 0; i < o.size / width_of(dtype); i++) {
		char *to = host + i * width_of(dtype);
		int64_t whole = (int64_t)(i % 3);
		if (dtype == F32)
			memcpy(to, &floats[i % 5], 4);
		else if (dtype == F16 || dtype == BF16)
			memcpy(to, dtype == F16 ? &halves[i % 4] : &brains[i % 4], 2);
		else
			memcpy(to, &whole, width_of(dtype));
	}
	OK(aclrtMemcpy(o.at, o.size, host, o.size, ACL_MEMCPY_HOST_TO_DEVICE));
	free(host);
	return o;
}

static void *scalar(float v) { return aclCreateScalar(&v, F32); }

static void show(operand o)
{
	char *host = malloc(o.size);

	OK(aclrtSynchronizeStream(stream));
	OK(aclrtMemcpy(host, o.size, o.at, o.size, ACL_MEMCPY_DEVICE_TO_HOST));
	free(host);
}

typedef int32_t phase_two(void *, uint64_t, void *, aclrtStream);

/* Launches an operator. Its functions are called without a prototype: arguments have the type that each parameter has. */
#define RUN(result, name, ...)                                                                                              \
	do {                                                                                                                \
		uint64_t size_;                                                                                             \
		void *executor_;                                                                                            \
		int32_t (*one_)() = (int32_t (*)())dlsym(RTLD_DEFAULT, "aclnn" #name "GetWorkspaceSize");                  \
		OK(one_(__VA_ARGS__, &size_, &executor_));                                                                  \
		OK(((phase_two *)dlsym(RTLD_DEFAULT, "aclnn" #name))(NULL, 0, executor_, stream));                         \
		show(result);                                                                                               \
	} while (0)

#define H(o) (o).handle

int main(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMalloc((void **)&arena, ROOM, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemset(arena, ROOM, 0, ROOM));
	int64_t zero = 0, one = 1, all[] = {0, 1}, pair[] = {1, 1}, none[] = {0, 0};
	int8_t keep = 0;
	bool three[] = {true, true, true};
	void *pairs = aclCreateIntArray(pair, 2), *nones = aclCreateIntArray(none, 2);

	/* A layer in each type: 5 rows, 7 inputs, 3 outputs. */
	operand x = filled(NEW(F32, 5, 7), F32), w = filled(TRANSPOSED(F32, 7, 3), F32), bias = filled(NEW(F32, 3), F32), y = NEW(F32, 5, 3), z = NEW(F32, 5, 3);
	RUN(y, Mm, H(x), H(w), H(y), (int)keep);
	RUN(z, Add, H(y), H(bias), scalar(1), H(z));
	operand x16 = NEW(F16, 5, 7), w16 = filled(NEW(F16, 7, 3), F16), y16 = NEW(F16, 5, 3);
	RUN(x16, Cast, H(x), (int)F16, H(x16));
	RUN(y16, Mm, H(x16), H(w16), H(y16), (int)keep);
	operand xb = NEW(BF16, 5, 7), wb = filled(NEW(BF16, 7, 3), BF16), yb = NEW(BF16, 5, 3), sb = NEW(BF16, 5, 3);
	RUN(xb, Cast, H(x), (int)BF16, H(xb));
	RUN(yb, Mm, H(xb), H(wb), H(yb), (int)keep);
	RUN(sb, Silu, H(yb), H(sb));
	operand even = filled(NEW(F32, 4, 4), F32), square = NEW(F32, 4, 4);
	RUN(square, Mm, H(even), H(even), H(square), (int)keep);
	operand r = NEW(F32, 5, 3), t = NEW(F32, 5, 3), p = NEW(F32, 5, 3);
	RUN(r, Relu, H(z), H(r));
	RUN(t, Tanh, H(z), H(t));
	RUN(p, LogSoftmax, H(t), one, H(p));
	operand target = filled(NEW(I64, 5), I64), weight = filled(NEW(F32, 3), F32), loss = NEW(F32, 1), total = NEW(F32, 1), grad = filled(NEW(F32, 1), F32);
	operand dp = NEW(F32, 5, 3), dt = NEW(F32, 5, 3), db = NEW(F32, 3);
	RUN(loss, NLLLoss, H(p), H(target), H(weight), one, (int64_t)-100, H(loss), H(total));
	RUN(dp, NLLLossBackward, H(grad), H(p), H(target), H(weight), one, (int64_t)-100, H(total), H(dp));
	RUN(dt, LogSoftmaxBackward, H(dp), H(p), one, H(dt));
	RUN(db, ReduceSum, H(dt), aclCreateIntArray(&zero, 1), 0, (int)F32, H(db));
	operand h = TRANSPOSED(F32, 5, 3), d16 = NEW(F16, 5, 3);
	RUN(h, Mul, H(dt), H(z), H(h));
	RUN(d16, Muls, H(y16), scalar(0.5F), H(d16));
	RUN(bias, InplaceAdd, H(bias), H(db), scalar(-0.5F));
	operand rows = NEW(F32, 5, 3), table = filled(NEW(F32, 3, 3), F32), wholes = NEW(I64, 5), marks = NEW(BOOL8, 5), i32 = filled(NEW(I32, 9), I32), j32 = NEW(I32, 9);
	RUN(rows, Embedding, H(table), H(target), H(rows));
	RUN(wholes, Add, H(target), H(target), scalar(1), H(wholes));
	RUN(marks, EqTensor, H(target), H(wholes), H(marks));
	RUN(j32, Mul, H(i32), H(i32), H(j32));
	operand image = filled(NEW(F32, 1, 2, 5, 5), F32), filter = filled(NEW(F32, 3, 2, 2, 2), F32), map = NEW(F32, 1, 3, 4, 4), di = NEW(F32, 1, 2, 5, 5), df = NEW(F32, 3, 2, 2, 2), dm = NEW(F32, 3);
	RUN(map, Convolution, H(image), H(filter), H(bias), pairs, nones, pairs, 0, nones, one, H(map), (int)keep);
	int64_t size = 3;
	RUN(di, ConvolutionBackward, H(map), H(image), H(filter), aclCreateIntArray(&size, 1), pairs, nones, pairs, 0, nones, (int)one, aclCreateBoolArray(three, 3), (int)keep, H(di), H(df), H(dm));
	operand mean = NEW(F32, 3), spread = NEW(F32, 3), normed = NEW(F32, 1, 3, 4, 4);
	RUN(normed, BatchNorm, H(map), NULL, NULL, NULL, NULL, 1, 0.1, 1e-5, H(normed), H(mean), H(spread));
	operand pooled = NEW(F32, 1, 3, 2, 2);
	RUN(pooled, AvgPool2d, H(normed), aclCreateIntArray((int64_t[]){2, 2}, 2), aclCreateIntArray((int64_t[]){2, 2}, 2), nones, 0, 1, zero, (int)keep, H(pooled));
	(void)all;
	OK(aclrtDestroyStream(stream));
	OK(aclrtFree(arena));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
