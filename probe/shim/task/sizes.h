/* Kernels' parameter sizes, by the kernel's handle or another key. */
#ifndef ACLTRACE_SHIM_SIZES_H
#define ACLTRACE_SHIM_SIZES_H

#include "shim_hot.h"

#ifndef SHIM_KERNELS
#define SHIM_KERNELS 4096 /* kernels that are remembered; a power of two */
#endif

/* One part of a kernel's parameters. In all parts but the last, count includes SHIM_MORE. */
enum { SHIM_PARAMS = 23, SHIM_PARTS = 16, SHIM_MORE = 1 << 15 };
struct shim_sizes { uint16_t count, size[SHIM_PARAMS]; } __attribute__((aligned(8)));
static inline uint64_t shim_part(uint64_t key, uint32_t part) { return key ^ (uint64_t)part << 56; }

bool shim_sizes_known(uint64_t key, struct shim_sizes *s);
/* `since` is the epoch in which the sizes were asked for; 0: they are valid until others are kept. */
void shim_sizes_keep(uint64_t key, uint32_t since, const struct shim_sizes *s);
/* Called before functions are unloaded: another function may then have the handle. Begins a new epoch. */
void shim_functions_end(void);
/* Adds the arguments of a kernel as items, from `item` on. */
void shim_args_array(struct shim_call *c, uint8_t param, uint32_t item, const void *func, void **args);

#endif
