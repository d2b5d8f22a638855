/*
 * says: aclrtStreamStop refuses the default stream.
 * source: API, aclrtStreamStop
 */
#include "../conformance.h"

RULE(stop_is_for_the_device)
{
	INVALID(aclrtStreamStop(NULL));
}
