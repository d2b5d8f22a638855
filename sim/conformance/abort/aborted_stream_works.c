/*
 * says: An aborted stream accepts new work.
 * source: API, aclrtStreamAbort
 */
#include "../conformance.h"

RULE(aborted_stream_works)
{
	aclrtStream s = new_stream();
	void *p = device(8);

	OK(aclrtStreamAbort(s));
	store(s, p, 1);
	finish(s);
	CHECK(word(p) == 1);
}
