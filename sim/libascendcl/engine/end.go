package main

/*
#include <stdlib.h>
#include <unistd.h>
#include "native.h"

extern void aclsim_end(void);

static pid_t watched_process;

// A forked child has none of Go's threads. A thread that ends the process from inside the engine may hold its locks.
static void at_end(void)
{
	if (getpid() == watched_process && !native_inside())
		aclsim_end();
}

static int watch_end(void)
{
	watched_process = getpid();
	return atexit(at_end);
}
*/
import "C"

import "sync"

// watchEnd makes the end of the process report what strict mode has found, and what could not be simulated.
var watchEnd = sync.OnceFunc(func() {
	if C.watch_end() != 0 {
		warn("no exit handler can be registered: what strict mode finds at the end, and the number of operators that are not computed, are not reported")
	}
})

//export aclsim_end
func aclsim_end() {
	if strictReport.to != nil {
		endStrict()
	}
	simulator.Summarize()
}
