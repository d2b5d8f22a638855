/*
 * says: An update needs as many tasks as the group has.
 * source: API, aclmdlRICaptureTaskUpdateBegin; Errors, ACL_ERROR_RT_MODEL_UPDATE_FAILED
 */
#include "../conformance.h"

RULE(update_with_other_tasks)
{
	aclrtStream s = new_stream(), u = new_stream();
	void *p = device(8);
	aclrtTaskGrp group;
	aclmdlRI g;

	kernel("store");
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureTaskGrpBegin(s));
	store(s, p, 1);
	OK(aclmdlRICaptureTaskGrpEnd(s, &group));
	OK(aclmdlRICaptureEnd(s, &g));
	OK(aclmdlRICaptureTaskUpdateBegin(u, group));
	WANT(ACL_ERROR_RT_MODEL_UPDATE_FAILED, aclmdlRICaptureTaskUpdateEnd(u));
}
