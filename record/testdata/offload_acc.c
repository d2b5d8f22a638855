/*
 * OpenACC, compiled by GCC: two queues that wait for each other, parts of an array that are copied to the device and back, and memory
 * that the program manages by itself. Each function has one region, whose kernel gets the address of one array. Built with KERNEL as these
 * kernels, for the fake driver.
 */
enum { N = 5000, PART = 1000 };

#ifdef KERNEL
#include <fakecuda.h>
#include <string.h>

static void *mapped(const struct fakecuda_launch *l, size_t bytes)
{
	uint64_t at, *list;
	memcpy(&at, l->params[0], sizeof at);
	return (list = l->memory(at, sizeof *list)) ? l->memory(*list, bytes) : NULL;
}

void square$_omp_fn$0(const struct fakecuda_launch *l)
{
	float *v = mapped(l, N * sizeof *v);
	for (int i = 0; v && i < N; i++)
		v[i] *= v[i];
}

void half$_omp_fn$0(const struct fakecuda_launch *l)
{
	float *v = mapped(l, N * sizeof *v);
	for (int i = 0; v && i < N; i++)
		v[i] /= 2;
}
#else
#include <openacc.h>
#include <stdlib.h>

#include "must.h"

__attribute__((noinline)) static void square(float *v, int queue)
{
	#pragma acc parallel loop present(v[0:N]) async(queue)
	for (int i = 0; i < N; i++)
		v[i] *= v[i];
}

__attribute__((noinline)) static void half(float *v, int queue)
{
	#pragma acc parallel loop copy(v[0:N]) async(queue)
	for (int i = 0; i < N; i++)
		v[i] /= 2;
}

int main(void)
{
	float *v = malloc(N * sizeof *v), *w = malloc(N * sizeof *w), part[PART];
	MUST(acc_get_num_devices(acc_device_nvidia) == 1);
	acc_set_device_type(acc_device_nvidia);
	for (int i = 0; i < N; i++)
		v[i] = w[i] = i % 50;
	#pragma acc enter data copyin(v[0:N]) async(1)
	square(v, 1);
	#pragma acc wait(1) async(2)
	square(v, 2);
	#pragma acc update self(v[PART:PART]) async(2)
	#pragma acc wait(2)
	for (int i = PART; i < 2 * PART; i++) {
		MUST(v[i] == w[i] * w[i] * w[i] * w[i]);
		v[i] = 3;
	}
	#pragma acc update device(v[PART:PART])
	square(v, acc_async_sync);
	#pragma acc exit data copyout(v[0:N]) async(1)
	#pragma acc wait
	for (int i = 0; i < N; i++) {
		float x = w[i] * w[i] * w[i] * w[i];
		MUST(v[i] == (i >= PART && i < 2 * PART ? 9 : x * x));
	}
	half(w, 1);
	#pragma acc wait(1)
	for (int i = 0; i < N; i++)
		MUST(w[i] == (i % 50) / 2.f);
	/* By hand. */
	float *d = acc_malloc(N * sizeof *d);
	acc_memcpy_to_device(d, v, N * sizeof *d);
	acc_memcpy_from_device(part, d + N - PART, sizeof part);
	for (int i = 0; i < PART; i++)
		MUST(part[i] == v[N - PART + i]);
	acc_free(d);
	free(v), free(w);
	acc_shutdown(acc_device_nvidia);
	return 0;
}
#endif
