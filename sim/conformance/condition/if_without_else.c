/*
 * says: A task of type IF with one part does nothing if the condition is 0.
 * source: API, aclmdlRICondTaskParams
 */
#include "../conformance.h"

RULE(if_without_else)
{
	aclrtStream s = new_stream();
	uint64_t *p = device(8), *condition;
	aclmdlRICondHandle c;
	aclmdlRI g, part;

	condition = begin_with_condition(s, 0, 0, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
	store_part(part, p, 1);
	OK(aclmdlRICaptureEnd(s, &g));
	run_model(g, s);
	CHECK(word(p) == 0);
	set_word(condition, 1);
	run_model(g, s);
	CHECK(word(p) == 1);
}
