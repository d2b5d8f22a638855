// Command engine is the simulator's engine as a C library, libaclsim.so. The C face (libascendcl.so) opens it at a
// program's first call, makes a thread for each of the program's threads, and hands every call on as words.
//
// The environment says what is simulated; docs/simulator.md lists the variables. Kernels come from shared objects that
// follow aclsim/kernel.h. Without cgo there is nothing here but an empty program.
package main

func main() {}
