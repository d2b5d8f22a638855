/* The median of a benchmark's rounds. */
#ifndef ACLTRACE_BENCH_MEDIAN_H
#define ACLTRACE_BENCH_MEDIAN_H

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Sorts the values. */
static double median(double *of, int n)
{
	qsort(of, (size_t)n, sizeof *of, ascending);
	return of[n / 2];
}

#endif
