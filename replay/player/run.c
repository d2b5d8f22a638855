/* The processes: one for each captured one. */
#include "player.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Notes the thread that crashed. Then the signal ends the process as without a handler. */
static void crashed(int sig)
{
	uint32_t nobody = 0;
	if (my_number != 0)
		__atomic_compare_exchange_n(&P.result->crashed, &nobody, my_number, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	if (P.own != NULL && chdir(P.own) != 0)
		P.own = NULL; /* the sandbox allows a core only in this folder */
	signal(sig, SIG_DFL);
	raise(sig);
}

/* Called before the library is loaded: a library's own handlers call the earlier ones. */
static void watch_signals(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	struct sigaction a = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &a, NULL);
}

/*
 * Sets a variable NAME=value of the environment. A library in Go reads the process's original environment, so a value there is overwritten
 * in place if it is long enough.
 */
static void set_variable(const char *var)
{
	size_t name = strcspn(var, "=") + 1;
	for (char **e = environ; *e != NULL; e++)
		if (strncmp(*e, var, name) == 0 && strlen(*e) >= strlen(var)) {
			memcpy(*e, var, strlen(var) + 1);
			return;
		}
	if (putenv((char *)(uintptr_t)var) != 0)
		refuse("set environment variable %s: out of memory", var);
}

/* Loads the library and plays one process's threads. */
void run(uint64_t process, const char *library)
{
	const struct plan_process *p = &P.processes[process];
	const char *var = P.names + p->env;
	for (uint32_t i = 0; i < p->vars; i++, var += strlen(var) + 1)
		set_variable(var);
	watch_signals();
	map_host_memory(process);
	open_library(library);
	P.slots[pid_slot(process)] = (uint64_t)getpid();
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* for take() in other processes */
	const struct core_time before = others_core_time();
	play_threads(p);
	const struct core_time after = others_core_time();
	__atomic_fetch_add(&P.result->library.ran, after.ran > before.ran ? after.ran - before.ran : 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&P.result->library.waited, after.waited > before.waited ? after.waited - before.waited : 0, __ATOMIC_RELAXED);
}

/* The first process that fails ends the others. The player then ends in the same way. */
void run_all(const char *library)
{
	uint64_t n = P.plan->processes.count, left = 0;
	pid_t *pids = calloc(n, sizeof *pids);
	if (pids == NULL)
		refuse("fork %llu processes: out of memory", (unsigned long long)n);
	for (uint64_t i = 0; i < n; i++) {
		if (P.processes[i].forked)
			continue;
		left++;
		if ((pids[i] = fork_process(i)) == 0) {
			run(i, library);
			_exit(0);
		}
	}
	while (left > 0) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);
		if (pid < 0 && errno == EINTR)
			continue;
		left--;
		if (pid > 0 && ended_well(status))
			continue;
		for (uint64_t i = 0; i < n; i++)
			if (pids[i] > 0 && pids[i] != pid)
				kill(pids[i], SIGKILL);
		end_as(status);
	}
}
