// Package acl is the model of AscendCL, Huawei's runtime for Ascend NPUs: its functions, types, constants and error
// codes, generated from the tables in this folder. The names of constants are the runtime's own.
package acl

import (
	"fmt"
	"unsafe"
)

// Addr is an address in the memory of the program, of the device or, for callbacks, of code.
type Addr = uint64

// Error is aclError, 0 for success.
type Error int32

func (e Error) Error() string { return fmt.Sprintf("%s (%d)", Model.ErrorName(int64(e)), int32(e)) }

// pointer makes a pointer of a word that a C program passed as one.
func pointer(w uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&w)) }
