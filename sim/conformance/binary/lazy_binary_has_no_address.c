/*
 * says: A binary that is loaded lazily has no address on the device yet.
 * source: API, aclrtBinaryGetDevAddress
 */
#include "../conformance.h"

RULE(lazy_binary_has_no_address)
{
	aclrtBinaryLoadOption o = {.type = ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD, .value = {.isLazyLoad = 1}};
	aclrtBinaryLoadOptions options = {&o, 1};
	aclrtBinHandle b;
	void *where = &b;
	size_t size;

	OK(aclrtBinaryLoadFromFile(getenv("CONFORMANCE_BINARY"), &options, &b));
	OK(aclrtBinaryGetDevAddress(b, &where, &size));
	CHECK(!where && size);
}
