/* Workers that end in different ways after runtime calls: killed between calls, killed inside one, by exit and by _exit. */
#include <acl/acl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A host function that ends the process while the program waits for the stream. */
static void ends(void *how)
{
	(void)how;
	kill(getpid(), SIGKILL);
}

static int work(const char *how)
{
	aclrtStream stream;
	if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0 || aclrtCreateStream(&stream) != 0)
		return 99;
	if (strcmp(how, "term") == 0)
		kill(getpid(), SIGTERM);
	if (strcmp(how, "inside") == 0) {
		aclrtLaunchHostFunc(stream, ends, NULL);
		aclrtSynchronizeStream(stream);
	}
	if (strcmp(how, "_exit") == 0)
		_exit(5);
	aclFinalize();
	exit(strcmp(how, "exit") == 0 ? 7 : 0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return work(argv[1]);
	static const char *const how[] = {"term", "inside", "_exit", "exit", "well"};
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		pid_t child = fork();
		if (child == 0) {
			execl(argv[0], argv[0], how[i], (char *)NULL);
			_exit(98);
		}
		int status;
		waitpid(child, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) > 90)
			return WEXITSTATUS(status);
	}
	return 0;
}
