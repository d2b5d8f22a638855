/*
 * handover: carries out commands from the standard input, each for one of its threads, and answers each with the thread's id.
 *
 *	s N    starts thread N
 *	w N C  makes C calls of aclrtSetDevice, whose arguments count the calls of the thread
 *	e N    ends the thread
 *	d N    ends it inside a call, as if the runtime had ended it
 *
 * After e and d the kernel has forgotten the thread. With -DRUNTIME it is compiled to the runtime library instead.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl.h"

#ifdef RUNTIME

aclError aclrtSetDevice(int32_t n)
{
	if (n < 0)
		syscall(SYS_exit, 0);
	return ACL_SUCCESS;
}

#else

enum { THREADS = 64 };

static struct thread {
	pthread_t thread;
	sem_t go, done;
	char command;
	int count, made, tid;
} threads[THREADS];

static void *work(void *arg)
{
	struct thread *t = arg;
	char name[16];
	snprintf(name, sizeof name, "number %d", (int)(t - threads));
	pthread_setname_np(pthread_self(), name);
	t->tid = (int)syscall(SYS_gettid);
	for (;;) {
		sem_post(&t->done);
		while (sem_wait(&t->go) != 0)
			;
		if (t->command == 'd')
			aclrtSetDevice(-1);
		if (t->command == 'e')
			return NULL;
		for (int i = 0; i < t->count; i++)
			aclrtSetDevice(t->made++);
	}
}

int main(void)
{
	char command;
	unsigned n;
	int count;
	while (scanf(" %c %u", &command, &n) == 2 && n < THREADS) {
		struct thread *t = &threads[n];
		if (command == 's') {
			*t = (struct thread){0};
			sem_init(&t->go, 0, 0);
			sem_init(&t->done, 0, 0);
			if (pthread_create(&t->thread, NULL, work, t) != 0)
				return 1;
			while (sem_wait(&t->done) != 0)
				;
		} else {
			if (command == 'w' && scanf("%d", &count) != 1)
				return 2;
			t->command = command;
			t->count = count;
			sem_post(&t->go);
			if (command == 'w')
				while (sem_wait(&t->done) != 0)
					;
			else {
				pthread_join(t->thread, NULL);
				while (syscall(SYS_tgkill, getpid(), t->tid, 0) == 0)
					usleep(100);
			}
		}
		printf("%d\n", t->tid);
		fflush(stdout);
	}
	return 0;
}

#endif
