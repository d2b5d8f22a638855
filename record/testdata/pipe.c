/* pipe PIPE BINARY: loads a binary from a named pipe, which can be read once. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl.h"

#define MUST(call) do { if (!(call)) { fprintf(stderr, "line %d: %s\n", __LINE__, #call); return 1; } } while (0)

int main(int argc, char **argv)
{
	static char bytes[4 << 20];
	aclrtBinHandle binary;
	MUST(argc == 3 && mkfifo(argv[1], 0600) == 0);
	if (fork() == 0) {
		int from = open(argv[2], O_RDONLY), to = open(argv[1], O_WRONLY);
		ssize_t n = read(from, bytes, sizeof bytes);
		_exit(n <= 0 || write(to, bytes, (size_t)n) != n);
	}
	MUST(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
	MUST(aclrtBinaryLoadFromFile(argv[1], NULL, &binary) == ACL_SUCCESS);
	puts("loaded");
	return 0;
}
