/*
 * says: A reduction is refused if the device does not support its type.
 * source: API, aclrtReduceAsync (A2 series)
 */
#include "../conformance.h"

RULE(reduction_of_unknown_type)
{
	void *a = device(32), *b = device(32);

	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtReduceAsync(a, b, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_DOUBLE, new_stream(), NULL));
}
