/*
 * A kernel library whose code writes the file "pwned" as soon as it is loaded. -DNO_KERNELS: it is no kernel library. -DGREEDY: it takes 2 GiB.
 * EVIL=NAME in the environment: it does that in the replay's folder, which acltrace reads outside the sandbox.
 */
#define _GNU_SOURCE
#include <aclsim/kernel.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void put(const char *name, const char *text, size_t len, off_t size)
{
	int fd = open(name, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len || (size && ftruncate(fd, size) != 0))
		perror(name);
	close(fd);
}

static void huge_list(void) { put("kernel-libraries", "", 0, 6L << 30); }
static void huge_findings(void) { put("findings", "", 0, 6L << 30); }
static void list_folder(void)
{
	/* Refused: there are no folders in the replay's folder. */
	if (unlink("kernel-libraries") != 0 || mkdir("kernel-libraries", 0700) == 0)
		perror("kernel-libraries");
	put("kernel-libraries", "", 0, 0);
}
static void foreign_list(void)
{
	char line[4200];
	int n = snprintf(line, sizeof line, "- /dev/zero\n1 /etc/passwd\n- %s\n", PWNED);
	put("kernel-libraries", line, (size_t)n, 0);
}
static void cores(void)
{
	static const char elf[18] = "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\4"; /* ET_CORE */
	put("core.0", elf, sizeof elf, 8L << 30);
	put("core.sh", "#!/bin/sh\n", 10, 20L << 30);
	put("core;id", elf, sizeof elf, 0);
	put("core\033[2J", elf, sizeof elf, 0);
	put("corex", elf, sizeof elf, 0);
	for (int i = 100; i < 200; i++) {
		char name[16];
		snprintf(name, sizeof name, "core.%d", i);
		put(name, elf, sizeof elf, 0);
	}
}
static void fill_file(int fd)
{
	if (fallocate(fd, 0, 0, 1 << 29) != 0)
		perror("fallocate");
}

static void fill(void) { fill_file(open("fill", O_WRONLY | O_CREAT, 0600)); }

static void fill_unlinked(void)
{
	int fd = open("fill", O_WRONLY | O_CREAT, 0600);
	unlink("fill"); /* before it is filled: a busy machine measures a file with a name meanwhile */
	fill_file(fd);
	for (;;)
		pause();
}
static void *greedy(void *unused)
{
	for (int i = 0; i < 1024; i++)
		memset(malloc(1 << 20), i | 1, 1 << 20);
	for (;;)
		pause();
	return unused;
}
/* A process whose first thread has ended. */
static void dead_thread(void)
{
	pthread_t t;
	if (fork() == 0 && pthread_create(&t, NULL, greedy, NULL) == 0)
		syscall(SYS_exit, 0);
	for (;;)
		pause();
}
/* The second child has no parent, and both ignore the signal for a lost terminal. */
static void forks(void)
{
	if (fork() == 0) {
		if (fork() != 0)
			_exit(0);
		signal(SIGHUP, SIG_IGN);
		char pid[16];
		put("forked.part", pid, (size_t)snprintf(pid, sizeof pid, "%d\n", (int)getpid()), 0);
		rename("forked.part", "forked");
		for (;;)
			pause();
	}
	for (;;)
		pause();
}

__attribute__((constructor)) static void loaded(void)
{
	FILE *f = fopen(PWNED, "w");
	if (f)
		fclose(f);
#ifdef GREEDY
	for (int i = 0; i < 2048; i++) {
		char *p = malloc(1 << 20);
		if (p)
			memset(p, i | 1, 1 << 20);
	}
	for (;;)
		;
#endif
	static const struct { const char *name; void (*act)(void); } acts[] = {{"huge list", huge_list}, {"huge findings", huge_findings}, {"list is a folder", list_folder},
		{"foreign list", foreign_list}, {"cores", cores}, {"fill", fill}, {"fill unlinked", fill_unlinked}, {"forks", forks}, {"dead thread", dead_thread}};
	const char *name = getenv("EVIL"), *list = getenv("ACLSIM_KERNELS_LOG");
	char *was = getcwd(NULL, 0);
	for (size_t i = 0; name && list && i < sizeof acts / sizeof *acts; i++)
		if (strcmp(acts[i].name, name) == 0 && chdir(dirname(strdup(list))) == 0) {
			acts[i].act();
			if (was == NULL || chdir(was) != 0)
				perror("chdir");
		}
}

#ifndef NO_KERNELS
const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel_library none = {ACLSIM_KERNEL_ABI, 0, 0};
	return &none;
}
#endif
