/*
 * says: A conditional task needs a condition of its own model.
 * source: Runtime, conditions of models
 */
#include "../conformance.h"

RULE(condition_of_the_model)
{
	aclrtStream s = new_stream(), other = new_stream();
	aclmdlRICondHandle a, b;
	aclmdlRI part;

	begin_with_condition(s, 0, 1, &a);
	begin_with_condition(other, 0, 1, &b);
	INVALID(ask(s, b, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
}
