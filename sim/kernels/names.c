/* Compiled without linking, this is the binary that a program loads to launch the ready kernels: its symbols name them. */
#define KERNEL(name)  \
	void name(void); \
	void name(void) {}

KERNEL(copy)
KERNEL(fill)
KERNEL(add)
KERNEL(mul)
KERNEL(matmul)
KERNEL(reduce)
KERNEL(softmax)
KERNEL(layer_norm)
KERNEL(gather)
KERNEL(transpose)
KERNEL(cast_f32_i32)
KERNEL(cast_i32_f32)
