#ifndef ACLTRACE_SHIM_COPY_H
#define ACLTRACE_SHIM_COPY_H

#include <stdbool.h>
#include <stdint.h>

/* Copies memory that may be unmapped. False if it is, or if the program filters its system calls. */
bool shim_careful_copy(void *to, const void *from, uint64_t len);

/* For a few bytes, inline: memcpy has a high fixed cost. */
static inline void small_copy(void *to, const void *from, uint64_t len)
{
	typedef uint64_t word __attribute__((may_alias, aligned(1)));
	uint64_t i = 0;
	for (; i + 8 <= len; i += 8)
		*(word *)((uint8_t *)to + i) = *(const word *)((const uint8_t *)from + i);
	for (; i < len; i++)
		((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
}

#endif
