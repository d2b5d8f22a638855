/*
 * How a host function becomes a kernel of the simulator.
 *
 * A kernel library is a shared object that exports aclsim_kernels(). The simulator opens the libraries that
 * ACLSIM_KERNELS names (paths, separated by colons) when a program first looks up a kernel in a binary. It finds the kernel by
 * name, or by its entry (tiling key). With ACLSIM_KERNELS_BESIDE=1 it also searches the library beside the binary, x.so for x.o.
 * The binary that the program loads is an ELF file whose symbols list its kernels; the library has their code.
 *
 * Device memory has the addresses in the program's arguments, so a kernel dereferences them like a device. It must access
 * no other memory. Before each launch the simulator checks the kernel's declared extents against the live allocations,
 * because native code can't be stopped later.
 */
#ifndef ACLSIM_KERNEL_H
#define ACLSIM_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACLSIM_KERNEL_ABI 1

/* The kind of an argument. Arguments are in the block in order, each aligned to its size (8 for pointers). */
enum {
	ACLSIM_SCALAR = 0,    /* passed by value */
	ACLSIM_INPUT = 1,     /* device address that is read */
	ACLSIM_OUTPUT = 2,    /* device address that is written */
	ACLSIM_INOUT = 3,     /* device address that is read and written */
	ACLSIM_WORKSPACE = 4, /* device address of scratch memory */
	ACLSIM_TILING = 5     /* device address of tiling data, often a placeholder of the launch */
};

typedef struct aclsim_arg {
	const char *name;
	uint32_t kind;
	uint32_t size; /* bytes in the argument block: 8 for addresses; 1, 2, 4 or 8 for scalars */
} aclsim_arg;

enum { ACLSIM_READ = 1, ACLSIM_WRITE = 2 };

/* Flags of a kernel. */
enum { ACLSIM_PARALLEL = 1 /* the blocks of a launch may run at once, in any order */ };

/* A range of device memory that a launch accesses. */
typedef struct aclsim_extent {
	uint64_t addr;
	uint64_t size; /* bytes */
	uint32_t access;
	uint32_t arg; /* number of the argument that it comes from */
} aclsim_extent;

typedef struct aclsim_launch {
	const void *args;    /* the argument block, placeholders resolved */
	uint64_t args_size;  /* bytes */
	uint32_t num_blocks; /* grid.x * grid.y * grid.z of a SIMT launch */
	uint32_t grid[3];    /* {num_blocks, 1, 1} unless the launch says otherwise */
	uint32_t block[3];   /* {1, 1, 1} unless the launch says otherwise */
} aclsim_launch;

typedef struct aclsim_kernel {
	const char *name;
	uint64_t entry; /* tiling key, 0 for none */
	const aclsim_arg *args;
	uint32_t num_args;
	uint32_t flags; /* 0 or ACLSIM_PARALLEL */
	/* Writes at most max extents to out and returns how many the launch has. */
	uint32_t (*extents)(const aclsim_launch *launch, aclsim_extent *out, uint32_t max);
	/* Executes one block, 0 <= block < num_blocks. Blocks run one after the other, in order, on one thread; with
	 * ACLSIM_PARALLEL several run at once, on threads that the simulator chooses. Launches of different streams run at
	 * once in any case. NULL if the kernel is not computed: the launch is checked and takes its time, and what it declares
	 * to write is unknown. Without extents, all memory that it can reach is unknown. */
	void (*run)(const aclsim_launch *launch, uint32_t block);
	/* Device time of the launch in nanoseconds; NULL to use the simulator's cost model. */
	uint64_t (*duration)(const aclsim_launch *launch);
} aclsim_kernel;

typedef struct aclsim_kernel_library {
	uint32_t abi; /* ACLSIM_KERNEL_ABI */
	uint32_t num_kernels;
	const aclsim_kernel *kernels;
} aclsim_kernel_library;

/* The one symbol that a kernel library exports. */
const aclsim_kernel_library *aclsim_kernels(void);

#ifdef __cplusplus
}
#endif

#endif
