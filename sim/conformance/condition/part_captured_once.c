/*
 * says: A part can be captured once.
 * source: Runtime, captures
 */
#include "../conformance.h"

RULE(part_captured_once)
{
	aclrtStream s = new_stream(), other = new_stream();
	void *p = device(8);
	aclmdlRICondHandle c;
	aclmdlRI part;

	begin_with_condition(s, 0, 1, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
	store_part(part, p, 1);
	WANT(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRICaptureToModelRIBegin(other, part, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
}
