/*
 * says: A conditional task needs a stream that is being captured.
 * source: API, aclmdlRIAddCondTask
 */
#include "../conformance.h"

RULE(task_in_a_capture)
{
	aclrtStream s = new_stream(), other = new_stream();
	aclmdlRICondHandle c;
	aclmdlRI part;

	begin_with_condition(s, 0, 1, &c);
	WANT(ACL_ERROR_RT_STREAM_NOT_CAPTURED, ask(other, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
}
