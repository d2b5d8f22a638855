/* Queries parameter sizes as wrappers do. Prints the number of queries to the runtime and of recorded sizes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "record/piece.h"
#include "runtime.h"
#include "task/sizes.h"

static _Atomic uint64_t asked, items;
static uint32_t moved; /* offset that changes all kernels */

/* Kernel 16 * k has k parameters with 1, 2, ... bytes. */
bool shim_param_size(const void *func, uint32_t i, size_t *size)
{
	asked++;
	*size = i + 1 + moved;
	return i < (uint64_t)func / 16;
}

void shim_array_item(struct shim_call *c, uint8_t param, uint32_t i, const void *p, uint64_t len)
{
	(void)c, (void)p;
	items++;
	if (param != 7 || len != (i & 255) + 1 + moved || i >> 8 != 2)
		abort();
}

static void *args[64];

static void launch(uint64_t kernel) { shim_args_array(NULL, 7, 512, (void *)(16 * kernel), args); }

static void say(const char *what)
{
	printf("%s: asked %lu, recorded %lu\n", what, (unsigned long)asked, (unsigned long)items);
	asked = items = 0;
}

static void *many(void *seed)
{
	unsigned x = (unsigned)(uint64_t)seed;
	for (int i = 0; i < 20000; i++) {
		x = x * 1664525 + 1013904223;
		launch(1 + x / 65536 % 50);
		if (x / 65536 % 64 == 0)
			shim_functions_end();
	}
	return NULL;
}

int main(void)
{
	launch(4);
	say("first");
	launch(4), launch(4);
	say("again");
	shim_functions_end();
	moved = 8;
	launch(4), launch(4);
	say("after an end");
	launch(24), launch(24);
	say("in two lines");
	shim_args_array(NULL, 7, 0, (void *)64, NULL);
	say("without arguments");
		/* More kernels than there is room for. */
	for (int round = 0; round < 2; round++)
		for (uint64_t k = 0; k < 3 * SHIM_KERNELS; k++)
			shim_sizes_keep(k << 8 | 1, 0, &(struct shim_sizes){.count = 1, .size = {(uint16_t)k}});
	uint64_t known = 0;
	for (uint64_t k = 0; k < 3 * SHIM_KERNELS; k++) {
		struct shim_sizes s;
		if (shim_sizes_known(k << 8 | 1, &s)) {
			known++;
			if (s.count != 1 || s.size[0] != (uint16_t)k)
				abort();
		}
	}
	printf("%s\n", known > SHIM_KERNELS / 2 && known <= SHIM_KERNELS ? "full" : "not full");
	shim_functions_end();
	pthread_t t[4];
	for (uint64_t i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	return 0;
}
