/*
 * says: A width greater than a pitch is refused.
 * source: API, aclrtMemcpy2dAsync; Runtime, memory copies
 */
#include "../conformance.h"

RULE(row_wider_than_pitch)
{
	char h[64] = "";

	WANT(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2d(device(64), 8, h, 16, 16, 2, ACL_MEMCPY_HOST_TO_DEVICE));
}
