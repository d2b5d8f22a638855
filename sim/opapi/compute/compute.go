//go:build cgo

// Package compute computes operators of the simulator from their argument blocks, in C.
//
// The simulator's engine calls it for launches of operators. compute.h describes the C side, and table.c has the operators. Package block has checked
// a block before, and the simulator the memory that it names. The package makes no threads and keeps nothing between calls.
package compute

// In ISO C nothing is contracted, so results are the same on all processors but for the library's functions.

/*
#cgo CFLAGS: -std=c11 -Wall -Wextra -Werror -O3 -I${SRCDIR}/../../libascendcl/include
#cgo LDFLAGS: -lm
#include "compute.h"
*/
import "C"

import "unsafe"

// Operators implements kernel.Computer.
type Operators struct{}

// Computes reports whether Compute would compute a block.
func (Operators) Computes(args []byte) bool { return run(args, true) }

// Compute computes a block. If it returns false, it has written nothing.
func (Operators) Compute(args []byte) bool { return run(args, false) }

func run(args []byte, dry bool) bool {
	return bool(C.aclsim_compute((*C.block)(unsafe.Pointer(unsafe.SliceData(args))), C.bool(dry)))
}

// Names returns the names of the operators, in order.
func Names() []string {
	var names []string
	for i := range int(C.num_operators) {
		o := (*C.operator)(unsafe.Add(unsafe.Pointer(&C.operators), i*C.sizeof_operator))
		names = append(names, C.GoString(o.name))
	}
	return names
}
