/*
 * says: A task of type IF runs the first part if the condition is not 0, and the second if it is 0.
 * source: API, aclmdlRICondTaskParams
 */
#include "../conformance.h"

RULE(if_chooses)
{
	aclrtStream s = new_stream();
	uint64_t *p = device(8), *condition;
	aclmdlRICondHandle c;
	aclmdlRI g, parts[2];

	condition = begin_with_condition(s, 0, 0, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 2, parts));
	store_part(parts[0], p, 1);
	store_part(parts[1], p, 2);
	OK(aclmdlRICaptureEnd(s, &g));
	set_word(condition, 0);
	run_model(g, s);
	CHECK(word(p) == 2);
	set_word(condition, 1ULL << 40);
	run_model(g, s);
	CHECK(word(p) == 1);
}
