#ifndef ACLTRACE_SHIM_COPY_H
#define ACLTRACE_SHIM_COPY_H

#include <stdbool.h>
#include <stdint.h>

/* Copies memory that may be unmapped. False if it is, or if the program filters its system calls. */
bool shim_careful_copy(void *to, const void *from, uint64_t len);
/* The same for rows that begin at intervals of pitch, without the gaps. One system call copies up to 32 rows. */
bool shim_careful_rows(void *to, const void *from, uint64_t pitch, uint64_t width, uint64_t rows);
/* Whether memory can be read at this moment. For large memory it takes a third of the time of a careful copy. */
bool shim_readable(const void *from, uint64_t len);

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
