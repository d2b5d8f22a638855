package main

// #include <stdlib.h>
import "C"

import "unsafe"

// getenv returns a variable of the program's environment. Go would read it from the memory where the process started with it, which programs
// overwrite to change their title, as Python's setproctitle does.
func getenv(name string) string {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	return C.GoString(C.getenv(n))
}
