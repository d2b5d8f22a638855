/*
 * says: A model has its id while it is captured.
 * source: public runtime, src/acl/aclrt_impl/model_ri.cpp
 */
#include "../conformance.h"

RULE(id_of_a_captured_model)
{
	aclrtStream s = new_stream();
	aclmdlRICaptureStatus state;
	uint32_t during = 0, after = 1;
	aclmdlRI m;

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureGetInfo(s, &state, &m));
	OK(aclmdlRIGetId(m, &during));
	OK(aclmdlRICaptureEnd(s, &m));
	OK(aclmdlRIGetId(m, &after));
	CHECK(during == after);
}
