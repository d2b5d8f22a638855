/*
 * says: The count of aclFinalizeReference may be null.
 * source: API, aclFinalizeReference
 */
#include "../conformance.h"

RULE(finalize_reference_without_count)
{
	OK(aclFinalizeReference(NULL));
}
