/*
 * says: A graph has the name that was set last. Without one the name is empty.
 * source: API, aclmdlRISetName, aclmdlRIGetName
 */
#include "../conformance.h"

RULE(name_of_a_graph)
{
	aclrtStream s = new_stream();
	char name[64] = "x";
	aclmdlRI g;

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureEnd(s, &g));
	OK(aclmdlRIGetName(g, sizeof name, name));
	CHECK(!name[0]);
	OK(aclmdlRISetName(g, "first"));
	OK(aclmdlRISetName(g, "second"));
	OK(aclmdlRIGetName(g, sizeof name, name));
	CHECK(!strcmp(name, "second"));
}
