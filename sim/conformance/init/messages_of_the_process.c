/*
 * says: With err_msg_mode 1 in the configuration, aclGetRecentErrMsg also returns errors of other threads.
 * source: API, aclInit
 */
#include "../conformance.h"

static void *fails(void *unused)
{
	(void)unused;
	REFUSED(aclrtGetDeviceCount(NULL));
	return NULL;
}

RULE_BARE(messages_of_the_process)
{
	static const char text[] = "{\"err_msg_mode\": \"1\"}\n";
	char path[] = "/tmp/conformanceXXXXXX";
	int f = mkstemp(path);
	aclError e;

	CHECK(f >= 0 && write(f, text, sizeof text - 1) == sizeof text - 1);
	e = aclInit(path);
	unlink(path);
	OK(e);
	elsewhere(fails, NULL);
	CHECK(aclGetRecentErrMsg());
}
