/*
 * says: The word of a condition is valid as long as the model.
 * source: API, aclmdlRICondHandleGetCondPtr
 */
#include "../conformance.h"

RULE(word_ends_with_the_model)
{
	aclrtStream s = new_stream();
	uint64_t *condition, v = 1;
	void *p = device(8);
	aclmdlRICondHandle c;
	aclmdlRI g, part;

	condition = begin_with_condition(s, 0, 0, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_IF, 1, &part));
	store_part(part, p, 1);
	OK(aclmdlRICaptureEnd(s, &g));
	OK(aclrtMemcpy(condition, 8, &v, 8, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclmdlRIDestroy(g));
	CHECK(aclrtMemcpy(condition, 8, &v, 8, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS);
}
