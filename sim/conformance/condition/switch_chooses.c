/*
 * says: A task of type SWITCH runs the part with the condition's number, and does nothing if there is no such part.
 * source: API, aclmdlRICondTaskParams
 */
#include "../conformance.h"

RULE(switch_chooses)
{
	aclrtStream s = new_stream();
	uint64_t *p = device(8), *condition;
	aclmdlRICondHandle c;
	aclmdlRI g, parts[3];

	condition = begin_with_condition(s, 0, 0, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_SWITCH, 3, parts));
	for (uint64_t i = 0; i < 3; i++)
		store_part(parts[i], p, 10 + i);
	OK(aclmdlRICaptureEnd(s, &g));
	for (uint64_t i = 0; i < 4; i++) {
		set_word(p, 0);
		set_word(condition, i);
		run_model(g, s);
		CHECK(word(p) == (i < 3 ? 10 + i : 0));
	}
}
