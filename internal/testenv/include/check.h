/* CHECK, for test programs in C: a call of the runtime that fails ends the program with 1, and says which and why. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define CHECK(x)                                                                                                \
	do {                                                                                                    \
		int failed_ = (x);                                                                              \
		if (failed_) {                                                                                  \
			const char *why_ = aclGetRecentErrMsg();                                                \
			fprintf(stderr, "%s: %d at line %d: %s\n", #x, failed_, __LINE__, why_ ? why_ : "no text"); \
			exit(1);                                                                                \
		}                                                                                               \
	} while (0)

#endif
