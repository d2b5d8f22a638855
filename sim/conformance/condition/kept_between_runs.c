/*
 * says: Without a flag, a condition keeps its value between runs.
 * source: API, aclmdlRICondHandleCreate
 */
#include "../conformance.h"

RULE(kept_between_runs)
{
	aclrtStream s = new_stream();
	uint64_t *p = device(8), *condition;
	aclmdlRICondHandle c;
	aclmdlRI g, parts[2];

	condition = begin_with_condition(s, 1, 0, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_SWITCH, 2, parts));
	store_part(parts[0], p, 10);
	store_part(parts[1], p, 11);
	OK(aclmdlRICaptureEnd(s, &g));
	set_word(condition, 0);
	for (int i = 0; i < 2; i++) {
		set_word(p, 0);
		run_model(g, s);
		CHECK(word(p) == 10);
	}
}
