package device

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/acltrace/acltrace/sim/device/space"
)

// Kernels knows what kernels do. Its methods may be called by several goroutines at once.
type Kernels interface {
	// Lookup returns the kernel that a binary holds under a name and, where entry is not 0, with that entry (tiling
	// key); nil where it knows none.
	Lookup(name string, entry uint64) *Kernel
}

// Kernel is one kernel as a function of the host.
type Kernel struct {
	Name  string
	Entry uint64 // tiling key, 0 for none
	Args  []Arg
	// Extents appends the ranges of device memory that a launch will touch.
	Extents func(l *Launch, to []space.Extent) []space.Extent
	// Run does the work of all blocks.
	Run func(l *Launch)
	// Blocks does the work of some blocks in place of Run, where those of a launch may run at once.
	Blocks func(l *Launch, from, to uint32)
	// Duration is the device time of a launch; nil where the cost model says.
	Duration func(l *Launch) time.Duration
	// Crashed returns the crash after which none of the functions above may be called, nil before there is one. It is nil for kernels that
	// can't crash.
	Crashed func() *Crash
}

// Crash is the crash of a kernel in its own native code.
type Crash struct {
	Kernel  string
	Signal  string
	Address uint64 // that the code touched or was at
}

func (c *Crash) Error() string {
	return fmt.Sprintf("kernel %s crashed in its own code: %s at address %#x", c.Kernel, c.Signal, c.Address)
}

// Crash returns the crash of the kernel's library, if any.
func (k *Kernel) Crash() *Crash {
	if k.Crashed == nil {
		return nil
	}
	return k.Crashed()
}

// ArgKind is what an argument of a kernel is. The values are those of the kernel library's header.
type ArgKind uint32

const (
	ArgScalar ArgKind = iota
	ArgInput
	ArgOutput
	ArgInout
	ArgWorkspace
	ArgTiling
)

// Arg is one argument of a kernel. Arguments lie in the block in order, each aligned to its size.
type Arg struct {
	Name string
	Kind ArgKind
	Size uint32 // 8 for addresses; 1, 2, 4 or 8 for scalars
}

// Launch is one launch of a kernel, as the kernel sees it.
type Launch struct {
	Args        []byte // in device memory, placeholders resolved
	NumBlocks   uint32
	Grid, Block [3]uint32
}

// minParallel is the number of bytes from which on the blocks of a launch are worth several goroutines.
const minParallel = 64 << 10

// Do does the work of a launch that touches so many bytes.
func (k *Kernel) Do(l *Launch, bytes uint64) {
	width := min(uint32(runtime.GOMAXPROCS(0)), l.NumBlocks)
	switch {
	case k.Blocks == nil:
		if k.Run != nil {
			k.Run(l)
		}
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

// Offset returns where an argument lies in the block; for the number of arguments, where the block ends.
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
