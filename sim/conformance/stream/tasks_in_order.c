/*
 * says: The tasks of a stream run one after the other, in the order of the calls.
 * source: Guide, stream management
 */
#include "../conformance.h"

RULE(tasks_in_order)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t *p = device(8);

	hold(&g, s);
	for (uint64_t i = 1; i <= 20; i++)
		store(s, p, i);
	open_gate(&g);
	finish(s);
	CHECK(word(p) == 20);
}
