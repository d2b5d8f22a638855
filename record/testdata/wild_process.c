/* wild_process MODE: processes that start, end and execute programs. Each process that uses the runtime makes four calls. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if (!(call)) { fprintf(stderr, "line %d: %s\n", __LINE__, #call); _exit(99); } } while (0)

extern char **environ;

static void use(int32_t id)
{
	int32_t got = -1;
	MUST(aclInit(NULL) == ACL_SUCCESS);
	MUST(aclrtSetDevice(id) == ACL_SUCCESS);
	MUST(aclrtGetDevice(&got) == ACL_SUCCESS && got == id);
	MUST(aclrtGetDevice(&got) == ACL_SUCCESS);
}

static void ended_well(pid_t child)
{
	int status;
	MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* Stays alive long enough to be seen from outside. */
static void linger(void)
{
	usleep((useconds_t)atoi(getenv("LINGER")) * 1000);
}

/* Calls on a thread that goes on after its process's first thread has ended. */
static void *go_on(void *arg)
{
	usleep(300000);
	MUST(aclrtSetDevice(0) == ACL_SUCCESS);
	return arg;
}

static void *go_on_and_exit(void *arg)
{
	go_on(arg);
	exit(3);
}

static void daemonize(void)
{
	int ready[2];
	char c;
	MUST(pipe(ready) == 0);
	if (fork() != 0) {
		/* Its parent stays until it has begun. */
		close(ready[1]);
		MUST(read(ready[0], &c, 1) == 1);
		_exit(0);
	}
	setsid();
	use(0);
	MUST(write(ready[1], "x", 1) == 1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "use";
	char *again[] = {argv[0], (char *)(argc > 2 ? argv[2] : "use"), NULL};
	int32_t got;
	pthread_t t;

	if (strcmp(mode, "use") == 0) {
		use(0);
	} else if (strcmp(mode, "vfork") == 0) {
		use(0);
		pid_t child = vfork();
		if (child == 0) {
			execv(argv[0], again);
			_exit(98);
		}
		ended_well(child);
		MUST(aclrtGetDevice(&got) == ACL_SUCCESS);
	} else if (strcmp(mode, "spawn") == 0) {
		pid_t child;
		use(0);
		MUST(posix_spawn(&child, argv[0], NULL, NULL, again, environ) == 0);
		ended_well(child);
		MUST(aclrtGetDevice(&got) == ACL_SUCCESS);
	} else if (strcmp(mode, "exec") == 0) {
		/* The runtime, a shell without it, and the runtime again, all with one PID. */
		char command[4096];
		use(0);
		snprintf(command, sizeof command, "exec %s %s", argv[0], "use");
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(98);
	} else if (strcmp(mode, "outlive") == 0) {
		use(0);
		MUST(pthread_create(&t, NULL, go_on_and_exit, NULL) == 0);
		pthread_exit(NULL);
	} else if (strcmp(mode, "daemon") == 0) {
		daemonize();
		char c;
		if (argc > 2)
			(void)!read(0, &c, 1); /* until a byte arrives */
		else
			usleep(300000);
		MUST(aclrtGetDevice(&got) == ACL_SUCCESS);
	} else if (strcmp(mode, "daemon-outlive") == 0) {
		daemonize();
		MUST(pthread_create(&t, NULL, go_on_and_exit, NULL) == 0);
		pthread_exit(NULL);
	} else if (strcmp(mode, "late-daemon") == 0) {
		/* Its first call comes after the started program has ended. */
		if (fork() != 0)
			_exit(0);
		setsid();
		usleep(300000);
		use(0);
	} else if (strcmp(mode, "closefrom") == 0) {
		use(0);
		closefrom(0);
		MUST(pthread_create(&t, NULL, go_on, NULL) == 0);
		MUST(pthread_join(t, NULL) == 0);
	} else if (strcmp(mode, "chdir") == 0) {
		MUST(chdir("/") == 0);
		use(0);
		MUST(chdir("/proc") == 0);
		MUST(pthread_create(&t, NULL, go_on, NULL) == 0);
		MUST(pthread_join(t, NULL) == 0);
	} else if (strcmp(mode, "chroot") == 0) {
		use(0);
		MUST(chroot(argv[2]) == 0 && chdir("/") == 0);
		MUST(aclrtGetDevice(&got) == ACL_SUCCESS);
		MUST(pthread_create(&t, NULL, go_on, NULL) == 0);
		MUST(pthread_join(t, NULL) == 0);
	} else if (strcmp(mode, "chroot-first") == 0) {
		MUST(chroot(argv[2]) == 0 && chdir("/") == 0);
		use(0);
		MUST(pthread_create(&t, NULL, go_on, NULL) == 0);
		MUST(pthread_join(t, NULL) == 0);
	} else if (strcmp(mode, "chroot-closes") == 0) {
		MUST(chroot(argv[2]) == 0 && chdir("/") == 0);
		closefrom(0);
		MUST(open("/", O_RDONLY) == 0 && open("/", O_RDONLY) == 1 && open("/", O_RDONLY) == 2 && open("/", O_RDONLY) == 3);
		use(0);
	} else if (strcmp(mode, "chroot-hidden") == 0) {
		/* Without a C library function. */
		MUST(syscall(SYS_chroot, argv[2]) == 0 && chdir("/") == 0);
		use(0);
		linger();
	} else if (strcmp(mode, "another-user") == 0) {
		MUST(setgid(65534) == 0 && setuid(65534) == 0);
		use(0);
		linger();
	} else if (strcmp(mode, "own-shm") == 0) {
		/* A child hides the session and calls on five threads. */
		use(0);
		pid_t child = fork();
		if (child == 0) {
			MUST(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
			MUST(mount("none", "/dev/shm", "tmpfs", 0, NULL) == 0);
			use(0);
			for (int i = 0; i < 4; i++) {
				pthread_t t;
				MUST(pthread_create(&t, NULL, go_on, NULL) == 0 && pthread_join(t, NULL) == 0);
			}
			_exit(0);
		}
		ended_well(child);
	} else if (strcmp(mode, "whoami") == 0) {
		use(0);
		printf("%d %d\n", (int)getuid(), (int)geteuid());
	} else if (strcmp(mode, "become-nobody") == 0) {
		char *who[] = {argv[2], "whoami", NULL};
		MUST(setgid(65534) == 0 && setuid(65534) == 0);
		execv(argv[2], who);
		_exit(98);
	} else {
		return 97;
	}
	return 0;
}
