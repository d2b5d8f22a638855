// Package callback has the program functions that the runtime calls: subscribed threads, observers of state changes,
// and functions for failed tasks.
//
// The objects live as long as their Sim. sim/acl registers functions and reports events; streams wait for queued
// functions. The package never calls a program function under a lock.
package callback
