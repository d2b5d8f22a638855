/*
 * Kernels of the fake CUDA driver: host functions in a library that FAKECUDA_KERNELS names. A function has the type fakecuda_kernel and the
 * kernel's name in the module's PTX. The driver searches a library only if it exports
 * fakecuda_kernels, which it does if one of its sources includes this file, and only for its own functions.
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A texture's or surface's content: rows of equal length in bytes, in memory order. */
struct fakecuda_image {
	void *data;
	size_t width, height, pitch;
};

/* A decoded tensor map; strides are bytes, the first is that of an element. */
struct fakecuda_tensor {
	uint64_t address;
	uint32_t rank;
	uint64_t dims[5], strides[5];
};

struct fakecuda_launch {
	uint32_t grid[3], block[3], cluster[3];
	uint32_t shared;           /* bytes */
	uint32_t count;            /* number of arguments */
	const void *const *params; /* addresses of the arguments */
	/* The host's address of device memory; NULL if no allocation contains the whole range, which fails the launch. */
	void *(*memory)(uint64_t addr, size_t bytes);
	/* The memory of each device at an address of a multicast object. Returns the number of devices; 0 if there is no such memory, which fails the launch. */
	size_t (*multicast)(uint64_t addr, size_t bytes, void **copies, size_t most);
	/* Sets the value of a graph's condition. */
	void (*condition)(uint64_t handle, uint32_t value);
	/* A texture's or surface's content, by its number; false if there is none, which fails the launch. */
	bool (*texture)(uint64_t number, struct fakecuda_image *image);
	bool (*surface)(uint64_t number, struct fakecuda_image *image);
	/* A variable of the kernel's module, as memory. */
	void *(*variable)(const char *name, size_t bytes);
	/* Decodes a tensor map of 128 bytes; false if it is not one, which fails the launch. */
	bool (*tensor)(const void *map, struct fakecuda_tensor *tensor);
};

typedef void fakecuda_kernel(const struct fakecuda_launch *launch);

#ifndef FAKECUDA_DRIVER
__attribute__((weak, visibility("default"))) extern const uint32_t fakecuda_kernels;
const uint32_t fakecuda_kernels = 1;
#endif

#endif
