/*
 * says: With ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, each run of the model begins with the condition's initial value.
 * source: API, aclmdlRICondHandleCreate
 */
#include "../conformance.h"

RULE(assigned_in_each_run)
{
	aclrtStream s = new_stream();
	uint64_t *p = device(8), *condition;
	aclmdlRICondHandle c;
	aclmdlRI g, parts[3];

	condition = begin_with_condition(s, 2, 1, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_SWITCH, 3, parts));
	for (uint64_t i = 0; i < 3; i++)
		store_part(parts[i], p, 10 + i);
	OK(aclmdlRICaptureEnd(s, &g));
	run_model(g, s);
	CHECK(word(p) == 12);
	set_word(condition, 1);
	run_model(g, s);
	CHECK(word(p) == 12);
}
