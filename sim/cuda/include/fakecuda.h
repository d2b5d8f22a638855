/*
 * Kernels of the fake CUDA driver: functions of the host, in a library that FAKECUDA_KERNELS names. A kernel of a module has the
 * name that its PTX gives it, and so has the function, of the type fakecuda_kernel. The driver searches a library only if it exports
 * fakecuda_kernels, which it does if one of its sources includes this file, and only for functions of its own.
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a texture or a surface shows: rows of so many bytes, as they lie in memory. */
struct fakecuda_image {
	void *data;
	size_t width, height, pitch;
};

/* What a tensor map describes; strides are bytes, the first is that of an element. */
struct fakecuda_tensor {
	uint64_t address;
	uint32_t rank;
	uint64_t dims[5], strides[5];
};

struct fakecuda_launch {
	uint32_t grid[3], block[3], cluster[3];
	uint32_t shared;           /* bytes */
	uint32_t count;            /* of arguments */
	const void *const *params; /* where each argument lies */
	/* Device memory as the host sees it; NULL where no allocation holds all of it, which fails the launch. */
	void *(*memory)(uint64_t addr, size_t bytes);
	/* The memory of each device that an address of a multicast object leads to: how many there are. 0 where there is none, which fails the launch. */
	size_t (*multicast)(uint64_t addr, size_t bytes, void **copies, size_t most);
	/* Sets the value of a condition of a graph. */
	void (*condition)(uint64_t handle, uint32_t value);
	/* The content of a texture or a surface of a number; false where there is none, which fails the launch. */
	bool (*texture)(uint64_t number, struct fakecuda_image *image);
	bool (*surface)(uint64_t number, struct fakecuda_image *image);
	/* A variable of the kernel's module, as memory. */
	void *(*variable)(const char *name, size_t bytes);
	/* What a tensor map, 128 bytes, describes; false where it is none, which fails the launch. */
	bool (*tensor)(const void *map, struct fakecuda_tensor *tensor);
};

typedef void fakecuda_kernel(const struct fakecuda_launch *launch);

#ifndef FAKECUDA_DRIVER
__attribute__((weak, visibility("default"))) extern const uint32_t fakecuda_kernels;
const uint32_t fakecuda_kernels = 1;
#endif

#endif
