package kernel

import (
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/sim/acl/callback"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/model"
)

// Image is a binary in program memory, wrapped by aclrtCreateBinary.
type Image struct {
	Handle     uint64
	Addr, Size uint64
}

// Binary is a loaded ELF file with kernels.
type Binary struct {
	Handle uint64
	Names  *kernelbin.File
	Beside device.Kernels // library beside the file; nil for none
	Data   []byte
	Lazy   bool // loaded at first use
	// Devices has a bit for the id of each device that the binary was loaded on; 0 for all devices.
	Devices atomic.Uint32

	sync.Mutex
	Found       map[string]*Function
	Copies      map[*device.Device]DeviceCopy // created on demand
	OnException callback.Callback
}

// Function is a kernel in a binary.
type Function struct {
	Handle uint64
	Name   string
	Bin    *Binary
	Kernel *device.Kernel // nil for unknown kernels and operators
	// Operator is set for a kernel with the argument block of an operator that no library computes. The block declares what it accesses.
	Operator bool
	Computer Computer      // of operators; nil for none
	Rule     *model.Kernel // cost model rule
	// Launches counts launches of a kernel that is not executed, under its name in all binaries; nil for others.
	Launches *atomic.Int64
	Took     atomic.Int64 // work time of the previous launch on the host, in nanoseconds; 0 for none
}

// MaxBinary is the largest binary size.
const MaxBinary = kernelbin.MaxSize

// ParseBinary parses an ELF file.
func ParseBinary(b []byte) (*Binary, error) {
	names, err := kernelbin.Parse(b)
	if err != nil {
		return nil, err
	}
	return &Binary{Names: names, Found: map[string]*Function{}, Data: b}, nil
}

func (f *Binary) Has(name string) bool { return f.Names.Has(name) }

// DeviceCopy is the copy of a binary in device memory.
type DeviceCopy struct {
	Addr uint64
	Ends uint32 // Memory.Ends when it was written
}

// Parts returns the code of a kernel for cube and vector cores, by symbol suffix; nil for none. Code without a suffix
// is for cube cores.
func (f *Function) Parts() (cube, vector *kernelbin.Symbol) {
	part := func(suffix string) *kernelbin.Symbol {
		if s, ok := f.Bin.Names.Symbols[f.Name+suffix]; ok {
			return &s
		}
		return nil
	}
	cube, vector = part("_mix_aic"), part("_mix_aiv")
	if cube == nil && vector == nil {
		cube = part("")
	}
	return cube, vector
}
