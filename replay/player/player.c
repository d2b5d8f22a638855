/*
 * The player runs a plan against a runtime library. It has a thread for each captured thread, and a process for each captured process if there
 * are several. plan.h describes the instructions, package replay/compile chooses them.
 *
 * usage() lists the arguments. In the sandbox (sandbox.c) the plan may read and write in RESULTS' folder (without RESULTS, in PLAN's), and
 * read the library's folder and each --read PATH. If the kernel lacks a sandbox layer, the player refuses, unless --partial is given.
 *
 * Without RESULTS the player runs the plan in a child and prints the verdict itself (judge.c). Exit code 1 means that the plan could not be run or
 * did not finish.
 *
 * Rules for the player's code:
 *
 *	1. The player decides nothing. Every choice is in the plan.
 *	2. A plan is trusted after its checksums were verified: its numbers and offsets are not checked again.
 *	3. Results are stored in a shared mapping at once. They survive if the runtime crashes this process.
 *	4. Between two calls, a thread makes no system call, allocates nothing, and writes only its own cache lines. In a short plan, all
 *	   pages were touched before. Waits, pacing and forks are in the plan.
 *	5. A thread stores its progress with release order after the effects of an instruction. A waiting thread loads it with acquire order.
 *	6. The sandbox is entered by the only thread, before it forks and before it loads the library.
 *	7. Processes end by _exit: exit handlers are not part of the trace.
 *	8. The player runs with a C library of 2012 (glibc/glibc.h) and links nothing else.
 *
 * Files, each of which uses only those before it: state.c, clock.c, window.c, load.c, check.c, play.c, run.c, judge.c, guard.c,
 * player.c.
 */
#include "player.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox.h"

/* Returns a file's folder, in memory that is never freed. */
static const char *folder_of(const char *file)
{
	char *path = realpath(file, NULL), *end = path ? strrchr(path, '/') : NULL;
	if (end == NULL)
		return NULL; /* the loader searches its own folders for it */
	end[end == path] = 0;
	return path;
}

/* Enters the sandbox. `read` has room for two more paths. */
static void enter_sandbox(bool partial, bool hide, const char *file, const char *library, const char **read, size_t count)
{
	const char *own = folder_of(file);
	if (own == NULL)
		refuse("find the folder of %s: %s", file, strerror(errno));
	/* Both the link's and its target's folder may have libraries that this one needs. */
	const char *folder = folder_of(library), *slash = strrchr(library, '/');
	if (folder != NULL)
		read[count++] = folder;
	if (slash != NULL && slash != library)
		read[count++] = strndup(library, (size_t)(slash - library));
	uint32_t layers = sandbox_enter(own, read, count, hide);
	if (!partial && (layers & SANDBOX_NEEDED) != SANDBOX_NEEDED)
		refuse("enter the sandbox: the kernel or the wrapper does not support%s%s%s%s", layers & SANDBOX_DESCRIPTORS ? "" : " /proc",
		       layers & SANDBOX_PRIVILEGES ? "" : " capabilities", layers & SANDBOX_FILES ? "" : " Landlock", layers & SANDBOX_CALLS ? "" : " seccomp");
	P.result->sandbox = layers;
	P.own = own;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: %s [FLAG]... PLAN LIBRARY [RESULTS]\n"
		"\n"
		"Plays a plan, which acltrace has compiled from a trace, on a runtime library.\n"
		"\n"
		"  --guard      alone: end a session of players when standard input is closed\n"
		"  --sandbox    play in a sandbox; alone: print the kernel's layers as a number\n"
		"  --names      leave the names of all files in the sandbox, for debuggers\n"
		"  --partial    play even if the kernel lacks a layer of the sandbox\n"
		"  --read PATH  allow the sandbox to read below PATH; may be repeated\n"
		"  PLAN         the plan's file\n"
		"  LIBRARY      path of the library; null: no library, all functions return 0\n"
		"  RESULTS      existing file for the results; without it, print the verdict\n"
		"\n"
		"The verdict's exit codes: 0 identical, 3 different, 4 unproved, 1 not finished\n",
		program_invocation_short_name);
	return 2;
}

int main(int argc, char **argv)
{
	const char **read = calloc((size_t)argc + 2, sizeof *read);
	bool boxed = false, partial = false, hide = true, wrong = read == NULL;
	size_t count = 0;
	if (argc == 2 && strcmp(argv[1], "--guard") == 0)
		return guard();
	for (argc--, argv++; argc > 0 && strncmp(*argv, "--", 2) == 0 && !wrong; argc--, argv++) {
		if (strcmp(*argv, "--sandbox") == 0)
			boxed = true;
		else if (strcmp(*argv, "--partial") == 0)
			partial = true;
		else if (strcmp(*argv, "--names") == 0)
			hide = false;
		else if (strcmp(*argv, "--read") == 0 && argc > 1)
			argc--, read[count++] = *++argv;
		else
			wrong = true;
	}
	if (argc == 0 && boxed && !wrong) {
		printf("%u\n", sandbox_enter(NULL, read, count, hide));
		return 0;
	}
	if ((argc != 2 && argc != 3) || wrong)
		return usage();
	const char *library = argv[1], *results = argc > 2 ? argv[2] : NULL;
	open_plan(argv[0], results);
	if (boxed)
		enter_sandbox(partial, hide, results ? results : argv[0], library, read, count);
	if (results == NULL) {
		int status = 0;
		pid_t child = fork();
		if (child < 0)
			refuse("fork the player: %s", strerror(errno));
		if (child > 0) {
			while (waitpid(child, &status, 0) < 0 && errno == EINTR)
				;
			return judge(status);
		}
	}
	make_slots();
	for (uint64_t i = 0; i < P.plan->processes.count; i++)
		P.first_threads += P.processes[i].forked ? 0 : P.processes[i].count;
	struct result_header *r = P.result;
	read_clocks(&r->counter[0], &r->ns[0]);
	P.counts_per_ns = 1;
	prctl(PR_SET_TIMERSLACK, 1); /* exact sleeps, inherited by all threads */
	if (paced())
		learn_clock();
	if (P.plan->processes.count == 1)
		run(0, library);
	else if (P.plan->processes.count > 1)
		run_all(library);
	if (!paced())
		pause_ns(1000000);
	read_clocks(&r->counter[1], &r->ns[1]);
	r->stolen_after = stolen();
	__atomic_store_n(&r->status, RUN_DONE, __ATOMIC_RELEASE);
	_exit(0);
}
