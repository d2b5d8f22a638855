/* The verdict when the player runs without acltrace, by the rules of package replay/verify. */
#include "player.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* The texts of count and bytes are valid for the next three calls. */
static char *next_text(void)
{
	static char texts[4][32];
	static unsigned at;
	return texts[at++ % 4];
}

/* Formats a count as human.Count: "8,440". */
static const char *count(unsigned long long n)
{
	char digits[24], *text = next_text(), *to = text;
	for (int i = 0, len = snprintf(digits, sizeof digits, "%llu", n); i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return text;
}

/* Formats a size as human.Bytes: "2.6 MiB". */
static const char *bytes(unsigned long long n)
{
	enum { LEN = 32 };
	static const char units[] = "KMGTPE";
	char *text = next_text();
	double v = (double)n / 1024;
	unsigned unit = 0;
	if (n < 1024) {
		snprintf(text, LEN, "%llu B", n);
		return text;
	}
	for (; v >= 999.5 && unit < sizeof units - 2; unit++)
		v /= 1024;
	int len = snprintf(text, LEN, "%.*f", v < 99.95, v);
	if (strcmp(text + len - 2, ".0") == 0)
		len -= 2;
	snprintf(text + len, LEN - (size_t)len, " %ciB", units[unit]);
	return text;
}

/* Whether a number that differs is allowed: a driver may return a larger extent. */
static bool reaches(const struct plan_instruction *in, const struct result_detail *d)
{
	uint64_t got = 0;
	memcpy(&got, d->got, sizeof got);
	return template(in)->want == CHECK_EXTENT && got >= in->at;
}

static const char *name_of(const struct plan_instruction *in) { return P.names + P.functions[template(in)->fn].name; }

/* Counts recorded results by outcome: see verify.Tally. */
struct tally {
	unsigned long long results, proved, different, other, unproved, other_bytes, by[MAX_REASONS], bytes;
};

static const char *reason_text(uint32_t reason)
{
	const uint32_t *texts = table(&P.plan->reasons);
	return reason > 0 && reason <= P.plan->reasons.count ? P.names + texts[reason - 1] : "";
}

static void add_unproved(struct tally *t, uint32_t reason, uint32_t results)
{
	t->results += results;
	t->unproved += results;
	t->by[reason % MAX_REASONS] += results;
}

/* Whether device memory that matters is not at its recorded address. Allocations that were not reached have the address 0. */
static bool moved(void)
{
	const struct plan_block *blocks = table(&P.plan->blocks);
	for (uint64_t i = 0; i < P.plan->blocks.count; i++) {
		uint64_t at = P.slots[blocks[i].slot];
		if (at != 0 && at != blocks[i].at)
			return true;
	}
	return false;
}

static bool judged_result(const struct plan_instruction *in)
{
	const struct plan_template *t = template(in);
	return t->op == OP_CHECK && (t->want == CHECK_RESULT || t->want == CHECK_LENGTH);
}

/* Counts one result. Returns how many checks in a row it has. A result is different if one part differs and is proved. */
static uint64_t count_result(struct tally *t, uint64_t first, uint64_t end, bool moved)
{
	uint64_t n = 0;
	uint32_t reason = 0;
	bool differs = false, other_bytes = false;
	for (uint64_t i = first; i < end && judged_result(&P.instructions[i]) && (n == 0 || P.instructions[i].at != 0); i++, n++) {
		const struct plan_template *check = template(&P.instructions[i]);
		uint32_t flags = P.results[i].flags, why = check->bits & ~CHECK_GUESS;
		if (why == 0 || check->flags & INST_UNMARKED)
			why = flags >> RESULT_REASON_SHIFT & 0xff;
		if ((why == 0 || why == REASON_UNINITIALISED) && moved && check->bits & CHECK_GUESS) /* an address may lead to unwritten memory */
			why = REASON_POINTER;
		if (!(flags & RESULT_DONE))
			why = REASON_NOT_REACHED;
		if (why) {
			other_bytes |= (flags & RESULT_DIFFERS) != 0;
			if (!reason)
				reason = why;
		} else if (flags & RESULT_DIFFERS) {
			differs = true;
		} else {
			t->bytes += check->len;
		}
	}
	if (!differs && reason) {
		add_unproved(t, reason, 1);
		t->other_bytes += other_bytes;
		return n;
	}
	t->results++;
	if (differs)
		t->different++;
	else
		t->proved++;
	return n;
}

static const char *results_text(unsigned long long n) { return n == 1 ? "result" : "results"; }

/* Prints how many results are unproved, and the reasons, the most frequent one first. */
static void print_unproved(struct tally *t)
{
	printf("%s of %s %s %s unproved", count(t->unproved), count(t->results), results_text(t->results), t->unproved == 1 ? "is" : "are");
	if (t->other_bytes)
		printf(" (%s with other bytes)", count(t->other_bytes));
	printf(": ");
	bool several = false;
	for (int i = 0; i < MAX_REASONS; i++)
		several |= t->by[i] && t->by[i] != t->unproved;
	const char *between = "";
	for (unsigned long long left = t->unproved; left > 0;) {
		uint32_t most = 0;
		for (uint32_t i = 1; i < MAX_REASONS; i++)
			if (t->by[i] > t->by[most])
				most = i;
		const char *text = reason_text(most), *they = "they depend";
		bool single = t->by[most] == 1 && strncmp(text, they, strlen(they)) == 0;
		printf("%s%s%s", between, single ? "it depends" : "", single ? text + strlen(they) : text);
		if (several)
			printf(" (%s)", count(t->by[most]));
		left -= t->by[most];
		t->by[most] = 0;
		between = "; ";
	}
}

/* Prints the first byte that differs, and their number. */
static void print_bytes(const struct plan_instruction *in, const struct result_detail *d)
{
	printf("at offset %llu: recorded %#x, now %#x; %s %s\n", (unsigned long long)(in->at + d->first), d->want[0], d->got[0],
	       count(d->count), d->count == 1 ? "byte differs" : "bytes differ");
}

static void print_returned(const char *how, const struct plan_instruction *in, const struct result_instruction *x)
{
	printf("%s: call %llu %s, returned: recorded %#llx, now %#llx\n", how, (unsigned long long)in->call, name_of(in), (unsigned long long)template(in)->want, (unsigned long long)x->ret);
}

static void print_difference(const struct plan_instruction *in, const struct result_instruction *x, const struct result_detail *d, bool unproved)
{
	const struct plan_template *t = template(in);
	unsigned long long call = in->call, got = 0, want = 0;
	if (unproved) {
		printf("unproved, with other bytes: call %llu %s\n", call, name_of(in));
	} else if (t->op != OP_CHECK) {
		print_returned("differs", in, x);
	} else if (t->want == CHECK_LENGTH) {
		memcpy(&got, d->got, sizeof got);
		memcpy(&want, d->want, sizeof want);
		printf("differs: call %llu %s, size of the result: recorded %s, now %s\n", call, name_of(in), bytes(want), bytes(got));
	} else {
		printf("differs: call %llu %s, %s ", call, name_of(in), t->want == CHECK_RESULT ? "result" : "output");
		print_bytes(in, d);
	}
}

/* Prints the call in which the run ended. */
static void print_end(int status)
{
	const struct result_header *r = P.result;
	const struct plan_instruction *last = NULL;
	uint64_t latest = 0;
	for (uint64_t t = 0; t < P.plan->threads.count; t++) {
		uint64_t n = P.progress[t].progress, at = P.threads[t].first + n;
		if (n < P.threads[t].count && P.progress[t].inside == n + 1 && (last == NULL || r->crashed == t + 1 || (P.results[at].start >= latest && r->crashed == 0))) {
			last = &P.instructions[at];
			latest = P.results[at].start;
		}
	}
	printf("ended ");
	if (r->status == 0)
		printf("while it loaded the library");
	else if (last != NULL)
		printf("in call %llu %s", (unsigned long long)last->call, name_of(last));
	else
		printf("outside the calls of the trace");
	if (WIFSIGNALED(status))
		printf(": signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		printf(": exit code %d\n", WEXITSTATUS(status));
}

int judge(int status)
{
	enum { LISTED = 20 };
	const struct result_header *r = P.result;
	struct tally t = {0};
	unsigned long long reported = 0;
	if (r->status == RUN_REFUSED) {
		fprintf(stderr, "%s\n", r->error);
		return 1;
	}
	const struct plan_doubt *doubts = table(&P.plan->doubts);
	const bool elsewhere = moved();
	for (uint64_t i = 0; i < P.plan->doubts.count; i++) {
		if (doubts[i].reason == REASON_POINTER && !elsewhere)
			continue;
		add_unproved(&t, doubts[i].reason, doubts[i].results);
		if (i < LISTED && doubts[i].call)
			printf("unproved: call %llu: %s\n", (unsigned long long)doubts[i].call, P.names + doubts[i].text);
		else if (i < LISTED)
			printf("unproved: %s\n", P.names + doubts[i].text);
	}
	for (uint64_t th = 0; th < P.plan->threads.count; th++) {
		uint64_t end = P.threads[th].first + P.threads[th].count;
		for (uint64_t i = P.threads[th].first, n; i < end; i += n) {
			const unsigned long long before = t.different;
			n = 1;
			if (judged_result(&P.instructions[i]))
				n = count_result(&t, i, end, elsewhere);
			for (uint64_t k = i; k < i + n; k++) {
				const struct plan_instruction *in = &P.instructions[k];
				const struct result_instruction *x = &P.results[k];
				const struct result_detail *d = &P.details[x->detail ? x->detail - 1 : 0];
				const struct plan_template *of = template(in);
				if (of->op > OP_UNTIL && of->op != OP_CHECK)
					continue;
				if (x->flags & RESULT_REPORTED && reported++ == 0)
					print_returned(of->want == 0 ? "reported earlier" : "reported later", in, x);
				if (!(x->flags & RESULT_DONE) || !(x->flags & RESULT_DIFFERS))
					continue;
				if (of->op == OP_CHECK && (of->want == CHECK_MACHINE || reaches(in, d))) {
					printf("another machine: call %llu %s, output ", (unsigned long long)in->call, name_of(in));
					print_bytes(in, d);
					continue;
				}
				t.other += !judged_result(in);
				if (t.other + t.different + t.other_bytes <= LISTED)
					print_difference(in, x, d, judged_result(in) && t.different == before);
			}
		}
	}
	if (r->status != RUN_DONE) {
		print_end(status);
		return 1;
	}
	if (!r->reports)
		printf("the library does not report missing kernels: its kernels are trusted\n");
	if (t.different + t.other > 0) {
		if (t.different > 0)
			printf("different: %s of %s %s %s", count(t.different), count(t.results), results_text(t.results), t.different == 1 ? "differs" : "differ");
		else
			printf("different: %s %s", count(t.other), t.other == 1 ? "returned value or output differs" : "returned values or outputs differ");
		if (t.unproved > 0) {
			printf("; ");
			print_unproved(&t);
		}
		printf("\n");
		return 3;
	}
	if (t.results == 0) {
		printf("nothing differs; the trace has no results, so nothing is proved\n");
		return 4;
	}
	if (t.unproved > 0) {
		printf(t.other_bytes ? "nothing that could be proved differs; " : "nothing differs; ");
		print_unproved(&t);
		printf("\n");
		return 4;
	}
	printf("identical: %s %s, %s compared\n", count(t.results), results_text(t.results), bytes(t.bytes));
	return 0;
}
