/*
 * says: A thread that takes the relaxed mode for itself may call unsafe functions; the call returns the mode it had.
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
