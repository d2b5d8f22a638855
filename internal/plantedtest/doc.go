// Package plantedtest plants problems in small programs, and looks for their names in what a user reads.
//
// A program makes steps in the manner of a framework: eager, with a task queue, with captured graphs, or in several processes. TestPlanted follows
// at most three commands a problem, and requires its name. TestClean requires that nothing else is reported of programs without a problem. Both
// compare kinds and names, never times, and run on the simulator's virtual clock. `go test ./internal/plantedtest` plants each problem in one
// manner, ACLTRACE_SOAK=1 in all that can have it.
package plantedtest
