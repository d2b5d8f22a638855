/*
 * says: Threads that set no device use the default device of the configuration.
 * source: API, aclInit
 */
#include "../conformance.h"

RULE_BARE(device_of_the_configuration)
{
	static const char text[] = "{\"defaultDevice\": {\"default_device\": \"0\"}}\n";
	char path[] = "/tmp/conformanceXXXXXX";
	int f = mkstemp(path);
	aclError e;
	void *p;

	CHECK(f >= 0 && write(f, text, sizeof text - 1) == sizeof text - 1);
	e = aclInit(path);
	unlink(path);
	OK(e);
	OK(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
}
