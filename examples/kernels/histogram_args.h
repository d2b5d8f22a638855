/* Argument block of the histogram kernels, as the program passes it. Pointers are device addresses. */
#ifndef KERNELS_HISTOGRAM_ARGS_H
#define KERNELS_HISTOGRAM_ARGS_H

#include <stdint.h>

enum { HISTOGRAM_BINS = 16 };

/* histogram, histogram_racy: bins[v % HISTOGRAM_BINS] += 1 for each of the values */
typedef struct histogram_block {
	const uint32_t *values;
	uint32_t *bins;
	uint64_t count;
} histogram_block;

#endif
