/* Gives data of rank 0 to the other ranks that run in the same folder, as launchers do. C11 and C++17. */
#ifndef EXAMPLE_SHARE_H
#define EXAMPLE_SHARE_H

#include "example.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct example_shared {
	void *data;
	size_t size;
	unsigned others; /* ranks to come */
	int socket;
};

static inline void example_must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static inline void *example_give(void *of)
{
	const struct example_shared *x = (const struct example_shared *)of;

	for (unsigned n = 0; n < x->others; n++) {
		int to = accept(x->socket, NULL, NULL);
		example_must(to >= 0 && send(to, x->data, x->size, MSG_NOSIGNAL) == (ssize_t)x->size, "give data to a rank");
		close(to);
	}
	close(x->socket);
	return NULL;
}

/*
 * Rank 0 returns at once, and its data must stay until all ranks have it. Its socket has a name without a file: nothing is left when it is killed.
 */
static inline void example_share(void *data, size_t size, unsigned rank, unsigned ranks)
{
	static struct example_shared x;
	struct sockaddr_un name;
	struct stat folder;
	pthread_t thread;

	memset(&name, 0, sizeof name);
	name.sun_family = AF_UNIX;
	example_must(stat(".", &folder) == 0, "stat");
	int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "example %lx %lx", (unsigned long)folder.st_dev, (unsigned long)folder.st_ino);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	for (;; usleep(1000)) {
		int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		example_must(s >= 0, "socket");
		if (rank == 0) {
			example_must(bind(s, (struct sockaddr *)&name, length) == 0 && listen(s, (int)ranks) == 0, "meet the ranks in this folder");
			x.data = data, x.size = size, x.others = ranks - 1, x.socket = s;
			example_must((errno = pthread_create(&thread, NULL, example_give, &x)) == 0, "pthread_create");
			pthread_detach(thread);
			return;
		}
		if (connect(s, (struct sockaddr *)&name, length) == 0) { /* rank 0 is there */
			example_must(recv(s, data, size, MSG_WAITALL) == (ssize_t)size, "read data of rank 0");
			close(s);
			return;
		}
		close(s);
	}
}

#endif
