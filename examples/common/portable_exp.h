/* e^x from additions and multiplications only. The C library's expf may differ in the last bit from one machine to the
 * next, and the examples' results are compared bit by bit, also with recordings from other machines. */
#ifndef PORTABLE_EXP_H
#define PORTABLE_EXP_H

#include <stdint.h>
#include <string.h>

static inline float portable_exp(float x)
{
	float k, r, p, scale;
	uint32_t bits;

	if (x < -87.0f)
		return 0.0f;
	if (x > 88.0f)
		x = 88.0f;
	/* x = k ln 2 + r with |r| <= (ln 2) / 2; ln 2 is split into two parts: k times the first one is exact. */
	k = (float)(int32_t)(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
	r = x - k * 0.693359375f;
	r = r - k * -2.12194440e-4f;
	p = 1.0f / 720;
	p = p * r + 1.0f / 120;
	p = p * r + 1.0f / 24;
	p = p * r + 1.0f / 6;
	p = p * r + 0.5f;
	p = p * r + 1.0f;
	p = p * r + 1.0f;
	bits = (uint32_t)((int32_t)k + 127) << 23;
	memcpy(&scale, &bits, sizeof scale);
	return p * scale;
}

#endif
