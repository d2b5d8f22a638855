/*
 * says: A configuration that is not JSON is refused.
 * source: Errors, ACL_ERROR_PARSE_FILE
 */
#include "../conformance.h"

RULE_BARE(init_damaged_configuration)
{
	char path[] = "/tmp/conformanceXXXXXX";
	int f = mkstemp(path);
	aclError e;

	CHECK(f >= 0 && write(f, "{\"dump\":\n", 9) == 9);
	e = aclInit(path);
	unlink(path);
	WANT(ACL_ERROR_PARSE_FILE, e);
}
