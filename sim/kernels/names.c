/* Compiled without linking, this is the binary that a program loads to launch the ready kernels: its symbols name them. */
#define KERNEL(name)  \
	void name(void); \
	void name(void) {}
#define TYPED(name) KERNEL(name) KERNEL(name##_f16) KERNEL(name##_bf16)

KERNEL(copy)
TYPED(fill)
TYPED(add)
TYPED(mul)
TYPED(matmul)
TYPED(reduce)
TYPED(softmax)
TYPED(layer_norm)
TYPED(gather)
TYPED(transpose)
KERNEL(cast_f32_i32)
KERNEL(cast_i32_f32)
KERNEL(cast_f32_f16)
KERNEL(cast_f16_f32)
KERNEL(cast_f32_bf16)
KERNEL(cast_bf16_f32)
