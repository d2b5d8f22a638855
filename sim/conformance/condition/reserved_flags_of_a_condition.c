/*
 * says: The flags of aclmdlRIAddCondTask are reserved and 0.
 * source: API, aclmdlRIAddCondTask
 */
#include "../conformance.h"

RULE(reserved_flags_of_a_condition)
{
	aclrtStream s = new_stream();
	aclmdlRICondHandle c;
	aclmdlRI part;
	aclmdlRICondTaskParams p = {.type = ACL_MODEL_RI_COND_TYPE_IF, .size = 1, .modelRIArray = &part};

	begin_with_condition(s, 0, 1, &c);
	p.handle = c;
	INVALID(aclmdlRIAddCondTask(p, s, 1));
}
