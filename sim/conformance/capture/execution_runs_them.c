/*
 * says: Each execution of a graph runs all captured tasks.
 * source: API, aclmdlRIExecuteAsync
 */
#include "../conformance.h"

RULE(execution_runs_them)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	aclmdlRI g;

	kernel("count");
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtLaunchKernelWithHostArgs(kernel("count"), 1, s, NULL, &p, sizeof p, NULL, 0));
	OK(aclmdlRICaptureEnd(s, &g));
	for (int i = 0; i < 3; i++)
		OK(aclmdlRIExecuteAsync(g, s));
	finish(s);
	CHECK(word(p) == 3);
	OK(aclmdlRIExecute(g, patience));
	CHECK(word(p) == 4);
}
