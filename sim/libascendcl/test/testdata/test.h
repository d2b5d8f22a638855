/* Shared by the test programs. */
#ifndef TEST_H
#define TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define WANT(code, call)                                                                                              \
	do {                                                                                                          \
		aclError want_ = (code), got_ = (call);                                                               \
		if (want_ != got_) {                                                                                  \
			const char *why_ = aclGetRecentErrMsg();                                                      \
			fprintf(stderr, "%s:%d: %s returned %d, not %d: %s\n", __FILE__, __LINE__, #call, got_, want_, \
				why_ ? why_ : "");                                                                    \
			exit(1);                                                                                      \
		}                                                                                                     \
	} while (0)

#define OK(call) WANT(ACL_SUCCESS, call)

#define CHECK(cond)                                                                     \
	do {                                                                            \
		if (!(cond)) {                                                          \
			fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #cond); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

#endif
