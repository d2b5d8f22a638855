/*
 * says: A condition has one task.
 * source: Runtime, conditions of models
 */
#include "../conformance.h"

RULE(one_task_of_a_condition)
{
	aclrtStream s = new_stream();
	aclmdlRICondHandle c;
	aclmdlRI part, other;

	begin_with_condition(s, 0, 1, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
	INVALID(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &other));
}
