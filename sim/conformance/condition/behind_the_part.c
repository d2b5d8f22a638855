/*
 * says: Tasks after a conditional task wait for its part.
 * source: API, aclmdlRIAddCondTask
 */
#include "../conformance.h"

RULE(behind_the_part)
{
	static struct gate gate;
	aclrtStream s = new_stream(), body = new_stream();
	void *p = device(8);
	aclmdlRICondHandle c;
	aclmdlRI g, part;

	begin_with_condition(s, 1, 1, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
	OK(aclmdlRICaptureToModelRIBegin(body, part, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	hold(&gate, body);
	OK(aclmdlRICaptureEnd(body, &part));
	store(s, p, 1);
	OK(aclmdlRICaptureEnd(s, &g));
	OK(aclmdlRIExecuteAsync(g, s));
	at_gate(&gate);
	pause_ms(50);
	CHECK(word(p) == 0);
	open_gate(&gate);
	finish(s);
	CHECK(word(p) == 1);
}
