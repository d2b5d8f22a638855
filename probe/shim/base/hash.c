/*
 * XXH3-128, for payloads that are too large to record. The recorder and the trace file use the same hash, so such a payload can be found in another
 * trace. Inputs up to 240 bytes are not supported: the algorithm treats them differently. The constants are from its specification.
 */
#include "base/hash.h"

#include "base/copy.h"
#include "base/state.h"

#define STRIPE 64
#define SECRET 192
#define STRIPES_PER_BLOCK ((SECRET - STRIPE) / 8)
#define BLOCK (STRIPE * STRIPES_PER_BLOCK)
#define AT_ONCE 256 /* blocks that are found readable, and then read */

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

/*
 * The loop over blocks, in the widest vectors that the processor has. A recorded copy spends most of its time here. For x86-64 it is written with
 * intrinsics, which are three times as fast as compiled plain C.
 */
#define PREFETCH 4096 /* bytes: the processor's own prefetching stops at each page */

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* SSE2, two lanes in a vector: all processors have it. */
typedef __m128i_u two __attribute__((may_alias));

static SHIM_INLINE __m128i two_lanes(__m128i acc, __m128i value, __m128i key)
{
	__m128i mixed = _mm_xor_si128(value, key);
	return _mm_add_epi64(acc, _mm_add_epi64(_mm_shuffle_epi32(value, 0x4e), _mm_mul_epu32(mixed, _mm_shuffle_epi32(mixed, 0x31))));
}

static void blocks_of_two(uint64_t acc[8], const uint8_t *p, uint64_t n)
{
	const __m128i prime = _mm_set1_epi64x(P32_1);
	const two *last = (const two *)(KEY + SECRET - STRIPE);
	two *at = (two *)acc;
	__m128i a = at[0], b = at[1], c = at[2], d = at[3];
	for (; n != 0; n--) {
		for (unsigned s = 0; s < STRIPES_PER_BLOCK; s++, p += STRIPE) {
			const two *v = (const two *)p, *k = (const two *)(KEY + 8 * s);
			__builtin_prefetch(p + PREFETCH);
			a = two_lanes(a, v[0], k[0]);
			b = two_lanes(b, v[1], k[1]);
			c = two_lanes(c, v[2], k[2]);
			d = two_lanes(d, v[3], k[3]);
		}
#define SCRAMBLE(x, i) \
	x = _mm_xor_si128(_mm_xor_si128(x, _mm_srli_epi64(x, 47)), last[i]); \
	x = _mm_add_epi64(_mm_mul_epu32(x, prime), _mm_slli_epi64(_mm_mul_epu32(_mm_srli_epi64(x, 32), prime), 32))
		SCRAMBLE(a, 0);
		SCRAMBLE(b, 1);
		SCRAMBLE(c, 2);
		SCRAMBLE(d, 3);
#undef SCRAMBLE
	}
	at[0] = a, at[1] = b, at[2] = c, at[3] = d;
}

/* AVX2, four lanes. The compiler clears the upper halves of the registers at the end. */
typedef __m256i_u four __attribute__((may_alias));
#define AVX2 __attribute__((target("avx2")))

AVX2 static SHIM_INLINE __m256i four_lanes(__m256i acc, __m256i value, __m256i key)
{
	__m256i mixed = _mm256_xor_si256(value, key);
	return _mm256_add_epi64(acc, _mm256_add_epi64(_mm256_shuffle_epi32(value, 0x4e), _mm256_mul_epu32(mixed, _mm256_shuffle_epi32(mixed, 0x31))));
}

AVX2 static void blocks_of_four(uint64_t acc[8], const uint8_t *p, uint64_t n)
{
	const __m256i prime = _mm256_set1_epi64x(P32_1);
	const four *last = (const four *)(KEY + SECRET - STRIPE);
	four *at = (four *)acc;
	__m256i a = at[0], b = at[1];
	for (; n != 0; n--) {
		for (unsigned s = 0; s < STRIPES_PER_BLOCK; s++, p += STRIPE) {
			const four *v = (const four *)p, *k = (const four *)(KEY + 8 * s);
			__builtin_prefetch(p + PREFETCH);
			a = four_lanes(a, v[0], k[0]);
			b = four_lanes(b, v[1], k[1]);
		}
#define SCRAMBLE(x, i) \
	x = _mm256_xor_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, 47)), last[i]); \
	x = _mm256_add_epi64(_mm256_mul_epu32(x, prime), _mm256_slli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), prime), 32))
		SCRAMBLE(a, 0);
		SCRAMBLE(b, 1);
