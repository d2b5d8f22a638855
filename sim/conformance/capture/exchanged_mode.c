/*
 * says: A thread may call unsafe functions after it has exchanged its own mode for the relaxed one. The call returns the old mode.
 * source: API, aclmdlRICaptureThreadExchangeMode
 */
#include "../conformance.h"

RULE(exchanged_mode)
{
	void *p = device(8);
	aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

	OK(aclmdlRICaptureBegin(new_stream(), ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureThreadExchangeMode(&mode));
	CHECK(mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
	set_word(p, 1);
	OK(aclmdlRICaptureThreadExchangeMode(&mode));
	CHECK(mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
}
