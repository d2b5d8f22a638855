/*
 * says: A copy by descriptor reads the descriptor in device memory when it runs.
 * source: API, aclrtMemcpyAsyncWithDesc
 */
#include "../conformance.h"

RULE(descriptor_is_read_later)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t *a = device(8), *b = device(8), *to = device(8);
	void *desc;
	size_t n;

	OK(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &n));
	desc = device(n);
	set_word(a, 1);
	set_word(b, 2);
	OK(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, a, to, 8, NULL));
	hold(&g, s);
	OK(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, s));
	OK(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, b, to, 8, NULL));
	open_gate(&g);
	finish(s);
	CHECK(word(to) == 2);
}
