/*
 * says: A binary that can't be read is refused.
 * source: Errors, ACL_ERROR_RT_FILE_OPEN
 */
#include "../conformance.h"

RULE(missing_file)
{
	aclrtBinHandle b;

	WANT(ACL_ERROR_RT_FILE_OPEN, aclrtBinaryLoadFromFile("/nonexistent/kernel.o", NULL, &b));
}
