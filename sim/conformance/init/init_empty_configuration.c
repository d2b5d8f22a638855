/*
 * says: A configuration with {} selects the defaults.
 * source: API, aclInit
 */
#include "../conformance.h"

RULE_BARE(init_empty_configuration)
{
	char path[] = "/tmp/conformanceXXXXXX";
	int f = mkstemp(path);
	aclError e;

	CHECK(f >= 0 && write(f, "{}\n", 3) == 3);
	e = aclInit(path);
	unlink(path);
	OK(e);
}
