/*
 * says: An IF has one or two parts, a WHILE one, a SWITCH one or more.
 * source: API, aclmdlRICondTaskParams
 */
#include "../conformance.h"

RULE(number_of_parts)
{
	aclrtStream s = new_stream();
	aclmdlRICondHandle c;
	aclmdlRI parts[8];

	begin_with_condition(s, 0, 1, &c);
	INVALID(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 0, parts));
	INVALID(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 3, parts));
	INVALID(ask(s, c, ACL_MODEL_RI_COND_TYPE_WHILE, 2, parts));
	INVALID(ask(s, c, ACL_MODEL_RI_COND_TYPE_SWITCH, 0, parts));
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_SWITCH, 8, parts));
}
