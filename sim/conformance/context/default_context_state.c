/*
 * says: aclrtGetPrimaryCtxState reports if the default context of a device is active.
 * source: API, aclrtGetPrimaryCtxState
 * env: ACLSIM_DEVICES=2
 */
#include "../conformance.h"

RULE(default_context_state)
{
	int32_t mine = -1, other = -1;

	OK(aclrtGetPrimaryCtxState(0, NULL, &mine));
	OK(aclrtGetPrimaryCtxState(1, NULL, &other));
	CHECK(mine == 1 && other == 0);
}
