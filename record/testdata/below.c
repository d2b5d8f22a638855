/*
 * A program that uses the driver beside the runtime, built in parts: DRIVER is a stand-in for the driver's library, USER a library that is linked to it
 * and looks functions up, HCCL a library of the toolkit, whose references are not the program's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int halMemCreate(void), halMemMap(void), halSqTaskSend(void), halCount(void), drvGetDevNum(void), ra_send(void);

#if defined(DRIVER)
int halMemCreate(void) { return 1; }
int halMemMap(void) { return 2; }
int halSqTaskSend(void) { return 4; }
int halCount(void) { return halMemCreate(); }
int drvGetDevNum(void) { return 8; }
int ra_send(void) { return 16; }
#elif defined(HCCL)
int toolkit(void)
{
	int (*send)(void) = (int (*)(void))dlsym(dlopen("libascend_hal.so", RTLD_NOW), "halCount");
	return halSqTaskSend() + send() - 5;
}
#elif defined(USER)
int toolkit(void);
int through(void)
{
	void *driver = dlopen("libascend_hal.so", RTLD_NOW | RTLD_LOCAL);
	int (*send)(void) = (int (*)(void))dlsym(driver, "ra_send");
	int (*map)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "halMemMap");
	return halMemCreate() + send() + map() + toolkit();
}
#else
#include "acl/acl.h"

int through(void);
static int hal_own(void) { return 0; }
int halOwn(void) __attribute__((alias("hal_own"))); /* of the program, not of the driver */

int main(int argc, char **argv)
{
	void *p;
	int n;

	if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&p, 64, 0) || aclrtMemset(p, 64, 0, 64) || aclrtMemcpy(&n, sizeof n, p, sizeof n, ACL_MEMCPY_DEVICE_TO_HOST))
		return 1;
	aclAppLog(ACL_INFO, __func__, __FILE__, __LINE__, "allocated %p", p);
	printf("%d\n", n + drvGetDevNum() + through() + halOwn());
	fflush(stdout);
	usleep(1000 * (argc > 1 ? atoi(argv[1]) : 0));
	return aclrtFree(p) || aclrtResetDevice(0) || aclFinalize();
}
#endif
