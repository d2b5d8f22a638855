/* CHECK, for test programs in C: if a runtime call fails, it prints call and error, and exits with 1. */
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
