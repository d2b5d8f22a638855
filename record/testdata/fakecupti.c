/* A fake CUPTI that, when it is enabled, reports the calls in the file FAKECUPTI: a line "NAME CALLS" for each function. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct data { int site; const char *function; };
typedef void callback(void *, int, uint32_t, const struct data *);

static callback *told;

static void tell(void)
{
	static char names[64][128];
	unsigned long n;
	FILE *f = fopen(getenv("FAKECUPTI"), "r");
	for (uint32_t id = 0; f && id < 64 && fscanf(f, "%127s %lu", names[id], &n) == 2; id++)
		for (; n > 0; n--)
			for (int site = 0; site < 2; site++)
				told(NULL, 1, id, &(struct data){site, names[id]});
}

int cuptiSubscribe(void **subscriber, callback *fn, void *user);
int cuptiSubscribe(void **subscriber, callback *fn, void *user)
{
	(void)user;
	told = fn;
	*subscriber = &told;
	return 0;
}

int cuptiEnableDomain(uint32_t on, void *subscriber, int domain);
int cuptiEnableDomain(uint32_t on, void *subscriber, int domain)
{
	if (subscriber != &told || on != 1 || domain != 1)
		return 1;
	tell();
	return 0;
}
