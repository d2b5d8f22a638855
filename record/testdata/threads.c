/* threads N CALLS: N threads that make CALLS calls each, then one more by the main thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

static int calls;

static void *work(void *arg)
{
	(void)arg;
	int32_t device;
	if (aclrtSetDevice(0) != ACL_SUCCESS)
		abort();
	for (int i = 1; i < calls; i++)
		if (aclrtGetDevice(&device) != ACL_SUCCESS)
			abort();
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 8;
	calls = argc > 2 ? atoi(argv[2]) : 1000;
	pthread_t t[64];
	if (aclInit(NULL) != ACL_SUCCESS)
		return 1;
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	return aclFinalize() == ACL_SUCCESS ? 0 : 1;
}
