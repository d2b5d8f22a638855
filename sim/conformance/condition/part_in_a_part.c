/*
 * says: A part can contain a conditional task with parts.
 * source: Runtime, conditions of models
 */
#include "../conformance.h"

RULE(part_in_a_part)
{
	aclrtStream s = new_stream(), inner = new_stream();
	uint64_t *p = device(8), *condition;
	aclmdlRICaptureStatus status;
	aclmdlRICondHandle c, d;
	aclmdlRI g, outer, at, part;

	condition = begin_with_condition(s, 0, 0, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &outer));
	OK(aclmdlRICaptureToModelRIBegin(inner, outer, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	OK(aclmdlRICaptureGetInfo(inner, &status, &at));
	CHECK(at == outer);
	OK(aclmdlRICondHandleCreate(outer, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &d));
	OK(ask(inner, d, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
	store_part(part, p, 5);
	OK(aclmdlRICaptureEnd(inner, &outer));
	OK(aclmdlRICaptureEnd(s, &g));
	run_model(g, s);
	CHECK(word(p) == 0);
	set_word(condition, 1);
	run_model(g, s);
	CHECK(word(p) == 5);
}
