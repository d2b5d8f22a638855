/*
 * says: A condition can be created only during the capture of its model.
 * source: Runtime, conditions of models
 */
#include "../conformance.h"

RULE(condition_during_capture)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	aclmdlRICondHandle c;
	aclmdlRI g;

	kernel("store");
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	store(s, p, 1);
	OK(aclmdlRICaptureEnd(s, &g));
	INVALID(aclmdlRICondHandleCreate(g, 0, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &c));
}
