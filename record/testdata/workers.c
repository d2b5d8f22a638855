/* Workers that end in different ways after runtime calls: killed between calls, killed inside one, by exit and by _exit. */
#include <acl/acl.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
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

/* Whether a process has an open pidfd for this one. */
static int watched_by(const char *pid)
{
	char folder[64], path[512], line[256];
	int n, found = 0;
	snprintf(folder, sizeof folder, "/proc/%s/fdinfo", pid);
	DIR *d = opendir(folder);
	for (struct dirent *e; d && !found && (e = readdir(d));) {
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		FILE *f = fopen(path, "r");
		while (f && !found && fgets(line, sizeof line, f))
			found = sscanf(line, "Pid: %d", &n) == 1 && n == getpid();
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return found;
}

/* A busy recorder may notice a short process after its parent has waited for it. Then nobody can tell how the process ended. */
static void await(const char *recorder)
{
	for (int i = 0; i < 1000 && !watched_by(recorder); i++)
		usleep(10000);
}

static int work(const char *recorder, const char *how)
{
	aclrtStream stream;
	if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0 || aclrtCreateStream(&stream) != 0)
		return 99;
	if (strcmp(how, "term") == 0 || strcmp(how, "inside") == 0)
		await(recorder);
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
	char recorder[16];
	if (argc > 2)
		return work(argv[1], argv[2]);
	snprintf(recorder, sizeof recorder, "%d", getppid());
	static const char *const how[] = {"term", "inside", "_exit", "exit", "well"};
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		pid_t child = fork();
		if (child == 0) {
			execl(argv[0], argv[0], recorder, how[i], (char *)NULL);
			_exit(98);
		}
		int status;
		waitpid(child, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) > 90)
			return WEXITSTATUS(status);
	}
	return 0;
}
