/* Shared by the generated file of the fake CUDA driver (cuda_gen.c) and its other files. */
#ifndef FAKECUDA_FAKE_H
#define FAKECUDA_FAKE_H

#define ACLTRACE_EXACT_NAMES
#include "cuda.h"

#define FAKE_HIDDEN __attribute__((visibility("hidden")))

/* Called for a function that the fake lacks: prints its name once. */
CUresult fake_unsupported(const char *name) FAKE_HIDDEN;
/* The default stream for handle 0 in functions with a default stream per thread. */
CUstream fake_thread_stream(CUstream s) FAKE_HIDDEN;

/* Decodes a tensor map; false if it is not one. */
struct fakecuda_tensor;
_Bool fake_tensor(const void *map, struct fakecuda_tensor *tensor) FAKE_HIDDEN;

/* Every function that the fake exports, for cuGetProcAddress: functions with one name are adjacent, by ascending version. */
struct fake_symbol {
	const char *base; /* without version and form */
	int since;        /* 1000 * major + 10 * minor, 0 if unknown */
	int thread;       /* true if its default stream is the thread's own */
	void *fn;
};
extern const struct fake_symbol fake_symbols[] FAKE_HIDDEN;

#endif
