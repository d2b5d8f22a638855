/*
 * says: A wait for AND ends when a bit is set in the word and in the value.
 * source: API, aclrtValueWait
 */
#include "../conformance.h"

RULE(wait_for_and)
{
	aclrtStream s = new_stream();
	void *p = device(8);

	set_word(p, 8);
	OK(aclrtValueWait(p, 5, ACL_STREAM_WAIT_VALUE_AND, s));
	pause_ms(20);
	CHECK(!stream_done(s));
	set_word(p, 4);
	finish(s);
}
