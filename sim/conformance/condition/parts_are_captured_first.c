/*
 * says: A capture can end after all parts of the model were captured.
 * source: Errors, ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING
 */
#include "../conformance.h"

RULE(parts_are_captured_first)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	aclmdlRICondHandle c;
	aclmdlRI g, parts[2];

	begin_with_condition(s, 0, 1, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 2, parts));
	store_part(parts[0], p, 1);
	WANT(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, aclmdlRICaptureEnd(s, &g));
}
