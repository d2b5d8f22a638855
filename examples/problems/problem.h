/* Shared by the programs with a problem: a device, its kernels and memory. */
#ifndef PROBLEM_H
#define PROBLEM_H

#include "../common/example.h"
#include "../kernels/problem_args.h"

enum { COUNT = 1024, BYTES = COUNT * sizeof(float) }; /* elements and bytes of a buffer */

static aclrtBinHandle problem_binary;

static inline void problem_begin(void)
{
	char path[PATH_MAX];

	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	example_beside("problem_kernels.o", path);
	CHECK(aclrtBinaryLoadFromFile(path, NULL, &problem_binary));
}

static inline void problem_end(void)
{
	CHECK(aclrtBinaryUnLoad(problem_binary));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
}

static inline aclrtFuncHandle kernel(const char *name)
{
	aclrtFuncHandle f;

	CHECK(aclrtBinaryGetFunction(problem_binary, name, &f));
	return f;
}

static inline void *device_memory(size_t bytes)
{
	void *p;

	CHECK(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
	return p;
}

static inline void *pinned_memory(size_t bytes)
{
	void *p;

	CHECK(aclrtMallocHost(&p, bytes));
	memset(p, 0, bytes);
	return p;
}

static inline aclrtStream new_stream(void)
{
	aclrtStream s;

	CHECK(aclrtCreateStream(&s));
	return s;
}

/* y = factor * x + 1 on a stream, in `us` microseconds of device time. */
static inline void launch(aclrtFuncHandle f, aclrtStream s, const void *x, void *y, float factor, uint32_t us)
{
	problem_block args = {x, y, COUNT, factor, us};

	CHECK(aclrtLaunchKernelWithHostArgs(f, 1, s, NULL, &args, sizeof args, NULL, 0));
}

#endif
