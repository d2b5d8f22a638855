/*
 * says: aclrtMemcpyAsyncWithOffset reads the addresses from device memory when it runs, and adds the offsets.
 * source: API, aclrtMemcpyAsyncWithOffset
 */
#include "../conformance.h"

RULE(addresses_are_read_later)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t *from = device(32), *to = device(32);
	void **places = device(16);

	set_word(from + 1, 5);
	hold(&g, s);
	OK(aclrtMemcpyAsyncWithOffset(&places[1], 8, 16, (const void **)&places[0], 8, 8, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, s));
	set_word(&places[0], (uintptr_t)from);
	set_word(&places[1], (uintptr_t)to);
	open_gate(&g);
	finish(s);
	CHECK(word(to + 2) == 5);
}
