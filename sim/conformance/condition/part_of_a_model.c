/*
 * says: A part can't be executed or destroyed on its own.
 * source: API, aclmdlRICaptureToModelRIBegin; Runtime, conditions of models
 */
#include "../conformance.h"

RULE(part_of_a_model)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	aclmdlRICondHandle c;
	aclmdlRI g, part;

	begin_with_condition(s, 0, 1, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
	store_part(part, p, 1);
	OK(aclmdlRICaptureEnd(s, &g));
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIExecuteAsync(part, s));
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIDestroy(part));
	OK(aclmdlRIDestroy(g));
}
