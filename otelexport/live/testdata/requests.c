/* Declarations that CANN has for the code in docs/reference/metrics.md (with -DLIBRARY: the functions), and a server that runs it for three requests. */
#ifdef LIBRARY

#include <stddef.h>
#include <stdint.h>

uint64_t mstxRangeStartA(const char *message, void *stream)
{
	static uint64_t last;
	(void)stream;
	return message == NULL ? 0 : ++last;
}

void mstxRangeEnd(uint64_t id) { (void)id; }

#else

#include SNIPPET

static int generate(aclrtStream stream)
{
	static char host[1024];
	void *p;
	return aclrtMalloc(&p, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtMemcpyAsync(p, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE, stream) ||
	       aclrtSynchronizeStream(stream) || aclrtFree(p);
}

int main(void)
{
	aclrtStream stream;
	if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream))
		return 1;
	for (int i = 1; i <= 3; i++) {
		char parent[64];
		snprintf(parent, sizeof parent, "00-0af7651916cd43dd8448eb211c80319%d-b7ad6b716920333%d-01", i, i);
		if (handle(parent, generate, stream))
			return 1;
	}
	return aclFinalize();
}

#endif
