/* Text, without the C library. */
#ifndef ACLTRACE_SHIM_TEXT_H
#define ACLTRACE_SHIM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t text_length(const char *s)
{
	size_t n = 0;
	while (s[n])
		n++;
	return n;
}

/* The rest of s after a prefix, NULL if s does not begin with it. */
static inline const char *text_after(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return NULL;
	return s;
}

/* The next line in a text, its end if there is none. */
static inline const char *text_next_line(const char *s)
{
	while (*s && *s != '\n')
		s++;
	return *s ? s + 1 : s;
}

/* FNV-1a over n bytes. h is TEXT_HASH, or the hash of what comes before them. */
#define TEXT_HASH 0xcbf29ce484222325ULL
static inline uint64_t text_hash(uint64_t h, const char *s, uint64_t n)
{
	for (; n > 0; n--)
		h = (h ^ (uint8_t)*s++) * 0x100000001b3ULL;
	return h;
}

#endif
