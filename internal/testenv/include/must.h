/* MUST, for test programs with any runtime: if a condition is false, it prints the condition and exits with 1. */
#ifndef MUST_H
#define MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(x)                                                         \
	do {                                                            \
		if (!(x)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #x); \
			exit(1);                                        \
		}                                                       \
	} while (0)

#endif
