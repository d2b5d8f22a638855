/*
 * says: A wait for GEQ ends when the word minus the value, as a signed number, is 0 or more.
 * source: API, aclrtValueWait
 */
#include "../conformance.h"

RULE(wait_for_greater)
{
	aclrtStream s = new_stream();
	void *p = device(8);

	set_word(p, UINT64_MAX);
	OK(aclrtValueWait(p, 5, ACL_STREAM_WAIT_VALUE_GEQ, s));
	pause_ms(20);
	CHECK(!stream_done(s));
	set_word(p, 6);
	finish(s);
}
