/*
 * early: asynchronous copies to the device while their stream still waits, from memory that the program changes after the
 * call: pinned, registered, rows of pinned memory, and its own, which is copied before the call returns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if ((call) != ACL_SUCCESS) { fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); return 1; } } while (0)

enum { SIZE = 8192, COPIES = 4 };

static atomic_int changed;

static void hold(void *arg)
{
	(void)arg;
	while (!atomic_load(&changed))
		usleep(1000);
}

int main(void)
{
	aclrtStream stream;
	void *device, *mapped, *host[COPIES];
	static char own[SIZE], back[SIZE];
	MUST(aclInit(NULL));
	MUST(aclrtSetDevice(0));
	MUST(aclrtCreateStream(&stream));
	MUST(aclrtMalloc(&device, SIZE * COPIES, ACL_MEM_MALLOC_HUGE_FIRST));
	MUST(aclrtMallocHost(&host[0], SIZE));
	if (posix_memalign(&host[1], 4096, SIZE) != 0)
		return 1;
	MUST(aclrtHostRegister(host[1], SIZE, ACL_HOST_REGISTER_MAPPED, &mapped));
	MUST(aclrtMallocHost(&host[2], SIZE));
	host[3] = own;
	for (int i = 0; i < COPIES; i++)
		memset(host[i], 'a' + i, SIZE);
	MUST(aclrtLaunchHostFunc(stream, hold, NULL));
	for (int i = 0; i < COPIES; i++) {
		char *to = (char *)device + SIZE * i;
		if (i == COPIES - 1)
			atomic_store(&changed, 1); /* the last copy waits for the stream */
		if (i == 2)
			MUST(aclrtMemcpy2dAsync(to, 128, host[i], 128, 128, SIZE / 128, ACL_MEMCPY_HOST_TO_DEVICE, stream));
		else
			MUST(aclrtMemcpyAsync(to, SIZE, host[i], SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
		memset(host[i], 'A' + i, SIZE);
	}
	MUST(aclrtSynchronizeStream(stream));
	for (int i = 0; i < COPIES; i++) {
		MUST(aclrtMemcpy(back, SIZE, (char *)device + SIZE * i, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
		printf("%c", back[0]);
	}
	return 0;
}
