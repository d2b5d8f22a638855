package device

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/acltrace/acltrace/sim/device/space"
)

// Kernels looks up kernels. Several goroutines may call its methods at once.
type Kernels interface {
	// Lookup returns the kernel with a name and, unless entry is 0, with that tiling key. It returns nil if it has no
	// such kernel.
	Lookup(name string, entry uint64) *Kernel
}

// Kernel is one kernel, as a host function.
type Kernel struct {
	Name  string
	Entry uint64 // tiling key; 0 for none
	Args  []Arg
	// Extents appends the device memory ranges that a launch will touch.
	Extents func(l *Launch, to []space.Extent) []space.Extent
	// Run executes all blocks. Without Run and Blocks the kernel is not computed: it writes nothing, and the memory that it declares to write is
	// unknown.
	Run func(l *Launch)
	// Blocks executes some blocks, for kernels whose blocks may run in parallel. It replaces Run.
	Blocks func(l *Launch, from, to uint32)
	// Duration is the device time of a launch; nil to use the cost model.
	Duration func(l *Launch) time.Duration
	// Crashed returns the crash of the kernel library. After a crash none of the functions above may be called. Nil
	// for kernels that can't crash.
	Crashed func() *Crash
}

// Crash is a crash in a kernel's native code.
type Crash struct {
	Kernel  string
	Signal  string
	Address uint64 // address of the access or of the code
}

func (c *Crash) Error() string {
	return fmt.Sprintf("kernel %s crashed in its own code: %s at address %#x", c.Kernel, c.Signal, c.Address)
}

// Crash returns the crash of the kernel's library; nil for none.
func (k *Kernel) Crash() *Crash {
	if k.Crashed == nil {
		return nil
	}
	return k.Crashed()
}

// Computes reports whether the kernel has code.
func (k *Kernel) Computes() bool { return k.Run != nil || k.Blocks != nil }

// ArgKind is the role of a kernel argument. The values are defined by the kernel library header.
type ArgKind uint32

const (
	ArgScalar ArgKind = iota
	ArgInput
	ArgOutput
	ArgInout
	ArgWorkspace
	ArgTiling
)

// Arg is one kernel argument. Arguments are stored in order, each aligned to its size.
type Arg struct {
	Name string
	Kind ArgKind
	Size uint32 // 8 for addresses; 1, 2, 4 or 8 for scalars
}

// Launch describes one launch to its kernel.
type Launch struct {
	Args        []byte // in device memory, placeholders resolved
	NumBlocks   uint32
	Grid, Block [3]uint32
}

// minParallel is the smallest launch, in bytes, that is split over several goroutines.
const minParallel = 64 << 10

// Do executes a launch that touches so many bytes, of a kernel that has code.
func (k *Kernel) Do(l *Launch, bytes uint64) {
	width := min(uint32(runtime.GOMAXPROCS(0)), l.NumBlocks)
	switch {
	case k.Blocks == nil:
		k.Run(l)
	case width == 1 || bytes < minParallel:
		k.Blocks(l, 0, l.NumBlocks)
	default:
		var all sync.WaitGroup
		part := func(i uint32) uint32 { return uint32(uint64(l.NumBlocks) * uint64(i) / uint64(width)) }
		for i := uint32(1); i < width; i++ {
			all.Go(func() { k.Blocks(l, part(i), part(i+1)) })
		}
		k.Blocks(l, 0, part(1))
		all.Wait()
	}
}

// Offset returns the offset of an argument in the argument block. For the number of arguments it returns the block
// size.
func (k *Kernel) Offset(arg int) uint64 {
	at := uint64(0)
	for i, a := range k.Args {
		at = space.RoundUp(at, uint64(max(a.Size, 1)))
		if i == arg {
			return at
		}
		at += uint64(a.Size)
	}
	return at
}

func (k *Kernel) ArgName(i uint32) string {
	if int(i) < len(k.Args) {
		return k.Args[i].Name
	}
	return "of unknown name"
}
