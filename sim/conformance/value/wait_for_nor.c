/*
 * says: A wait for NOR ends when a bit is set in neither the word nor the value.
 * source: API, aclrtValueWait
 */
#include "../conformance.h"

RULE(wait_for_nor)
{
	aclrtStream s = new_stream();
	void *p = device(8);

	set_word(p, UINT64_MAX - 1);
	OK(aclrtValueWait(p, 1, ACL_STREAM_WAIT_VALUE_NOR, s));
	pause_ms(20);
	CHECK(!stream_done(s));
	set_word(p, 2);
	finish(s);
}
