/*
 * says: A synchronization ends with ACL_ERROR_RT_STREAM_ABORT if its stream is aborted.
 * source: API, aclrtStreamAbort
 */
#include "../conformance.h"

static struct gate g;
static aclrtContext mine;

static void *abort_soon(void *stream)
{
	OK(aclrtSetCurrentContext(mine));
	sleeping(getpid());
	pause_ms(100);
	open_later(&g);
	OK(aclrtStreamAbort(stream));
	return NULL;
}

RULE(synchronization_ends)
{
	aclrtStream s = new_stream();
	pthread_t t;

	OK(aclrtGetCurrentContext(&mine));
	hold(&g, s);
	store(s, device(8), 1);
	at_gate(&g);
	CHECK(!pthread_create(&t, NULL, abort_soon, s));
	WANT(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(s));
	pthread_join(t, NULL);
}
