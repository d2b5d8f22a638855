/* Compares results with the recorded ones. */
#include "player.h"
#include <string.h>

static double number(uint32_t type, const uint8_t *p)
{
	uint16_t h;
	uint32_t w;
	float f;
	double d;
	switch (type) {
	case TYPE_F16: {
		memcpy(&h, p, 2);
		uint32_t e = h >> 10 & 31, m = h & 1023;
		if (e == 0) {
			d = m * 0x1p-24;
			return h >> 15 ? -d : d;
		}
		w = (uint32_t)(h >> 15) << 31 | (e == 31 ? 255 : e + 112) << 23 | m << 13;
		break;
	}
	case TYPE_BF16:
		memcpy(&h, p, 2);
		w = (uint32_t)h << 16;
		break;
	case TYPE_F32:
		memcpy(&w, p, 4);
		break;
	default:
		memcpy(&d, p, 8);
		return d;
	}
	memcpy(&f, &w, 4);
	return f;
}

/* An infinity is near only itself: the distance to any other number is infinite or NaN. */
static bool near(const uint8_t *got, const uint8_t *want)
{
	double a = number(P.plan->tolerance, got), b = number(P.plan->tolerance, want);
	double distance = a < b ? b - a : a - b;
	return a == b || (a != a && b != b) || (distance - distance == 0 && distance <= P.plan->relative * (b < 0 ? -b : b) + P.plan->absolute);
}

/* Notes bytes in one row that differ by more than the tolerance. */
static void compare(const struct plan_template *t, struct result_instruction *r, const uint8_t *got, const uint8_t *want, uint64_t done)
{
	static const uint8_t size[] = {0, 2, 2, 4, 8};
	const bool output = t->want != CHECK_RESULT;
	uint64_t unit = output ? 0 : size[P.plan->tolerance], width = t->width;
	for (uint64_t i = 0; i < width; i++) {
		if (got[i] == want[i])
			continue;
		uint64_t at = unit ? i - i % unit : i;
		if (unit && at + unit <= width && near(got + at, want + at)) {
			r->flags |= RESULT_TOLERATED;
			i = at + unit - 1;
			continue;
		}
		if (r->detail == 0) {
			r->flags |= RESULT_DIFFERS;
			r->detail = __atomic_add_fetch(&P.result->details, 1, __ATOMIC_RELAXED);
			struct result_detail *d = &P.details[r->detail - 1];
			uint64_t from = output && width <= 8 ? 0 : i; /* show a number from its first byte */
			d->first = done + from;
			d->shown = width - from < 16 ? width - from : 16;
			memcpy(d->got, got + from, d->shown);
			memcpy(d->want, want + from, d->shown);
		}
		P.details[r->detail - 1].count++;
	}
}

/* Returns 1 + a kernel name's index in the results, 0 if there is no room for it. */
static uint32_t kernel_number(const char *name)
{
	uint32_t *lock = &P.result->kernels_lock, i;
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		relax();
	for (i = 0; i < P.result->kernels && strcmp(P.kernels[i], name) != 0; i++)
		;
	if (i < KERNEL_NAMES && i == P.result->kernels) {
		strcpy(P.kernels[i], name);
		P.result->kernels++;
	}
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	return i < KERNEL_NAMES ? i + 1 : 0;
}

/*
 * Asks the library whether it vouches for the bytes, and stores the answer in r->flags. Returns a reason that counts only if they differ, or 0.
 */
static uint32_t vouch(const uint8_t *bytes, uint64_t size, struct result_instruction *r)
{
	char kernel[KERNEL_NAME] = "";
	int answer = P.lib.unknown(bytes, size, kernel, sizeof kernel);
	if (answer & MARK_WEAK)
		return (uint32_t)answer & 0xff & ~MARK_WEAK;
	if (answer == 0 || r->flags >> RESULT_REASON_SHIFT)
		return 0;
	uint32_t reason = answer == 1 ? REASON_KERNEL : answer == 2 ? REASON_UNINITIALISED : answer == 3 ? REASON_RACE : answer == 4 ? REASON_CRASH : (uint32_t)answer & 0xff;
	r->flags |= reason << RESULT_REASON_SHIFT | (reason == REASON_KERNEL ? kernel_number(kernel) << RESULT_KERNEL_SHIFT : 0);
	return 0;
}

