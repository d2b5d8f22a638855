/* Helpers of the kernel libraries. */
#ifndef KERNELS_KERNEL_H
#define KERNELS_KERNEL_H

#include "aclsim/kernel.h"

/* The extents of one launch, as they are collected. */
typedef struct extent_list {
	aclsim_extent *out;
	uint32_t max;
	uint32_t count;
} extent_list;

static inline void touches(extent_list *list, uint32_t arg, uint32_t access, const void *addr, uint64_t size)
{
	if (!size)
		return;
	if (list->count < list->max) {
		aclsim_extent *e = &list->out[list->count];

		e->addr = (uint64_t)(uintptr_t)addr;
		e->size = size;
		e->access = access;
		e->arg = arg;
	}
	list->count++;
}

static inline void reads(extent_list *list, uint32_t arg, const void *addr, uint64_t size)
{
	touches(list, arg, ACLSIM_READ, addr, size);
}

static inline void writes(extent_list *list, uint32_t arg, const void *addr, uint64_t size)
{
	touches(list, arg, ACLSIM_WRITE, addr, size);
}

static inline void updates(extent_list *list, uint32_t arg, const void *addr, uint64_t size)
{
	touches(list, arg, ACLSIM_READ | ACLSIM_WRITE, addr, size);
}

/* The part of 0..total that one block works on. Each result is computed by one block alone, so it does not depend on
 * the number of blocks. */
typedef struct share {
	uint64_t from;
	uint64_t to;
} share;

static inline share share_of(uint64_t total, const aclsim_launch *launch, uint32_t block)
{
	share s;

	s.from = total * block / launch->num_blocks;
	s.to = total * (block + 1) / launch->num_blocks;
	return s;
}

#define COUNT_OF(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

/* One row of a library's table, for a function that has NAME_args and NAME_extents beside it. */
#define KERNEL(name, entry) {#name, entry, name##_args, COUNT_OF(name##_args), 0, name##_extents, name, NULL}
#define KERNEL_TIMED(name, entry) {#name, entry, name##_args, COUNT_OF(name##_args), 0, name##_extents, name, name##_duration}

/* The library's only entry point, for its table. */
#define LIBRARY(kernels)                                                                                              \
	const aclsim_kernel_library *aclsim_kernels(void)                                                             \
	{                                                                                                             \
		static const aclsim_kernel_library library = {ACLSIM_KERNEL_ABI, COUNT_OF(kernels), kernels};         \
		return &library;                                                                                      \
	}

#endif
