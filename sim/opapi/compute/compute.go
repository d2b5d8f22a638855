//go:build cgo

// Package compute computes operators of the simulator from their argument blocks, in C.
//
// The simulator's engine calls it for launches of operators. compute.h describes the C side, and table.c has the operators. Package block has checked
// a block before, and the simulator the memory that it names. The C side makes no threads and keeps nothing between calls.
package compute

// In ISO C nothing is contracted, so results are the same on all processors.

/*
#cgo CFLAGS: -std=c11 -Wall -Wextra -Werror -O3 -I${SRCDIR}/../../libascendcl/include
#cgo LDFLAGS: -lm
#include "compute.h"
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Operators implements kernel.Computer.
type Operators struct{}

// Computes reports whether Compute would compute a block.
func (Operators) Computes(args []byte) bool { return C.aclsim_shares(pointer(args)) > 0 }

// Compute computes a block, large ones with several threads. If it returns false, the results are unknown.
func (Operators) Compute(args []byte) bool {
	n := min(int64(C.aclsim_shares(pointer(args))), int64(runtime.GOMAXPROCS(0)))
	var failed atomic.Bool
	var others sync.WaitGroup
	for i := int64(1); i < n; i++ {
		others.Go(func() {
			if !C.aclsim_compute(pointer(args), C.int64_t(i), C.int64_t(n)) {
				failed.Store(true)
			}
		})
	}
	if n == 0 || !C.aclsim_compute(pointer(args), 0, C.int64_t(n)) {
		failed.Store(true)
	}
	others.Wait()
	if failed.Load() {
		return false
	}
	spoil(args)
	return true
}

func pointer(args []byte) *C.block { return (*C.block)(unsafe.Pointer(unsafe.SliceData(args))) }

// Names returns the names of the operators, in order.
func Names() []string {
	var names []string
	for i := range int(C.num_operators) {
		o := (*C.operator)(unsafe.Add(unsafe.Pointer(&C.operators), i*C.sizeof_operator))
		names = append(names, C.GoString(o.name))
	}
	return names
}
