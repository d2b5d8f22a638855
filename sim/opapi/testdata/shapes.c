/* Phase one refuses shapes that do not go together, with 161002, and no others. Prints what the log has to say, a line for each refusal. */
#include "test.h"

/* A phase one with enough words for each row. Words after the last one of a function are not read. */
typedef int32_t phase(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* The operator, the letters of its parameters as in null.c, the shapes of its tensors, and a part of the message; NULL if phase one accepts them. */
static const struct {
	const char *name, *letters, *shapes, *message;
} rows[] = {
	{"aclnnAdd", "ttst", "2,3 2,3 2,3", NULL},
	{"aclnnAdd", "ttst", "2,3 3 2,3", NULL},
	{"aclnnAdd", "ttst", "3,1 1,4 3,4", NULL},
	{"aclnnAdd", "ttst", "- 2,3 2,3", NULL},
	{"aclnnAdd", "ttst", "- - -", NULL},
	{"aclnnAdd", "ttst", "0,3 1,3 0,3", NULL},
	{"aclnnAdd", "ttst", "2,3 4 2,3", "[2,3] and [4] can't be broadcast"},
	{"aclnnAdd", "ttst", "2,3 2,3 2,4", "[2,3] and [2,4] are those of the result and of its tensor"},
	{"aclnnAdd", "ttst", "2,3 2,3 3", "[2,3] and [3] are"},
	{"aclnnAdd", "ttst", "2,1 2,1 2,3", "[2,1] and [2,3] are"},
	{"aclnnMul", "ttt", "0,3 2,3 2,3", "can't be broadcast"},
	{"aclnnInplaceMul", "tt", "2,3 1", NULL},
	{"aclnnInplaceMul", "tt", "1 2,3", "[2,3] and [1] are"},
	{"aclnnInplaceSub", "tts", "2,3 2", "[2,3] and [2] can't be broadcast"},
	{"aclnnMatmul", "ttt0", "2,3 3,4 2,4", NULL},
	{"aclnnMatmul", "ttt0", "3 3,4 4", NULL},
	{"aclnnMatmul", "ttt0", "2,3 3 2", NULL},
	{"aclnnMatmul", "ttt0", "3 3 -", NULL},
	{"aclnnMatmul", "ttt0", "5,2,3 3,4 5,2,4", NULL},
	{"aclnnMatmul", "ttt0", "5,1,2,3 6,3,4 5,6,2,4", NULL},
	{"aclnnMatmul", "ttt0", "5,2,3 3 5,2", NULL},
	{"aclnnMatmul", "ttt0", "2,0 0,4 2,4", NULL},
	{"aclnnMatmul", "ttt0", "2,3 4,3 2,3", "[2,3] and [4,3] have no product"},
	{"aclnnMatmul", "ttt0", "5,2,3 6,3,4 5,2,4", "have no product"},
	{"aclnnMatmul", "ttt0", "- 3,4 4", "[] and [3,4] have no product"},
	{"aclnnMatmul", "ttt0", "2,3 3,4 4,2", "[2,4] and [4,2] are"},
	{"aclnnMm", "ttt0", "2,3 3,4 2,4", NULL},
	{"aclnnMm", "ttt0", "2,3 2,3 2,3", "have no product"},
	{"aclnnBatchMatMul", "ttt0", "5,2,3 5,3,4 5,2,4", NULL},
	{"aclnnBatchMatMul", "ttt0", "5,2,3 4,3,4 5,2,4", "have no product"},
	{"aclnnAddmm", "tttsst0", "4 2,3 3,4 2,4", NULL},
	{"aclnnAddmm", "tttsst0", "2,4 2,3 3,4 2,4", NULL},
	{"aclnnAddmm", "tttsst0", "3 2,3 3,4 2,4", "[3] and [2,4] can't be added"},
	{"aclnnAddmm", "tttsst0", "5,2,4 2,3 3,4 5,2,4", "can't be added"},
	{"aclnnAddmm", "tttsst0", "4 2,3 4,4 2,4", "[2,3] and [4,4] have no product"},
};

/* Makes a tensor of the next shape in a text. "-" has no dims. */
static aclTensor *next(const char **at, void *memory)
{
	int64_t dims[8], strides[8], n = 0, step = 1;
	char *end = (char *)*at;

	for (; *end && *end != ' ' && *end != '-'; end += *end == ',')
		dims[n++] = strtoll(end, &end, 10);
	*at = end + strcspn(end, " ");
	*at += **at == ' ';
	for (int64_t d = n - 1; d >= 0; d--) {
		strides[d] = step;
		step *= dims[d];
	}
	return aclCreateTensor(dims, (uint64_t)n, F32, strides, 0, ND, dims, (uint64_t)n, memory);
}

int main(void)
{
	void *library = dlopen("libopapi.so", RTLD_NOW), *memory;

	CHECK(library);
	start();
	memory = device(4096);
	float one = 1;
	aclScalar *s = aclCreateScalar(&one, F32);
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		const char *at = rows[r].shapes;
		uint64_t w[9] = {0}, size;
		char name[80];
		size_t n = strlen(rows[r].letters);
		aclOpExecutor *e = NULL;
		snprintf(name, sizeof name, "%sGetWorkspaceSize", rows[r].name);
		phase *f = (phase *)(uintptr_t)dlsym(library, name);
		CHECK(f && n + 2 <= 9);
		for (size_t i = 0; i < n; i++)
			w[i] = rows[r].letters[i] == 't' ? (uintptr_t)next(&at, memory) : rows[r].letters[i] == 's' ? (uintptr_t)s : 0;
		w[n] = (uintptr_t)&size;
		w[n + 1] = (uintptr_t)&e;
		int32_t got = f(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8]);
		if (got != (rows[r].message ? 161002 : 0) || !e != !!rows[r].message) {
			fprintf(stderr, "%s of %s: %d, executor %p\n", rows[r].name, rows[r].shapes, got, (void *)e);
			return 1;
		}
		if (rows[r].message)
			printf("%s\n", rows[r].message);
	}
	return 0;
}
