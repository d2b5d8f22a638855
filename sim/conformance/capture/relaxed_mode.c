/*
 * says: In relaxed mode all threads may call unsafe functions.
 * source: API, aclmdlRICaptureThreadExchangeMode
 */
#include "../conformance.h"

RULE(relaxed_mode)
{
	void *p = device(8);

	OK(aclmdlRICaptureBegin(new_stream(), ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	set_word(p, 1);
	CHECK(word(p) == 1);
}
