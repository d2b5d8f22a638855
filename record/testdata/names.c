/* Makes threads that have a name, one call and a short life. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

static void *body(void *name)
{
	if (pthread_setname_np(pthread_self(), name) || aclrtSetDevice(0))
		abort();
	return NULL;
}

int main(void)
{
	if (aclInit(NULL) || aclrtSetDevice(0))
		abort();
	for (int i = 0; i < 100; i++) {
		char name[16];
		pthread_t t;
		snprintf(name, sizeof name, "worker %d", i);
		if (pthread_create(&t, NULL, body, name) || pthread_join(t, NULL))
			abort();
	}
	return 0;
}
