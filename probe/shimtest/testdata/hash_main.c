/* Prints hashes of patterns of many lengths. They must not depend on the careful mode or the vector width. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/hash.h"

bool shim_readable(const void *from, uint64_t len)
{
	(void)from, (void)len;
	return true;
}

int main(void)
{
	enum { MOST = 20000 };
	uint8_t *b = malloc(MOST + 1);
	for (int i = 0; i <= MOST; i++)
		b[i] = (uint8_t)(i * 131 + (i >> 8) * 7);
	for (int len = 241; len < MOST; len += len < 5000 ? 1 : 997) {
		uint64_t plain[2], careful[2], vectors[2];
		shim_hash(b + len % 2, (uint64_t)len, false, plain); /* also at odd addresses */
		shim_hash(b + len % 2, (uint64_t)len, true, careful);
		if (memcmp(plain, careful, sizeof plain) != 0)
			return 1;
		for (enum shim_vectors v = VECTORS_PLAIN; v <= shim_hash_vectors(); v++) {
			shim_hash_by(v, b + len % 2, (uint64_t)len, false, vectors);
			if (memcmp(plain, vectors, sizeof plain) != 0)
				return 1;
		}
		printf("%d %016lx %016lx\n", len, plain[0], plain[1]);
	}
	free(b);
	return 0;
}
