// Copies 8 KiB to the device for each input byte, then writes one output byte.
#include <acl/acl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
	static uint8_t host[8192];
	void *dev;
	if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&dev, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST)) return 1;
	char c = 'r';
	for (uint8_t round = 0; write(1, &c, 1) == 1 && read(0, &c, 1) == 1; round++) {
		host[0] = round;
		for (uint32_t i = 1; i < sizeof host; i++) {
			uint32_t x = i * 2654435761u + round;
			host[i] = (uint8_t)(x >> 13 ^ x >> 24);
		}
		if (aclrtMemcpy(dev, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE)) return 1;
	}
	return 0;
}
