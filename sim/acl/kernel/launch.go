package kernel

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/fault"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

const MaxBlocks = 65535

// Order is a checked launch without its arguments.
type Order struct {
	Limit       *atomic.Int64 // operator timeout in nanoseconds
	Func        *Function
	Stream      *device.Stream
	Grid, Block [3]uint32
	Blocks      uint32
	Attrs       []acl.LaunchKernelAttr // for graph tasks
	Doubt       uint8                  // see device.Transfer
	launch      device.Launch          // the running launch; one at a time
}

// OrderOf returns the launch of a kernel task; nil for other tasks.
func OrderOf(k *device.Task) *Order {
	o, _ := k.Order.(*Order)
	return o
}

func (o *Order) GiveBack(args space.Span) { o.Stream.Args.Put(args.Addr, args.Size) }

func (o *Order) Usual() *atomic.Int64 { return &o.Func.Took }

// Shape is the grid and the block dimensions of a launch.
type Shape struct{ Grid, Block [3]uint32 }

func Line(numBlocks uint32) Shape {
	return Shape{[3]uint32{numBlocks, 1, 1}, [3]uint32{1, 1, 1}}
}

func Cube(grid, block acl.Dim3) Shape {
	return Shape{[3]uint32{grid.X, grid.Y, grid.Z}, [3]uint32{block.X, block.Y, block.Z}}
}

// Run executes the kernel. It checks all declared accesses before native code touches memory.
func (o *Order) Run(s *device.Stream, args space.Span, own bool) (time.Duration, *fail.Failure) {
	m := s.Context.Device.Machine
	k := o.Func.Kernel
	if k == nil && !o.Func.Operator {
		m.TaintReached(args, own, o.Func.Name)
		return m.KernelTime(o.Func.Rule, o.Blocks, 0), nil
	}
	if !own {
		m.Strict.TaskTouches(&s.Strict, args.Addr, args.Size, space.Read)
		if err := s.Context.Device.Check(args.Addr, args.Size, space.Read); err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: argument block: %v", o.Func.Name, err)
		}
	}
	l := &o.launch
	*l = device.Launch{Args: space.Bytes(args.Addr, args.Size), NumBlocks: o.Blocks, Grid: o.Grid, Block: o.Block}
	if k != nil {
		if f := o.checkArgs(s, args, l.Args); f != nil {
			return 0, f
		}
		if f := o.crashed(m); f != nil {
			return 0, f
		}
	}
	extents, known := o.declared(m, l)
	bytes, f := o.check(s, args, extents)
	if f != nil {
		return 0, f
	}
	cost, f := o.cost(m, bytes)
	switch {
	case f != nil:
		return cost, f
	case !known:
		m.TaintReached(args, own, o.Func.Name)
	case !o.Func.Computes():
		o.leave(m, l, extents)
	default:
		k.Do(l, bytes)
		if f := o.crashed(m); f != nil {
			return cost, f
		}
		m.Spread(extents, k.Args, o.Doubt)
	}
	return cost, nil
}

// check checks the declared accesses, and returns the number of bytes.
func (o *Order) check(s *device.Stream, args space.Span, extents []space.Extent) (bytes uint64, f *fail.Failure) {
	d := s.Context.Device
	if f := o.crashed(d.Machine); f != nil || len(extents) == 0 {
		return 0, f
	}
	d.Machine.Strict.KernelTouches(&s.Strict, extents)
	for _, x := range extents {
		bytes += min(x.Size, memory.MaxAlloc)
		if x.Size == 0 || (x.Access == space.Read && args.Holds(x.Addr, x.Size)) {
			continue
		}
		if err := d.Check(x.Addr, x.Size, x.Access); err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: %s, %s: %v", o.Func.Name, o.argument(&o.launch, x.Arg), space.AccessName(x.Access), err)
		}
	}
	return bytes, nil
}

// cost returns the device time of the running launch, which touches so many bytes.
func (o *Order) cost(m *device.Machine, bytes uint64) (cost time.Duration, f *fail.Failure) {
	if k := o.Func.Kernel; k != nil && k.Duration != nil {
		cost = time.Duration(o.Func.Rule.Scaled(int64(k.Duration(&o.launch))))
		if f := o.crashed(m); f != nil {
			return 0, f
		}
	} else {
		cost = m.KernelTime(o.Func.Rule, o.Blocks, bytes)
	}
	limit := time.Duration(o.Limit.Load())
	if limit == 0 {
		limit = OpDefault
	}
	if cost > limit {
		return limit, status.Failed(acl.ACL_ERROR_RT_AICORE_TIMEOUT, "kernel %s takes %v, longer than the operator time limit of %v", o.Func.Name, cost, limit)
	}
	return cost, nil
}

