/*
 * says: aclrtMemset fills at once and waits for no stream.
 * source: API, aclrtMemset
 */
#include "../conformance.h"

RULE(filled_at_once)
{
	static struct gate g;
	void *d = device(64);

	hold(&g, new_stream());
	AT_ONCE(OK(aclrtMemset(d, 64, 0x1a5, 8)));
	CHECK(word(d) == 0xa5a5a5a5a5a5a5a5 && word((char *)d + 8) == 0);
	open_gate(&g);
}
