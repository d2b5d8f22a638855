/*
 * says: Unknown flags of a stream have no effect.
 * source: API, aclrtCreateStreamWithConfig
 */
#include "../conformance.h"

RULE(unknown_flags)
{
	aclrtStream s;
	void *p = device(8);

	OK(aclrtCreateStreamWithConfig(&s, 0, 0x40000000));
	store(s, p, 1);
	finish(s);
	CHECK(word(p) == 1);
}
