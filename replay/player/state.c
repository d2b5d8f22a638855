#define _GNU_SOURCE
#include "player.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct player P;

__attribute__((format(printf, 1, 2), noreturn)) void refuse(const char *format, ...)
{
	va_list a;
	va_start(a, format);
	if (P.result != NULL) {
		vsnprintf(P.result->error, sizeof P.result->error, format, a);
		__atomic_store_n(&P.result->status, RUN_REFUSED, __ATOMIC_RELEASE);
	} else {
		vfprintf(stderr, format, a);
		fputc('\n', stderr);
	}
	_exit(1);
}
