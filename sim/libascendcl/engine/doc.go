// Command engine is the simulator as a C library, libaclsim.so. The C face (libascendcl.so) opens it at the first
// call, creates a thread state for each program thread, and passes every call as words.
//
// It lives until the process ends. Environment variables configure it; docs/reference/environment.md lists them. Kernels come
// from shared objects with the interface aclsim/kernel.h. It never simulates anything itself: package sim/acl does.
// Without cgo the program is empty.
package main

func main() {}
