/*
 * says: A kernel whose symbols end in _mix_aic and _mix_aiv is found by its name and is of type MIX.
 * source: Runtime, kernel binaries; API, aclrtGetFunctionAttribute
 */
#include "../conformance.h"

RULE(kernel_of_both_cores)
{
	int64_t type = -1;
	void *aic = NULL, *aiv = NULL;

	OK(aclrtGetFunctionAttribute(kernel("mixed"), ACL_FUNC_ATTR_KERNEL_TYPE, &type));
	CHECK(type == ACL_KERNEL_TYPE_MIX);
	OK(aclrtGetFunctionAddr(kernel("mixed"), &aic, &aiv));
	CHECK(aic && aiv && aic != aiv);
}
