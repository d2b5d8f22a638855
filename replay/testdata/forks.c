/*
 * A process forks after its first calls: from main, from another thread, and from a child that makes no call itself.
 * All calls of these children fail. A child from before the first call makes the same calls, and they succeed.
 */
#include <sys/wait.h>

#include "program.h"

enum { COUNT = 16 };

static int calls(void)
{
	uint32_t host[COUNT] = {1, 2, 3}, back[COUNT] = {0};
	void *p = NULL;
	int failed = aclInit(NULL) != ACL_SUCCESS;
	failed += aclrtSetDevice(0) != ACL_SUCCESS;
	failed += aclrtMalloc(&p, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS;
	failed += aclrtMemcpy(p, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS;
	failed += aclrtMemcpy(back, sizeof back, p, sizeof back, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS;
	return failed;
}

static void *thread_calls(void *failed)
{
	*(int *)failed = calls();
	return NULL;
}

static void expect(pid_t child, int code)
{
	int status;
	EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static void *forks(void *unused)
{
	pid_t child = fork();
	if (child == 0)
		_exit(calls());
	expect(child, 5);
	return unused;
}

int main(int argc, char **argv)
{
	(void)argc, (void)argv;
	int go[2];
	char c = 0;
	EXPECT(pipe(go) == 0);
	pid_t before = fork();
	if (before == 0)
		_exit(read(go[0], &c, 1) != 1 || calls() != 0);

	EXPECT(calls() == 0);
	EXPECT(write(go[1], &c, 1) == 1); /* its calls come after this process's first call */
	expect(before, 0);
	pid_t child = fork();
	if (child == 0) {
		pthread_t t;
		int failed = 0;
		EXPECT(pthread_create(&t, NULL, thread_calls, &failed) == 0 && pthread_join(t, NULL) == 0);
		_exit(failed);
	}
	expect(child, 5);
	child = fork();
	if (child == 0) {
		pid_t of = fork();
		if (of == 0)
			_exit(calls());
		expect(of, 5);
		_exit(0);
	}
	expect(child, 0);
	pthread_t t;
	EXPECT(pthread_create(&t, NULL, forks, NULL) == 0 && pthread_join(t, NULL) == 0);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