/* Whether the program may have stored all bytes that differ in a row. */
static bool excused(const struct plan_template *t, const uint8_t *got, const uint8_t *want, uint64_t done)
{
	if (t->want != CHECK_RESULT || !(t->flags & (INST_EXCUSED | INST_SINCE)))
		return false;
	if (t->flags & INST_EXCUSED)
		return true;
	enum { STORED_UNIT = 4 }; /* a task writes whole numbers, of which some bytes may keep their value */
	const uint8_t *before = (const uint8_t *)(uintptr_t)operand(t->operands + 3) + done;
	for (uint64_t i = 0, n; i < t->width; i += n) {
		n = t->width - i < STORED_UNIT ? t->width - i : STORED_UNIT;
		if (memcmp(got + i, want + i, n) != 0 && memcmp(got + i, before + i, n) != 0)
			return false;
	}
	return true;
}

/*
 * Accepts both values of the words that may be addresses. A word of the recorded result gets its relocated value if the replay's result has that. A word may
 * begin before the compared bytes or end after them.
 */
void accept_either(const struct plan_instruction *in, const struct plan_template *t)
{
	const uint8_t *got = (const uint8_t *)(uintptr_t)operand(t->operands);
	uint8_t *want = (uint8_t *)(uintptr_t)operand(t->operands + 1), *data = own_data(in);
	const uint64_t pitch = operand(t->operands + 2), len = t->len, width = t->width;
	for (const struct plan_reloc *l = &P.relocs[in->relocs];; l++) {
		const uint64_t v = P.slots[l->slot] + l->addend, at = (uint64_t)(data + l->at - want);
		const uint8_t *bytes = (const uint8_t *)&v;
		bool relocated = true;
		for (uint64_t i = 0; i < sizeof v; i++) /* at + i wraps around before the first byte */
			relocated &= at + i >= len || got[(at + i) / width * pitch + (at + i) % width] == bytes[i];
		for (uint64_t i = 0; i < sizeof v && relocated; i++)
			if (at + i < len)
				want[at + i] = bytes[i];
		if (l->flags & RELOC_LAST)
			return;
	}
}

void check(const struct plan_template *t, struct result_instruction *r)
{
	const uint8_t *got = (const uint8_t *)(uintptr_t)operand(t->operands);
	const uint8_t *want = (const uint8_t *)(uintptr_t)operand(t->operands + 1);
	uint64_t pitch = operand(t->operands + 2), width = t->width;
	if (t->flags & INST_UNMARKED && P.lib.mark == NULL)
		r->flags |= (uint32_t)(t->bits & ~CHECK_GUESS) << RESULT_REASON_SHIFT;
	const bool asks = P.lib.unknown != NULL && t->want == CHECK_RESULT;
	uint32_t weak = 0;
	for (uint64_t done = 0; done < t->len; done += width, got += pitch) {
		if (asks)
			weak |= vouch(got, width, r);
		if (memcmp(got, want + done, width) == 0)
			continue;
		if (excused(t, got, want + done, done)) {
			if (r->flags >> RESULT_REASON_SHIFT == 0)
				r->flags |= REASON_MANAGED << RESULT_REASON_SHIFT;
			continue;
		}
		compare(t, r, got, want + done, done);
		/* FNV-1a over the rows that differ and their offsets, to compare wrong results between runs. */
		uint64_t h = (r->ret ? r->ret : 0xcbf29ce484222325u) ^ done;
		for (uint64_t i = 0; i < width; i++)
			h = (h ^ got[i]) * 0x100000001b3u;
		r->ret = h;
	}
	if (r->flags & RESULT_DIFFERS && r->flags >> RESULT_REASON_SHIFT == 0)
		r->flags |= weak << RESULT_REASON_SHIFT;
}
