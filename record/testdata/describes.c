/*
 * Asks whether the runtime takes descriptions of operators, and describes tasks, as operators of CANN do: on a stream that is not captured, on one that is
 * captured, after a refused question, and on a thread that has not asked. Prints the answers and the results.
 */
#include "acl/acl.h"
#include <pthread.h>
#include <stdio.h>

static const unsigned description[8] = {0, 1, 0x38, 0, 0x38, 0, 0, 0};

static void ask(const char *what, aclrtStream s, aclrtStreamAttr a)
{
	aclrtStreamAttrValue v = {0};
	aclError e = aclrtGetStreamAttribute(s, a, &v);

	printf("%s: %d, %u\n", what, e != 0, e ? 0 : v.cacheOpInfoSwitch);
}

static void describe(const char *what)
{
	printf("%s: %d", what, aclrtCacheLastTaskOpInfo(description, sizeof description) != 0);
	printf(" %d\n", aclrtCacheLastTaskExtendInfo("{}", 2) != 0);
}

static void *other(void *p)
{
	(void)p;
	describe("thread");
	return NULL;
}

int main(void)
{
	void *p;
	aclrtStream s, gone;
	aclmdlRI graph;
	aclrtStreamAttrValue on = {.cacheOpInfoSwitch = 1};
	pthread_t t;

	if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&s) || aclrtCreateStream(&gone) || aclrtDestroyStream(gone) || aclrtMalloc(&p, 64, 0))
		return 1;
	ask("eager", s, ACL_STREAM_ATTR_CACHE_OP_INFO);
	aclrtMemsetAsync(p, 64, 1, 64, s);
	describe("eager");
	ask("other attribute", s, ACL_STREAM_ATTR_USER_CUSTOM_TAG);
	describe("again");
	pthread_create(&t, NULL, other, NULL);
	pthread_join(t, NULL);
	ask("refused", gone, ACL_STREAM_ATTR_CACHE_OP_INFO);
	describe("refused");
	if (aclrtSetStreamAttribute(s, ACL_STREAM_ATTR_CACHE_OP_INFO, &on) || aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
		return 2;
	ask("captured", s, ACL_STREAM_ATTR_CACHE_OP_INFO);
	aclrtMemsetAsync(p, 64, 2, 64, s);
	describe("captured");
	if (aclmdlRICaptureEnd(s, &graph) || aclmdlRIDestroy(graph) || aclrtSynchronizeStream(s) || aclrtFree(p) || aclrtDestroyStream(s))
		return 3;
	return aclrtResetDevice(0) || aclFinalize();
}
