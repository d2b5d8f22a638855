/* Shared by the test programs. Each prints nothing, checks its own results, and ends with 1 if one is wrong. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

#define EXPECT(x)                                                            \
	do {                                                                 \
		if (!(x)) {                                                  \
			fprintf(stderr, "%s is wrong at line %d\n", #x, __LINE__); \
			exit(1);                                             \
		}                                                            \
	} while (0)

static inline void *device_memory(size_t n)
{
	void *p;
	CHECK(aclrtMalloc(&p, n, ACL_MEM_MALLOC_HUGE_FIRST));
	return p;
}

static inline void to_device(void *to, const void *from, size_t n) { CHECK(aclrtMemcpy(to, n, from, n, ACL_MEMCPY_HOST_TO_DEVICE)); }
static inline void to_host(void *to, const void *from, size_t n) { CHECK(aclrtMemcpy(to, n, from, n, ACL_MEMCPY_DEVICE_TO_HOST)); }

/* The kernels of kernels.c, from the binary in the program's argument. */
static inline aclrtFuncHandle kernel(const char *path, const char *name)
{
	static aclrtBinHandle binary;
	aclrtFuncHandle f;
	if (binary == NULL)
		CHECK(aclrtBinaryLoadFromFile(path, NULL, &binary));
	CHECK(aclrtBinaryGetFunction(binary, name, &f));
	return f;
}

static inline void launch(aclrtFuncHandle f, uint32_t blocks, aclrtStream s, void *args, size_t size)
{
	CHECK(aclrtLaunchKernelWithHostArgs(f, blocks, s, NULL, args, size, NULL, 0));
}

/* x[i] += by * (i + 1); stamp has the same arguments */
struct add_args {
	uint32_t *x;
	uint64_t count;
	uint32_t by, unused;
};

/* out[i] = sum of the bytes of page table[index[i]], 0 for no page */
struct pages_args {
	uint64_t *out;
	uint8_t **table;
	uint32_t *index;
	uint64_t count, page;
};

/* out[s] = sum over k < length[s] of (k + 1) * pool[table[s * width + k / BLOCK]][k % BLOCK] */
struct attend_args {
	uint64_t *out;
	uint32_t *pool;
	int32_t *table;
	uint32_t *length;
	uint64_t count, width;
};

enum { BLOCK = 16 };

/* *out = sum of (i + 1) * x[i]. sum gets x, minus gets x + by and by, tiled gets the address of a structure that has x and count. */
struct sum_args {
	int64_t *out;
	union {
		const int32_t *x;
		uint64_t above;
		const struct tiling *tiling;
	};
	uint64_t count, by;
};

struct tiling {
	uint32_t rows, columns, tile[6];
	uint64_t count;
	const int32_t *x;
	uint32_t cores, unused, flags[4];
};

/* *out = sum of k * value of the k-th node */
struct node {
	struct node *next;
	int64_t value;
};

struct walk_args {
	int64_t *out;
	struct node *pool;
	uint64_t count, first;
};

#endif
