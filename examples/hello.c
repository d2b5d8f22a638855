/* The smallest AscendCL program: bytes to the device and back. */
#include "common/example.h"

int main(void)
{
	const char greeting[] = "hello from device memory";
	char answer[sizeof greeting] = "";
	void *device;

	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));

	CHECK(aclrtMalloc(&device, sizeof greeting, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(device, sizeof greeting, greeting, sizeof greeting, ACL_MEMCPY_HOST_TO_DEVICE));
	CHECK(aclrtMemcpy(answer, sizeof answer, device, sizeof answer, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(aclrtFree(device));

	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());

	if (memcmp(greeting, answer, sizeof greeting)) {
		fprintf(stderr, "hello: the bytes came back changed\n");
		return 1;
	}
	printf("%s\n", answer);
	return 0;
}
