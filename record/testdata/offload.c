/*
 * OpenMP for a device, compiled by GCC, whose runtime calls the driver. The device's results are compared with the host's. Each function
 * has one region, whose kernel gets the address of one array. Built with KERNEL as these kernels, for the fake driver.
 */
enum { N = 5000, THREADS = 4, ROUNDS = 5 };

#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

/* The first parameter points to the addresses of mapped memory. */
static void *mapped(const struct fakecuda_launch *l, size_t bytes)
{
	uint64_t at, *list;
	memcpy(&at, l->params[0], sizeof at);
	return (list = l->memory(at, sizeof *list)) ? l->memory(*list, bytes) : NULL;
}

void add$_omp_fn$0(const struct fakecuda_launch *l)
{
	double *v = mapped(l, 2 * N * sizeof *v);
	int *scales = l->variable("scales", 4 * sizeof *scales);
	for (int i = 0; v && scales && i < N; i++)
		v[N + i] += scales[i % 4] * v[i];
}

void twice$_omp_fn$0(const struct fakecuda_launch *l)
{
	int *a = mapped(l, N * sizeof *a);
	for (int i = 0; a && i < N; i++)
		a[i] = 2 * a[i] + 1;
}

void count$_omp_fn$0(const struct fakecuda_launch *l)
{
	int *counter = l->variable("counter", sizeof *counter);
	if (counter)
		*counter += 42;
}
#else
#include <omp.h>
#include <stdlib.h>

#include "must.h"

int scales[4] = {1, -2, 3, 0x40000000}, counter;
#pragma omp declare target to(scales, counter)

__attribute__((noinline)) static void add(double *v)
{
	#pragma omp target map(tofrom: v[0:2 * N])
	for (int i = 0; i < N; i++)
		v[N + i] += scales[i % 4] * v[i];
}

__attribute__((noinline)) static void twice(int *a)
{
	#pragma omp target map(tofrom: a[0:N]) nowait depend(inout: a[0])
	for (int i = 0; i < N; i++)
		a[i] = 2 * a[i] + 1;
}

__attribute__((noinline)) static void count(void)
{
	#pragma omp target
	counter += 42;
}

/* Memory that is mapped once and used often. A part is copied back and changed in between. */
static void vector(int seed)
{
	double *v = malloc(2 * N * sizeof *v), *w = malloc(2 * N * sizeof *w);
	for (int i = 0; i < N; i++)
		v[i] = w[i] = i % 97 + seed, v[N + i] = w[N + i] = i % 11;
	#pragma omp target data map(tofrom: v[0:2 * N])
	for (int k = 0; k < ROUNDS; k++) {
		add(v);
		for (int i = 0; i < N; i++)
			w[N + i] += scales[i % 4] * w[i];
		#pragma omp target update from(v[N + 10:100])
		for (int i = N + 10; i < N + 110; i++) {
			MUST(v[i] == w[i]);
			v[i] = w[i] = w[i] / 2;
		}
		#pragma omp target update to(v[N + 10:100])
	}
	for (int i = 0; i < 2 * N; i++)
		MUST(v[i] == w[i]);
	free(v), free(w);
}

/* Memory that the program manages by itself, and two-dimensional parts. */
static void by_hand(void)
{
	enum { ROWS = 20, COLUMNS = 30 };
	int device = omp_get_default_device(), host = omp_get_initial_device();
	float m[ROWS][COLUMNS], back[ROWS][COLUMNS] = {{0}};
	size_t part[2] = {10, 12}, to[2] = {2, 3}, from[2] = {5, 6}, whole[2] = {ROWS, COLUMNS};
	for (int i = 0; i < ROWS * COLUMNS; i++)
		m[i / COLUMNS][i % COLUMNS] = i;
	float *d = omp_target_alloc(2 * sizeof m, device);
	MUST(d && omp_target_memcpy(d, m, sizeof m, 0, 0, device, host) == 0);
	MUST(omp_target_memcpy(d, d, sizeof m, sizeof m, 0, device, device) == 0);
	MUST(omp_target_memcpy_rect(d, m, sizeof(float), 2, part, to, from, whole, whole, device, host) == 0);
	MUST(omp_target_memcpy_rect(back, d, sizeof(float), 2, part, from, to, whole, whole, host, device) == 0);
	for (int i = 5; i < 15; i++)
		for (int j = 6; j < 18; j++)
			MUST(back[i][j] == m[i][j]);
	MUST(omp_target_memcpy(back, d, sizeof m, 0, sizeof m, host, device) == 0);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		MUST(back[i / COLUMNS][i % COLUMNS] == i);
	omp_target_free(d, device);
}

int main(void)
{
	int *a = malloc(N * sizeof *a);
	MUST(omp_get_num_devices() == 1);
	vector(1);
	#pragma omp parallel for num_threads(THREADS) schedule(static, 1)
	for (int t = 0; t < THREADS; t++)
		vector(t);
	by_hand();
	/* Tasks that wait for each other, not for the program. */
	for (int i = 0; i < N; i++)
		a[i] = i;
	#pragma omp parallel num_threads(2)
	#pragma omp single
	for (int k = 0; k < ROUNDS; k++)
		twice(a);
	for (int i = 0; i < N; i++)
		MUST(a[i] == (i + 1) * (1 << ROUNDS) - 1);
	count();
	#pragma omp target update from(counter)
	MUST(counter == 42);
	free(a);
	return 0;
}
#endif
