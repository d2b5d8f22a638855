/*
 * says: A null stream means the default stream of the current context; each context has its own.
 * source: API, aclrtCreateContext, aclrtCtxGetCurrentDefaultStream
 */
#include "../conformance.h"

RULE(null_is_default_stream)
{
	aclrtContext c;
	aclrtStream s;
	int32_t first, null, named;

	OK(aclrtStreamGetId(NULL, &first));
	OK(aclrtCreateContext(&c, 0));
	OK(aclrtCtxGetCurrentDefaultStream(&s));
	OK(aclrtStreamGetId(NULL, &null));
	OK(aclrtStreamGetId(s, &named));
	CHECK(null == named && null != first);
}
