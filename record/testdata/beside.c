/*
 * A thread waits for an event. Meanwhile another thread records the event again, after a copy on its own stream, which the wait does not
 * cover. With -DRUNTIME: a minimal runtime, which copies during a wait for the stream.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"

enum { SIZE = 64 };

#ifdef RUNTIME

int waits, goes_on;
static void *copied;

aclError aclrtMallocHost(void **p, size_t size)
{
	*p = calloc(1, size);
	return 0;
}

aclError aclrtMemcpyAsync(void *to, size_t most, const void *from, size_t size, aclrtMemcpyKind kind, aclrtStream s)
{
	(void)most, (void)from, (void)size, (void)kind, (void)s;
	copied = to;
	return 0;
}

aclError aclrtRecordEvent(aclrtEvent e, aclrtStream s)
{
	(void)e, (void)s;
	return 0;
}

aclError aclrtSynchronizeEvent(aclrtEvent e)
{
	(void)e;
	__atomic_store_n(&waits, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&goes_on, __ATOMIC_SEQ_CST))
		usleep(100);
	return 0;
}

aclError aclrtSynchronizeStream(aclrtStream s)
{
	(void)s;
	memset(copied, 'A', SIZE);
	return 0;
}

#else

extern int waits, goes_on;
static const aclrtEvent event = (aclrtEvent)0x5500;
static const aclrtStream one = (aclrtStream)0x6600, other = (aclrtStream)0x7700;

static void *waiter(void *ret)
{
	*(aclError *)ret = aclrtSynchronizeEvent(event);
	return NULL;
}

int main(void)
{
	pthread_t t;
	void *host;
	aclError e = 1;
	if (aclrtRecordEvent(event, one) || pthread_create(&t, NULL, waiter, &e))
		return 1;
	while (!__atomic_load_n(&waits, __ATOMIC_SEQ_CST))
		usleep(100);
	if (aclrtMallocHost(&host, SIZE) || aclrtMemcpyAsync(host, SIZE, (void *)0x124000000000, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, other) || aclrtRecordEvent(event, other))
		return 1;
	__atomic_store_n(&goes_on, 1, __ATOMIC_SEQ_CST);
	return pthread_join(t, NULL) || e || aclrtSynchronizeStream(other);
}

#endif
