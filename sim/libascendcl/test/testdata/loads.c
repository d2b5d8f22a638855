/*
 * Loads the runtime while it runs: loads LIBRARY FLAGS. Each signal handler must run on the signal stack, whether it is set before
 * or after the first call, and the engine keeps its descriptors. An object that comes before the runtime finds it by RTLD_NEXT.
 * Without FLAGS the runtime is loaded into a namespace of its own, and is called there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "test.h"

static volatile int handled;
static int (*set_device)(int32_t);

static void on_signal(int sig)
{
	stack_t s;

	(void)sig;
	sigaltstack(NULL, &s);
	handled += s.ss_flags & SS_ONSTACK ? 1 : 100;
}

static void *other(void *unused)
{
	(void)unused;
	CHECK(!set_device(0));
	raise(SIGUSR2);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction a = {.sa_handler = on_signal};
	int (*init)(void *);
	pthread_t t;
	void *h;

	CHECK(argc == 2 || argc == 3);
	CHECK(!sigaction(SIGUSR1, &a, NULL) && !sigaction(SIGSEGV, &a, NULL));
	h = argc == 2 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : dlopen(argv[1], atoi(argv[2]));
	CHECK(h);
	*(void **)&init = dlsym(h, "aclInit");
	*(void **)&set_device = dlsym(h, "aclrtSetDevice");
	CHECK(!init(NULL) && !set_device(0));
	if (argc == 2)
		return 0;
	CHECK(dlsym(RTLD_NEXT, "aclrtSetDevice") == *(void **)&set_device);
	raise(SIGUSR1);
	raise(SIGSEGV);
	CHECK(handled == 2);

	CHECK(!sigaction(SIGHUP, &a, NULL));
	raise(SIGHUP);
	CHECK(handled == 3);
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	CHECK(!set_device(0));

	/* one that is set between the first calls of two threads */
	CHECK(!sigaction(SIGUSR2, &a, NULL));
	CHECK(!pthread_create(&t, NULL, other, NULL));
	pthread_join(t, NULL);
	CHECK(handled == 4);
	return 0;
}
