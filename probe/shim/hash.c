/*
 * XXH3-128 of a payload that is too large to be kept, where it lies. The recorder and the trace file use the same hash,
 * so a payload that was only hashed is known again in a trace that has it whole. Only inputs above 240 bytes: the
 * algorithm has other ways for shorter ones. The constants are those of its specification.
 */
#include "shim.h"

#define STRIPE 64
#define SECRET 192
#define STRIPES_PER_BLOCK ((SECRET - STRIPE) / 8)
#define BLOCK (STRIPE * STRIPES_PER_BLOCK)

#define P32_1 0x9E3779B1U
#define P32_2 0x85EBCA77U
#define P32_3 0xC2B2AE3DU
#define P64_1 0x9E3779B185EBCA87ULL
#define P64_2 0xC2B2AE3D27D4EB4FULL
#define P64_3 0x165667B19E3779F9ULL
#define P64_4 0x85EBCA77C2B2AE63ULL
#define P64_5 0x27D4EB2F165667C5ULL

static const uint64_t secret_words[SECRET / 8] = {
	0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82,
	0x8e2443f7744608b8, 0x4c263a81e69035e0, 0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
	0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8, 0xc3ebd33483acc5ea, 0xeb6313faffa081c5,
	0x49daf0b751dd0d17, 0x9e68d429265516d3, 0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
};
#define KEY ((const uint8_t *)secret_words)

typedef uint64_t word __attribute__((may_alias, aligned(1)));

static inline uint64_t at(const uint8_t *p) { return *(const word *)p; }

/* Four lanes at a time is what the compiler can turn into vectors. */
__attribute__((optimize("O3"))) static void stripes(uint64_t acc[8], const uint8_t *p, const uint8_t *key, unsigned n)
{
	for (unsigned s = 0; s < n; s++, p += STRIPE, key += 8) {
		uint64_t value[8], mixed[8];
		/* The processor's own prefetching ends at each page: the next one is asked for here. */
		__builtin_prefetch(p + 4096);
		for (int i = 0; i < 8; i++) {
			value[i] = at(p + 8 * i);
			mixed[i] = value[i] ^ at(key + 8 * i);
		}
		for (int i = 0; i < 8; i++)
			acc[i] += value[i ^ 1] + (mixed[i] & 0xffffffffU) * (mixed[i] >> 32);
	}
}

static void scramble(uint64_t acc[8])
{
	for (int i = 0; i < 8; i++)
		acc[i] = (acc[i] ^ acc[i] >> 47 ^ at(KEY + SECRET - STRIPE + 8 * i)) * P32_1;
}

static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t merge(const uint64_t acc[8], const uint8_t *key, uint64_t start)
{
	uint64_t h = start;
	for (int i = 0; i < 4; i++)
		h += fold(acc[2 * i] ^ at(key + 16 * i), acc[2 * i + 1] ^ at(key + 16 * i + 8));
	h ^= h >> 37;
	h *= 0x165667919E3779F9ULL;
	return h ^ h >> 32;
}

bool shim_hash(const void *data, uint64_t len, bool careful, uint64_t out[2])
{
	uint64_t acc[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
	const uint8_t *p = data;
	uint64_t blocks = (len - 1) / BLOCK;
	/* Memory that may not be there comes through a copy, some blocks at a time. */
	uint8_t copy[4 * BLOCK];
	for (uint64_t i = 0; i < blocks;) {
		uint64_t k = blocks - i < 4 ? blocks - i : 4;
		const uint8_t *from = p + i * BLOCK;
		if (careful) {
			if (!shim_careful_copy(copy, from, k * BLOCK))
				return false;
			from = copy;
		}
		for (uint64_t j = 0; j < k; j++) {
			stripes(acc, from + j * BLOCK, KEY, STRIPES_PER_BLOCK);
			scramble(acc);
		}
		i += k;
	}
	const uint8_t *rest = p + blocks * BLOCK, *last = p + len - STRIPE;
	uint64_t left = len - blocks * BLOCK;
	if (careful) {
		if (!shim_careful_copy(copy, rest, left) || !shim_careful_copy(copy + BLOCK, last, STRIPE))
			return false;
		rest = copy;
		last = copy + BLOCK;
	}
	stripes(acc, rest, KEY, (unsigned)((left - 1) / STRIPE));
	stripes(acc, last, KEY + SECRET - STRIPE - 7, 1);
	out[0] = merge(acc, KEY + 11, len * P64_1);
	out[1] = merge(acc, KEY + SECRET - STRIPE - 11, ~(len * P64_2));
	return true;
}