// crashed returns a failure after the kernel's library has crashed. The crashed kernel may have written anywhere, so
// all memory becomes unknown.
func (o *Order) crashed(s *device.Machine) *fail.Failure {
	if o.Func.Kernel == nil {
		return nil
	}
	c := o.Func.Kernel.Crash()
	if c == nil {
		return nil
	}
	s.Unknowns.Crashed.CompareAndSwap(nil, c)
	s.Unknowns.Any.Store(true)
	if c.Kernel == o.Func.Name {
		return status.Failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "%v", c)
	}
	return status.Failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s is not run, because its kernel library crashed before: %v", o.Func.Name, c)
}

// checkArgs checks address arguments before the kernel's functions read them. Null is allowed for absent arguments,
// except tiling data.
func (o *Order) checkArgs(s *device.Stream, args space.Span, block []byte) *fail.Failure {
	d := s.Context.Device
	for i, a := range o.Func.Kernel.Args {
		if a.Kind == device.ArgScalar || a.Size != 8 {
			continue
		}
		p := binary.LittleEndian.Uint64(block[o.Func.Kernel.Offset(i):])
		if p == 0 && a.Kind != device.ArgTiling || args.Holds(p, 1) {
			continue
		}
		if err := d.Check(p, 1, argAccess[a.Kind]); err != nil {
			d.Machine.Strict.TaskTouches(&s.Strict, p, 1, argAccess[a.Kind])
			return status.Failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: argument %d (%s), %s: %v", o.Func.Name, i, a.Name, space.AccessName(argAccess[a.Kind]), err)
		}
	}
	return nil
}

var argAccess = map[device.ArgKind]uint32{device.ArgInput: space.Read, device.ArgOutput: space.Write, device.ArgInout: space.Read | space.Write, device.ArgWorkspace: space.Read | space.Write, device.ArgTiling: space.Read}

// RunBadly runs the kernel after a planned misuse of one of its buffers.
func (o *Order) RunBadly(s *device.Stream, args space.Span, own bool, x *fault.Fault) (time.Duration, *fail.Failure) {
	d := s.Context.Device
	used := o.buffers(d, args)
	if len(used) == 0 {
		return 0, status.Failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: injected fault: launch %d has no device buffer that could be freed or too short", o.Func.Name, x.At)
	}
	b := used[x.Pick%uint64(len(used))]
	all, _ := d.Memory.Live.Find(b.Addr)
	if x.Memory == fault.OutOfBounds {
		b.Size = all.End() - b.Addr + memory.AllocAlign
	} else {
		d.Memory.Free(all.Addr, memory.ByMalloc)
		if o.Func.Declares() {
			if cost, f := o.Run(s, args, own); f != nil {
				return cost, f
			}
		}
	}
	return 0, status.Failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: buffer, %s: %v", o.Func.Name, space.AccessName(b.Access), d.Check(b.Addr, b.Size, b.Access))
}

// buffers returns the memory that a launch uses: its declared extents, or else the targets of its arguments.
func (o *Order) buffers(d *device.Device, args space.Span) (used []space.Extent) {
	l := &device.Launch{Args: space.Bytes(args.Addr, args.Size), NumBlocks: o.Blocks, Grid: o.Grid, Block: o.Block}
	var all []space.Extent
	known := false
	if o.Func.Operator || o.Func.Kernel != nil && o.Func.Kernel.Extents != nil {
		all, known = o.declared(d.Machine, l)
	}
	if !known {
		for b := l.Args; len(b) >= 8; b = b[8:] {
			all = append(all, space.Extent{Addr: binary.LittleEndian.Uint64(b), Size: 1, Access: space.Read | space.Write})
		}
	}
	for _, x := range all {
		if r, ok := d.Memory.Live.Find(x.Addr); ok && r.Value.Origin == memory.ByMalloc && x.Size > 0 {
			used = append(used, x)
		}
	}
	return used
}

// Operator timeouts, in units of OpInterval.
const (
	OpInterval    = 17179869184 / 1000 * time.Nanosecond // about 17.2 ms; 254 of them are 4.3 s
	OpIntervals   = 254
	OpDefault     = 1091 * time.Second
	NeverTimesOut = time.Duration(math.MaxInt64)
)
