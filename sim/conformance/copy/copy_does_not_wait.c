/*
 * says: aclrtMemcpy waits for no stream.
 * source: API, aclrtMemcpy
 */
#include "../conformance.h"

RULE(copy_does_not_wait)
{
	static struct gate g;
	void *d = device(8);

	hold(&g, new_stream());
	AT_ONCE(set_word(d, 1));
	CHECK(word(d) == 1);
	open_gate(&g);
}
