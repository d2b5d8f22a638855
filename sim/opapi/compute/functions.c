/* Functions of real numbers with tables or branches. */
#include "functions.h"

/* A polynomial with coefficients from that of the highest power. */
static double polynomial(const double *c, int n, double x)
{
	double p = c[n - 1];

	for (int i = n - 2; i >= 0; i--)
		p = p * x + c[i];
	return p;
}

/* Chebyshev interpolations: of erf(x) / x in x^2 for x to 1, and of exp(x^2) erfc(x) in (x - 3) / (x + 3), mapped to -1 ... 1, for x from 1 to 28. */
double own_erf(double x)
{
	static const double small[] = {0x1.20dd750429b6dp+0, -0x1.812746b0379e7p-2, 0x1.ce2f21a042bdep-4, -0x1.b82ce312889bap-6, 0x1.565bcd0e6502dp-8, -0x1.c02db3feeb579p-11, 0x1.f9a326c233146p-14,
		-0x1.f4d2561aeafd4p-17, 0x1.b9e6509b9867dp-20, -0x1.5f6d925a0bc7ap-23, 0x1.fc4356498c2d9p-27, -0x1.4e607b41a6416p-30, 0x1.7f072188e194dp-34, -0x1.29b9f1b3df556p-38};
	static const double large[] = {0x1.13001a02714f4p-3, -0x1.5c994f412bdebp-3, 0x1.44d49647167e5p-4, -0x1.fda7b1bffaaddp-6, 0x1.4573217860733p-7, -0x1.3b7153d0a2f3dp-9, 0x1.7b544af7c8323p-12,
		0x1.094f0765eacb9p-19, -0x1.09089f7b256b5p-16, 0x1.612c51beda71bp-19, 0x1.f218e3613f036p-22, -0x1.baac11f909787p-23, -0x1.6f1255dc46992p-27, 0x1.f285e553e36d6p-27,
		0x1.58d43ccceec69p-33, -0x1.2cbe27c7d2332p-30, -0x1.cd610e87c8fbbp-37, 0x1.8c5cbb06e7a71p-34, 0x1.34984834c6f4dp-38, -0x1.10e16b496a63bp-37, -0x1.bdfcb0a61035bp-41,
		0x1.5f56c262ebec2p-41, 0x1.437f03a6df373p-44, -0x1.36c1a88913a2cp-45};
	double y = fabs(x);

	if (y < 1)
		return x * polynomial(small, 14, x * x);
	if (y > 6)
		return copysign(1, x);
	return copysign(1 - own_exp(-y * y) * polynomial(large, 24, ((y - 3) / (y + 3) - 0x1.39ce739ce739dp-3) * 0x1.87e6b74f03291p+0), x);
}

/* The bits of 2 / pi after its point. */
static const uint64_t TWO_OVER_PI[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
	0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea,
	0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};

static uint64_t bits_from(int at) { return TWO_OVER_PI[at / 64] << at % 64 | (at % 64 ? TWO_OVER_PI[at / 64 + 1] >> (64 - at % 64) : 0); }

/* For a finite x from 2^20 on: bits of 2 / pi that only add multiples of 2 pi are left out, and the product with 192 of the others is exact. */
static double reduce_large(double x, unsigned *quadrant)
{
	uint64_t b = own_bits(x), m = (b & UINT64_C(0xfffffffffffff)) | UINT64_C(1) << 52;
	int e = (int)(b >> 52 & 0x7ff) - 1075, skipped = e > 2 ? e - 2 : 0;
	uint64_t words[4];
	unsigned __int128 carry = 0;

	for (int i = 2; i >= 0; i--) {
		carry += (unsigned __int128)m * bits_from(skipped + 64 * i);
		words[2 - i] = (uint64_t)carry;
		carry >>= 64;
	}
	words[3] = (uint64_t)carry;
	/* The product counts units of 2^(e - skipped - 192). Move it so that the highest two bits are the quadrant. */
	int up = 62 + e - skipped;
	unsigned __int128 high = (unsigned __int128)words[3] << 64 | words[2], low = (unsigned __int128)words[1] << 64 | words[0];
	high = high << up | low >> (128 - up);
	low <<= up;
	*quadrant = (unsigned)(high >> 126);
	__int128 rest = (__int128)(high << 2 | low >> 126);
	if (rest < 0)
		++*quadrant;
	return (double)rest * 0x1p-128 * 0x1.921fb54442d18p+0;
}

/* x less a multiple of pi / 2, at most pi / 4 from 0 */
static double reduce(double x, unsigned *quadrant)
{
	double y = fabs(x), r;

	if (y < 0x1p20) {
		double k = (y * 0x1.45f306dc9c883p-1 + ROUNDER) - ROUNDER;
		*quadrant = (unsigned)k;
		r = ((y - k * 0x1.921fb54400000p+0) - k * 0x1.0b4611a600000p-34) - k * 0x1.3198a2e037073p-69;
	} else {
		r = reduce_large(y, quadrant);
	}
	if (x < 0) {
		r = -r;
		*quadrant = -*quadrant;
	}
	return r;
}

static double circle(double x, unsigned turn)
{
	static const double sines[] = {1, -1 / 6., 1 / 120., -1 / 5040., 1 / 362880., -1 / 39916800., 1 / 6227020800., -1 / 1307674368000., 1 / 355687428096000.};
	static const double cosines[] = {1 / 24., -1 / 720., 1 / 40320., -1 / 3628800., 1 / 479001600., -1 / 87178291200., 1 / 20922789888000., -1 / 6402373705728000.};
	unsigned quadrant;

	if (!(fabs(x) < INFINITY))
		return NAN;
	double r = reduce(x, &quadrant), q = r * r, v;
	quadrant += turn;
	if (quadrant & 1)
		v = 1 - (0.5 * q - q * q * polynomial(cosines, 8, q));
	else
		v = r + r * q * polynomial(sines + 1, 8, q);
	return quadrant & 2 ? -v : v;
}

double own_sin(double x) { return x == 0 ? x : circle(x, 0); }

double own_cos(double x) { return circle(x, 1); }

double own_pow(double x, double y)
{
	if (y == 0 || x == 1)
		return 1;
	if (y == 0.5 && x >= 0)
		return sqrt(x);
	bool whole = y == trunc(y), odd = whole && fabs(y) < 0x1p53 && fmod(y, 2) != 0;
	if (whole && fabs(y) <= 32) {
		double power = 1, base = x;
		for (int n = (int)fabs(y); n; n >>= 1, base *= base)
			if (n & 1)
				power *= base;
		return y < 0 ? 1 / power : power;
	}
	if (x < 0 && !whole && x > -INFINITY && y < INFINITY && y > -INFINITY)
		return NAN;
	if (x == -1 && (y == INFINITY || y == -INFINITY))
		return 1;
	double v = own_exp(y * own_log(fabs(x)));
	return odd && (x < 0 || (x == 0 && signbit(x))) ? -v : v;
}
