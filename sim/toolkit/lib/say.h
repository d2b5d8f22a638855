/* Messages of the toolkit's libraries. */
#ifndef TOOLKIT_SAY_H
#define TOOLKIT_SAY_H

#include <stdatomic.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

/* Prints a message the first time that this place is reached. */
#define SAY_ONCE(...) \
	do { \
		static atomic_flag said = ATOMIC_FLAG_INIT; \
		if (!atomic_flag_test_and_set(&said)) \
			fprintf(stderr, "aclsim: " __VA_ARGS__); \
	} while (0)

#endif
