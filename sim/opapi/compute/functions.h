/*
 * Functions of real numbers that have the same bits on every processor: they add, multiply and divide in a fixed order.
 *
 * Errors, in units in the last place of a double: exp and log 2, sin, cos, tanh and erf 3, pow 8 + 2 |y log x|.
 * TestFunctions measures them. Results are rounded once more, to the type of the operator's result.
 */
#ifndef COMPUTE_FUNCTIONS_H
#define COMPUTE_FUNCTIONS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const double LN2_HI = 0x1.62e42fee00000p-1, LN2_LO = 0x1.a39ef35793c76p-33; /* their sum is log 2; the first has 32 bits */

/* A sum with ROUNDER rounds a number below 2^51 to a whole one, which the low bits of the sum have. */
static const double ROUNDER = 0x1.8p52;

static inline uint64_t own_bits(double x)
{
	uint64_t b;

	memcpy(&b, &x, sizeof b);
	return b;
}

static inline double own_double(uint64_t b)
{
	double x;

	memcpy(&x, &b, sizeof x);
	return x;
}

/* 2^k for a whole number that ROUNDER was added to, -1022 <= k <= 1023 */
static inline double own_power_of_2(double k) { return own_double((own_bits(k) << 52) + (UINT64_C(1023) << 52)); }

/* exp(r) - 1 for |r| <= log(2) / 2, by its series */
static inline double own_expm1_series(double r)
{
	double p = 1 / 6227020800.;

	p = p * r + 1 / 479001600.;
	p = p * r + 1 / 39916800.;
	p = p * r + 1 / 3628800.;
	p = p * r + 1 / 362880.;
	p = p * r + 1 / 40320.;
	p = p * r + 1 / 5040.;
	p = p * r + 1 / 720.;
	p = p * r + 1 / 120.;
	p = p * r + 1 / 24.;
	p = p * r + 1 / 6.;
	p = p * r + 0.5;
	return p * r * r + r;
}

static inline double own_exp(double x)
{
	x = x > 710 ? 710 : x < -746 ? -746 : x;
	double k = (x * 0x1.71547652b82fep+0 + ROUNDER) - ROUNDER;
	double half = (k * 0.5 + ROUNDER) - ROUNDER;
	double p = 1 + own_expm1_series((x - k * LN2_HI) - k * LN2_LO);
	return p * own_power_of_2(half + ROUNDER) * own_power_of_2((k - half) + ROUNDER);
}

static inline double own_tanh(double x)
{
	double y = fabs(x);

	y = y > 22 ? 44 : 2 * y;
	double k = (y * 0x1.71547652b82fep+0 + ROUNDER) - ROUNDER, power = own_power_of_2(k + ROUNDER);
	double e = own_expm1_series((y - k * LN2_HI) - k * LN2_LO) * power + (power - 1);
	return copysign(e / (e + 2), x);
}

static inline double own_sigmoid(double x) { return 1 / (1 + own_exp(-x)); }

static inline double own_log(double x)
{
	double scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
	uint64_t b = own_bits(scaled);
	/* scaled = m 2^k, with m from sqrt(1/2) to sqrt(2) */
	int64_t k = (int64_t)(b - UINT64_C(0x3fe6a09e667f3bcd)) >> 52;
	double m = own_double(b - ((uint64_t)k << 52)), s = (m - 1) / (m + 1), q = s * s, p = 1 / 23.;
	double e = (double)k - (x < 0x1p-1022 ? 54 : 0);

	p = p * q + 1 / 21.;
	p = p * q + 1 / 19.;
	p = p * q + 1 / 17.;
	p = p * q + 1 / 15.;
	p = p * q + 1 / 13.;
	p = p * q + 1 / 11.;
	p = p * q + 1 / 9.;
	p = p * q + 1 / 7.;
	p = p * q + 1 / 5.;
	p = p * q + 1 / 3.;
	double y = e * LN2_HI + (2 * s + (2 * s * q * p + e * LN2_LO));
	return x > 0 && x < INFINITY ? y : x == 0 ? -INFINITY : x < 0 ? NAN : x;
}

double own_erf(double x);
double own_sin(double x);
double own_cos(double x);
double own_pow(double x, double y);

#endif
