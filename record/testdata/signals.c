/*
 * signals: calls the runtime, writes "ready", and writes a line for each signal: its name and count. Exits with 3 at SIGTERM. It never
 * stops for a terminal.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"

static volatile sig_atomic_t count[65];

static void handler(int sig)
{
	char line[32];
	int n = snprintf(line, sizeof line, "%s %d\n", sigabbrev_np(sig), (int)++count[sig]);
	if (write(STDOUT_FILENO, line, (size_t)n) != n || sig == SIGTERM)
		_exit(3);
}

int main(void)
{
	static const int all[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP};
	struct sigaction on = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigfillset(&on.sa_mask);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		sigaction(all[i], &on, NULL);
	if (aclInit(NULL) != 0 || write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	for (;;)
		pause();
}
