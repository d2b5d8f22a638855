/*
 * says: A running graph can't be destroyed.
 * source: Errors, ACL_ERROR_RT_MODEL_RUNNING
 */
#include "../conformance.h"

RULE(destroying_a_running_graph)
{
	static struct gate gate;
	aclrtStream s = new_stream();
	aclmdlRI g;

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	hold(&gate, s);
	OK(aclmdlRICaptureEnd(s, &g));
	OK(aclmdlRIExecuteAsync(g, s));
	WANT(ACL_ERROR_RT_MODEL_RUNNING, aclmdlRIDestroy(g));
	open_gate(&gate);
	finish(s);
	OK(aclmdlRIDestroy(g));
}
