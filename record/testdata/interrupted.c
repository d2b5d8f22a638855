/*
 * interrupted HANDLERS: calls the runtime while a timer interrupts it, whose handler makes three calls. After HANDLERS interrupts it
 * prints the number of calls.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#include "acl/acl.h"

static long handlers, calls;

static void call(aclError ret)
{
	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	if (ret != ACL_SUCCESS)
		_Exit(99);
}

static void handler(int sig)
{
	int32_t id;
	(void)sig;
	for (int i = 0; i < 3; i++)
		call(aclrtGetDevice(&id));
	__atomic_add_fetch(&handlers, 1, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
	static char buffer[4096];
	struct sigaction on = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
	long want = argc == 2 ? atol(argv[1]) : 0;
	void *device;
	call(aclrtSetDevice(0));
	sigaction(SIGALRM, &on, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	call(aclrtMalloc(&device, sizeof buffer, ACL_MEM_MALLOC_HUGE_FIRST));
	while (__atomic_load_n(&handlers, __ATOMIC_RELAXED) < want)
		call(aclrtMemcpy(device, sizeof buffer, buffer, sizeof buffer, ACL_MEMCPY_HOST_TO_DEVICE));
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%ld\n", calls);
	return 0;
}
