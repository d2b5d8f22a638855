/* Conversions between float and the two 16-bit types, rounded to nearest even. */
#ifndef ACLSIM_HALF_H
#define ACLSIM_HALF_H

#include <stdint.h>
#include <string.h>

static float bits_float(uint32_t b)
{
	float f;

	memcpy(&f, &b, sizeof f);
	return f;
}

static uint32_t float_bits(float f)
{
	uint32_t b;

	memcpy(&b, &f, sizeof b);
	return b;
}

static float from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;

	if (rest >= 0x7c00) /* infinity or NaN */
		return bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	if (rest >= 0x400)
		return bits_float(sign | ((rest << 13) + (112u << 23)));
	return bits_float(sign | float_bits((float)rest * 0x1p-24f));
}

static uint16_t to_f16(float f)
{
	uint32_t b = float_bits(f), sign = b >> 16 & 0x8000, rest = b & 0x7fffffff;

	if (rest > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (rest >= 0x477ff000) /* rounds to more than the largest */
		return (uint16_t)(sign | 0x7c00);
	if (rest < 0x38800000) /* below the smallest normal number: a sum with 0.5 rounds to multiples of 2^-24 */
		return (uint16_t)(sign | (float_bits(bits_float(rest) + 0.5f) - 0x3f000000));
	rest += 0xfff + (rest >> 13 & 1);
	return (uint16_t)(sign | ((rest - (112u << 23)) >> 13));
}

static float from_bf16(uint16_t h) { return bits_float((uint32_t)h << 16); }

static uint16_t to_bf16(float f)
{
	uint32_t b = float_bits(f);

	if ((b & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(b >> 16 | 0x40);
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

#endif
