/* Reads binaries, each preceded by its length, and prints a line for each kernel and then an empty line. */
#include <stdio.h>
#include <stdlib.h>

#include "base/sys.h"
#include "cuda/params.h"

long sys6(long n, long a, long b, long c, long d, long e, long f) { return sys_raw(n, a, b, c, d, e, f); }

static void told(void *to, const char *name, uint64_t length, const struct params *params)
{
	(void)to;
	for (uint64_t i = 0; i < length; i++)
		putchar(name[i] > ' ' && name[i] < 127 ? name[i] : '?');
	for (unsigned i = 0; i < params->count; i++)
		printf(" %u", params->size[i]);
	putchar('\n');
}

int main(void)
{
	uint32_t size;
	while (fread(&size, sizeof size, 1, stdin) == 1) {
			/* A separate block, so that the sanitizer detects reads outside it. */
		uint8_t *b = malloc(size);
		if (fread(b, 1, size, stdin) != size)
			return 1;
		params_of(b, size, told, NULL);
		free(b);
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
