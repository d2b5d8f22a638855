// Package acl is the model for AscendCL, Huawei's runtime for Ascend NPUs: functions, types, constants and error codes.
//
// It is generated from the tables in this folder and those for rt, hccl and mstx. Constants keep the runtime's names. Package
// runtimes lists its Model; the simulator implements its API. Values are constant, and nothing here calls the runtime.
package acl

import (
	"fmt"
	"unsafe"
)

// Addr is an address in program memory, device memory or, for callbacks, code.
type Addr = uint64

// Error is aclError, 0 for success.
type Error int32

func (e Error) Error() string { return fmt.Sprintf("%s (%d)", Model.ErrorName(int64(e)), int32(e)) }

// pointer converts a word to the pointer that a C program passed.
func pointer(w uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&w)) }
