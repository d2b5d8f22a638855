/*
 * says: A wait for EQ ends when the word equals the value.
 * source: API, aclrtValueWait
 */
#include "../conformance.h"

RULE(wait_for_equal)
{
	aclrtStream s = new_stream();
	void *p = device(8);

	set_word(p, 9);
	OK(aclrtValueWait(p, 5, ACL_STREAM_WAIT_VALUE_EQ, s));
	pause_ms(20);
	CHECK(!stream_done(s));
	set_word(p, 5);
	finish(s);
}
