/* Between its parts a program creates the file DIR/N, and waits for DIR/Ngo. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const char *dir;

static void step(int n)
{
	char name[4096];
	snprintf(name, sizeof name, "%s/%d", dir, n);
	close(open(name, O_CREAT | O_WRONLY, 0600));
	snprintf(name, sizeof name, "%s/%dgo", dir, n);
	while (access(name, F_OK) != 0)
		usleep(1000);
}
