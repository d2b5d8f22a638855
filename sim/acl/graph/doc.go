// Package graph has the captured and built models of AscendCL: captures, lanes of tasks, executions, conditions, and
// events.
//
// A Models belongs to a Sim and lives as long. sim/acl checks arguments and calls it from any thread; device streams
// call executions. The package never checks handles of other objects and never returns runtime codes except in
// failures.
package graph
