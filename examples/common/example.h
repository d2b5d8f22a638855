/* Helpers of all examples: a check of each call, files beside the program, and options. C11 and C++17. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* realpath, readlink under -std=c11: include this header first */
#endif

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"

/* Every AscendCL call returns a code; the text of the last failure can be read once. A task that fails
 * on the device is reported by a later call, usually by the wait for it. */
#define CHECK(call) example_check((call), #call, __FILE__, __LINE__)

static inline void example_check(aclError code, const char *call, const char *file, int line)
{
	const char *text;

	if (code == ACL_SUCCESS)
		return;
	text = aclGetRecentErrMsg();
	fprintf(stderr, "%s:%d: %s returned %d: %s\n", file, line, call, (int)code, text ? text : "no message");
	exit(1);
}

/* Writes the absolute path of a file beside the running program. */
static inline void example_beside(const char *name, char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	if (n < 0) {
		perror("/proc/self/exe");
		exit(1);
	}
	path[n] = 0;
	slash = strrchr(path, '/');
	if ((size_t)(slash + 1 - path) + strlen(name) >= PATH_MAX) {
		fprintf(stderr, "path too long: %s\n", path);
		exit(1);
	}
	strcpy(slash + 1, name);
}

/* The absolute path of the kernel binary: the user's, or the one beside the program. */
static inline void example_kernel_path(const char *given, const char *standard, char path[PATH_MAX])
{
	if (!given) {
		example_beside(standard, path);
		return;
	}
	if (!realpath(given, path)) {
		perror(given);
		exit(1);
	}
}

/* Reads a whole file; the caller frees the result. */
static inline void *example_read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	void *data;
	long end;

	if (!f || fseek(f, 0, SEEK_END) || (end = ftell(f)) <= 0) {
		perror(path);
		exit(1);
	}
	rewind(f);
	data = malloc((size_t)end);
	if (!data || fread(data, 1, (size_t)end, f) != (size_t)end) {
		perror(path);
		exit(1);
	}
	fclose(f);
	*size = (size_t)end;
	return data;
}

/* The value of option argv[*i], which must be a number from min to max; moves *i past it. */
static inline unsigned long example_number(int argc, char **argv, int *i, unsigned long min, unsigned long max)
{
	const char *option = argv[*i];
	const char *text = *i + 1 < argc ? argv[++*i] : "";
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || text[0] < '0' || text[0] > '9' || *end || value < min || value > max) {
		fprintf(stderr, "%s needs a number from %lu to %lu\n", option, min, max);
		exit(2);
	}
	return value;
}

/* The value of option argv[*i]; moves *i past it. */
static inline const char *example_text(int argc, char **argv, int *i)
{
	if (*i + 1 >= argc) {
		fprintf(stderr, "%s needs a value\n", argv[*i]);
		exit(2);
	}
	return argv[++*i];
}

#endif
