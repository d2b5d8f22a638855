package main

// #include <stdlib.h>
import "C"

import "unsafe"

// getenv returns a variable of the program's environment, "" if it is not set.
func getenv(name string) string {
	v, _ := lookupEnv(name)
	return v
}

// lookupEnv returns a variable of the program's environment, and whether it is set. Go would read it from the memory where the process started with
// it, which programs overwrite to change their title, as Python's setproctitle does.
func lookupEnv(name string) (value string, set bool) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	v := C.getenv(n)
	return C.GoString(v), v != nil
}
