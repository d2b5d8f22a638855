/* Shared by the generated file of the fake CUDA driver (cuda_gen.c) and its other files. */
#ifndef FAKECUDA_FAKE_H
#define FAKECUDA_FAKE_H

#define ACLTRACE_EXACT_NAMES
#include "cuda.h"

#define FAKE_HIDDEN __attribute__((visibility("hidden")))

/* Answers for a function that the fake does not have: says its name once. */
CUresult fake_unsupported(const char *name) FAKE_HIDDEN;
/* The stream that 0 stands for where the thread's own default stream is meant. */
CUstream fake_thread_stream(CUstream s) FAKE_HIDDEN;

/* What a tensor map describes; false where it is none. */
struct fakecuda_tensor;
_Bool fake_tensor(const void *map, struct fakecuda_tensor *tensor) FAKE_HIDDEN;

/* Every function that the fake exports, for cuGetProcAddress: those of one name behind each other, by ascending version. */
struct fake_symbol {
	const char *base; /* without version and form */
	int since;        /* 1000 * major + 10 * minor, 0 where that is not known */
	int thread;       /* whether its default stream is the thread's own */
	void *fn;
};
extern const struct fake_symbol fake_symbols[] FAKE_HIDDEN;

#endif
