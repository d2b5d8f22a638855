/*
 * says: A host function runs after the earlier tasks of its stream, and later tasks wait for it.
 * source: API, aclrtLaunchHostFunc
 */
#include "../conformance.h"

static uint64_t *between;
static atomic_int seen;

static void look_between(void *unused)
{
	(void)unused;
	pause_ms(50);
	atomic_store(&seen, (int)*between);
}

RULE(function_in_order)
{
	aclrtStream s = new_stream();
	uint64_t *d = device(8);

	between = pinned(8);
	store(s, d, 1);
	OK(aclrtMemcpyAsync(between, 8, d, 8, ACL_MEMCPY_DEVICE_TO_HOST, s));
	OK(aclrtLaunchHostFunc(s, look_between, NULL));
	store(s, d, 2);
	OK(aclrtMemcpyAsync(between, 8, d, 8, ACL_MEMCPY_DEVICE_TO_HOST, s));
	finish(s);
	CHECK(atomic_load(&seen) == 1 && *between == 2);
}
