/*
 * says: Tasks on a captured stream are recorded and not run.
 * source: API, aclmdlRICaptureBegin
 */
#include "../conformance.h"

RULE(captured_tasks_do_not_run)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	aclmdlRI g;

	kernel("store");
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	store(s, p, 1);
	OK(aclmdlRICaptureEnd(s, &g));
	finish(s);
	CHECK(word(p) == 0);
}
