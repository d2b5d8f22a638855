/*
 * says: The error text of a failed kernel names the kernel.
 * source: Simulator
 */
#include "../conformance.h"

RULE(message_names_the_kernel)
{
	aclrtStream s = new_stream();
	const char *text;

	store(s, (char *)device(64) + 4096, 1);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	text = aclGetRecentErrMsg();
	CHECK(text && strstr(text, "store"));
}
