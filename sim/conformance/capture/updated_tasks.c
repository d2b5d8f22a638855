/*
 * says: The tasks between aclmdlRICaptureTaskUpdateBegin and End replace the tasks of a group.
 * source: API, aclmdlRICaptureTaskUpdateBegin
 */
#include "../conformance.h"

RULE(updated_tasks)
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
	store(u, p, 2);
	OK(aclmdlRICaptureTaskUpdateEnd(u));
	finish(u);
	CHECK(word(p) == 0);
	OK(aclmdlRIExecuteAsync(g, s));
	finish(s);
	CHECK(word(p) == 2);
}
