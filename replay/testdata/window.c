/*
 * Host memory at an address where a driver would place device memory. It receives the results of three copies, one asynchronous
 * and one by rows.
 */
#include <sys/mman.h>

#include "program.h"

enum { N = 4096 };

int main(void)
{
	char *h = mmap((void *)0x13f2c32de000, 4 * N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	EXPECT(h == (void *)0x13f2c32de000);
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	aclrtStream s;
	CHECK(aclrtCreateStream(&s));
	char *d = device_memory(N);
	for (int i = 0; i < N; i++)
		h[i] = (char)(i * 7);
	to_device(d, h, N);
	to_host(h + N, d, N);
	CHECK(aclrtMemcpyAsync(h + 2 * N, N, d, N, ACL_MEMCPY_DEVICE_TO_HOST, s));
	CHECK(aclrtSynchronizeStream(s));
	CHECK(aclrtMemcpy2d(h + 3 * N, 128, d, 64, 64, 32, ACL_MEMCPY_DEVICE_TO_HOST));
	EXPECT(memcmp(h, h + N, N) == 0 && memcmp(h, h + 2 * N, N) == 0);
	CHECK(aclrtFree(d));
	CHECK(aclrtDestroyStream(s));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
