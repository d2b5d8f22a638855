/* An OpenACC program with two streams: arrays, two dependent kernels and their results. Built with GCC's offloading. */
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 100000 };

int main(void)
{
	int *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
	for (int i = 0; i < N; i++)
		a[i] = i;
#pragma acc enter data copyin(a[0:N]) create(b[0:N]) async(1)
#pragma acc parallel loop present(a[0:N], b[0:N]) async(1)
	for (int i = 0; i < N; i++)
		b[i] = 3 * a[i] + 1;
#pragma acc parallel loop present(b[0:N]) async(2) wait(1)
	for (int i = 0; i < N; i++)
		b[i] ^= 5;
#pragma acc update self(b[0:N]) async(2)
#pragma acc wait
#pragma acc exit data delete(a, b)
	long sum = 0;
	for (int i = 0; i < N; i++)
		sum = sum * 31 + b[i];
	printf("%lx\n", sum);
	return 0;
}
