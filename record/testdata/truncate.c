/*
 * truncate ring|process|control|lost: truncates a file in its own session, as a faulty program may. The child truncates, and its parent
 * makes calls before and afterwards. lost writes an impossible number of lost calls into the ring's header instead.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "check.h"

enum { CALLS = 1000, LOST = 8 /* offset of the lost calls in the ring */ };

static void call(int times)
{
	int32_t id;
	for (int i = 0; i < times; i++)
		CHECK(aclrtGetDevice(&id));
}

/* This process's first mapping of a file with a name. */
static uintptr_t mapped(const char *name, char *link)
{
	char line[4096];
	uintptr_t from = 0, to;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (from == 0 && fgets(line, sizeof line, maps))
		if (strstr(line, name) && sscanf(line, "%lx-%lx", &from, &to) == 2)
			sprintf(link, "/proc/self/map_files/%lx-%lx", from, to);
	fclose(maps);
	return from;
}

int main(int argc, char **argv)
{
	char name[64], link[64], c;
	int ready[2], go[2], status;
	if (argc != 2 || pipe(ready) || pipe(go))
		return 2;
	int lost = strcmp(argv[1], "lost") == 0, control = strcmp(argv[1], "control") == 0;
	pid_t child = fork();
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	call(CALLS);
	if (child != 0) {
		close(ready[1]);
		if (write(go[1], "", 1) != 1 || read(ready[0], &c, 1) != 1 || waitpid(child, &status, 0) != child)
			return 3; /* the child itself may end by SIGBUS */
		if (!control)
			call(CALLS); /* without its page of the control file it would get SIGBUS here */
		return 0;
	}
	sprintf(name, "/%s", lost ? "ring." : strcmp(argv[1], "control") == 0 ? "control" : strcmp(argv[1], "ring") == 0 ? "ring." : "process.");
	if (read(go[0], &c, 1) != 1)
		return 7;
	uintptr_t at = mapped(name, link);
	if (at == 0)
		return 4;
	if (lost)
		*(uint64_t *)(at + LOST) = UINT64_C(15489848362267144218);
	else if (truncate(link, 0))
		return 5;
	usleep(300000); /* the recorder looks at it meanwhile */
	if (write(ready[1], "", 1) != 1)
		return 6;
	_exit(0);
}
