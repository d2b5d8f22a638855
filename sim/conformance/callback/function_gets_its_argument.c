/*
 * says: A host function gets the argument of its launch.
 * source: API, aclrtLaunchHostFunc
 */
#include "../conformance.h"

static void *got_argument;

static void note_argument(void *arg)
{
	got_argument = arg;
}

RULE(function_gets_its_argument)
{
	aclrtStream s = new_stream();
	int mine;

	OK(aclrtLaunchHostFunc(s, note_argument, &mine));
	finish(s);
	CHECK(got_argument == &mine);
}
