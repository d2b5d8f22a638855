/* Many events at once, each after a copy to memory that is freed when the program has waited for the event. */
#include <stdint.h>

#include "acl/acl.h"
#include "check.h"

enum { EVENTS = 1000, SIZE = 64 };

int main(void)
{
	static aclrtEvent events[EVENTS];
	static void *host[EVENTS];
	aclrtStream s;
	void *device;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&s));
	CHECK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemset(device, SIZE, 7, SIZE));
	for (int i = 0; i < EVENTS; i++) {
		CHECK(aclrtMallocHost(&host[i], SIZE));
		CHECK(aclrtCreateEvent(&events[i]));
		CHECK(aclrtMemcpyAsync(host[i], SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, s));
		CHECK(aclrtRecordEvent(events[i], s));
	}
	for (int i = 0; i < EVENTS; i++) {
		CHECK(aclrtSynchronizeEvent(events[i]));
		CHECK(aclrtFreeHost(host[i]));
		CHECK(aclrtDestroyEvent(events[i]));
	}
	return 0;
}