#undef SCRAMBLE
	}
	at[0] = a, at[1] = b;
}

/* Whether processor and kernel support AVX2. Asked once, since cpuid is slow in a virtual machine. */
static bool has_avx2(void)
{
	enum { OSXSAVE = 1 << 27, AVX = 1 << 28, VECTORS = 6 /* of XCR0: both halves are saved */ };
	static uint32_t known; /* atomic; 0 not yet, 1 no, 2 yes */
	uint32_t k = __atomic_load_n(&known, __ATOMIC_RELAXED), a, b, c, d;
	if (k != 0)
		return k == 2;
	k = 1;
	if (__get_cpuid(1, &a, &b, &c, &d) && (c & (OSXSAVE | AVX)) == (OSXSAVE | AVX)) {
		__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
		if ((a & VECTORS) == VECTORS && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1 << 5) != 0)
			k = 2;
	}
	__atomic_store_n(&known, k, __ATOMIC_RELAXED);
	return k == 2;
}
#endif

static void stripes(uint64_t acc[8], const uint8_t *p, const uint8_t *key, unsigned n)
{
	for (unsigned s = 0; s < n; s++, p += STRIPE, key += 8) {
		uint64_t value[8], mixed[8];
		__builtin_prefetch(p + PREFETCH);
		for (int i = 0; i < 8; i++) {
			value[i] = at(p + 8 * i);
			mixed[i] = value[i] ^ at(key + 8 * i);
		}
		for (int i = 0; i < 8; i++)
			acc[i] += value[i ^ 1] + (mixed[i] & 0xffffffffU) * (mixed[i] >> 32);
	}
}

/* O3: the compiler vectorizes the loops over lanes. */
__attribute__((optimize("O3"))) static void plain_blocks(uint64_t acc[8], const uint8_t *p, uint64_t n)
{
	for (; n != 0; n--, p += BLOCK) {
		stripes(acc, p, KEY, STRIPES_PER_BLOCK);
		for (int i = 0; i < 8; i++)
			acc[i] = (acc[i] ^ acc[i] >> 47 ^ at(KEY + SECRET - STRIPE + 8 * i)) * P32_1;
	}
}

enum shim_vectors shim_hash_vectors(void)
{
#if defined(__x86_64__)
	return has_avx2() ? VECTORS_OF_FOUR : VECTORS_OF_TWO;
#else
	return VECTORS_PLAIN;
#endif
}

static void blocks(enum shim_vectors v, uint64_t acc[8], const uint8_t *p, uint64_t n)
{
#if defined(__x86_64__)
	if (v == VECTORS_OF_FOUR) {
		blocks_of_four(acc, p, n);
		return;
	}
	if (v == VECTORS_OF_TWO) {
		blocks_of_two(acc, p, n);
		return;
	}
#endif
	(void)v;
	plain_blocks(acc, p, n);
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

bool shim_hash_by(enum shim_vectors v, const void *data, uint64_t len, bool careful, uint64_t out[2])
{
	uint64_t acc[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
	const uint8_t *p = data;
	uint64_t whole = (len - 1) / BLOCK;
	const uint8_t *rest = p + whole * BLOCK, *last = p + len - STRIPE;
	uint64_t left = len - whole * BLOCK;
	for (uint64_t i = 0, k; i < whole; i += k) {
		k = !careful || whole - i < AT_ONCE ? whole - i : AT_ONCE;
		if (careful && !shim_readable(p + i * BLOCK, k * BLOCK))
			return false;
		blocks(v, acc, p + i * BLOCK, k);
	}
	if (careful && !shim_readable(rest, left))
		return false;
	stripes(acc, rest, KEY, (unsigned)((left - 1) / STRIPE));
	stripes(acc, last, KEY + SECRET - STRIPE - 7, 1);
	out[0] = merge(acc, KEY + 11, len * P64_1);
	out[1] = merge(acc, KEY + SECRET - STRIPE - 11, ~(len * P64_2));
	return true;
}

bool shim_hash(const void *data, uint64_t len, bool careful, uint64_t out[2])
{
	return shim_hash_by(shim_hash_vectors(), data, len, careful, out);
}
