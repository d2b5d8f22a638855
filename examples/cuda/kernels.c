/* The kernels of kernels.h for the fake driver. They have no access to module variables, so table is a constant. */
#include <fakecuda.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static uint32_t threads(const struct fakecuda_launch *l, uint32_t n)
{
	uint64_t all = (uint64_t)l->grid[0] * l->block[0];
	return all < n ? (uint32_t)all : n;
}

EXPORT void add(const struct fakecuda_launch *l)
{
	uint64_t at[3];
	uint32_t n;
	float *p[3];
	memcpy(&n, l->params[3], sizeof n);
	n = threads(l, n);
	for (int i = 0; i < 3; i++) {
		memcpy(&at[i], l->params[i], sizeof at[i]);
		if ((p[i] = l->memory(at[i], 4ULL * n)) == NULL)
			return;
	}
	for (uint32_t i = 0; i < n; i++)
		p[2][i] = p[0][i] + p[1][i];
}

EXPORT void sum(const struct fakecuda_launch *l)
{
	uint64_t at;
	uint32_t sum = 0, *out;
	memcpy(&at, l->params[0], sizeof at);
	if ((out = l->memory(at, sizeof *out)) == NULL)
		return;
	for (uint32_t i = 1; i < l->count; i++) {
		uint32_t v;
		memcpy(&v, l->params[i], sizeof v);
		sum += v;
	}
	*out = sum;
}

EXPORT void scale(const struct fakecuda_launch *l)
{
	uint64_t at;
	uint32_t n;
	float f, *x;
	memcpy(&at, l->params[0], sizeof at);
	memcpy(&f, l->params[1], sizeof f);
	memcpy(&n, l->params[2], sizeof n);
	n = threads(l, n);
	if ((x = l->memory(at, 4ULL * n)) == NULL)
		return;
	for (uint32_t i = 0; i < n; i++)
		x[i] = x[i] * f;
}
