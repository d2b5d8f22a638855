/*
 * The guard of a replay's processes: acltrace starts it beside the player. If acltrace is killed, the guard ends the player and all processes that
 * its kernels have forked. They are one session, which the sandbox does not let them leave. The guard has a session of its own.
 *
 * Its standard input is a pipe that acltrace alone holds: a line with the session, and one with 0 when acltrace has ended the session itself.
 */
#include "player.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a process belongs to a session and has not ended. */
static bool member(const char *pid, long session)
{
	char path[64], text[512], state;
	long of, threads;
	snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return false;
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	const char *end = strrchr(text, ')'); /* of the name, which may contain any character */
	return end != NULL && sscanf(end, ") %c %*d %*d %ld %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld", &state, &of, &threads) == 3 && of == session &&
	       ((state != 'Z' && state != 'X') || threads > 1); /* if the first thread has ended, others may run */
}

/* Kills all members of a session, including new ones. */
static void end_session(long session)
{
	for (int round = 0, found = 1; found && round < 1000; round++) {
		DIR *d = opendir("/proc");
		if (d == NULL)
			return;
		found = 0;
		for (struct dirent *e; (e = readdir(d)) != NULL;)
			if (atol(e->d_name) > 0 && member(e->d_name, session)) {
				kill((pid_t)atol(e->d_name), SIGKILL);
				found = 1;
			}
		closedir(d);
		usleep(1000);
	}
}

int guard(void)
{
	char line[32];
	long session = 0;
	while (fgets(line, sizeof line, stdin) != NULL)
		session = atol(line);
	if (session > 0)
		end_session(session);
	return 0;
}
