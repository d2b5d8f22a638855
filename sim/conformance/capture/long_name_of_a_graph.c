/*
 * says: A query of a graph's name returns at most 512 bytes.
 * source: API, aclmdlRIGetName
 */
#include "../conformance.h"

RULE(long_name_of_a_graph)
{
	aclrtStream s = new_stream();
	char name[1024], got[1024];
	aclmdlRI g;

	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureEnd(s, &g));
	OK(aclmdlRISetName(g, name));
	OK(aclmdlRIGetName(g, sizeof got, got));
	CHECK(strlen(got) == 511 && !memcmp(got, name, 511));
}
