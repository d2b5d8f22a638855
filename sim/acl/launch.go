package acl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

const maxBlocks = 65535

// order is a launch that was checked and has no arguments yet.
type order struct {
	sim         *Sim
	fn          *function
	stream      *device.Stream
	grid, block [3]uint32
	blocks      uint32
	attrs       []acl.LaunchKernelAttr // of a task of a model
	launch      device.Launch          // as the kernel sees it, while it runs: there is one at a time
}

// orderOf returns the launch of a task, nil for a task of another kind.
func orderOf(k *device.Task) *order {
	o, _ := k.Order.(*order)
	return o
}

func (o *order) GiveBack(args space.Span) { o.stream.Args.Put(args.Addr, args.Size) }

func (o *order) Usual() *atomic.Int64 { return &o.fn.took }

// shape is the grid of a launch and the blocks' dimensions.
type shape struct{ grid, block [3]uint32 }

func line(numBlocks uint32) shape {
	return shape{[3]uint32{numBlocks, 1, 1}, [3]uint32{1, 1, 1}}
}

func cube(grid, block acl.Dim3) shape {
	return shape{[3]uint32{grid.X, grid.Y, grid.Z}, [3]uint32{block.X, block.Y, block.Z}}
}

// prepare checks what all launches have in common.
func (t *Thread) prepare(fn uint64, sh shape, cfg *acl.LaunchKernelCfg, stream acl.Stream) (*order, acl.Error) {
	s, e := t.stream(stream)
	if e != 0 {
		return nil, e
	}
	f := t.sim.functions.Get(fn)
	if f == nil {
		return nil, t.badHandle(space.KindFunction, fn)
	}
	if f.bin.dev != nil && f.bin.dev != s.Context.Device && !mutant.Breaks("kernel_of_the_device") {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q was loaded on device %d, the stream is on %d", f.name, f.bin.dev.ID, s.Context.Device.ID)
	}
	blocks := uint64(1)
	for i := range sh.grid {
		if blocks *= uint64(sh.grid[i]); blocks > maxBlocks {
			break
		}
	}
	if blocks > maxBlocks {
		t.sim.Strict.Single(&t.Strict, strict.BlockDim, &s.Strict, f.name, fn, "finds the kernel", fmt.Sprintf("launches %d × %d × %d blocks", sh.grid[0], sh.grid[1], sh.grid[2]))
	}
	if (blocks == 0 || blocks > maxBlocks) && !mutant.Breaks("number_of_blocks") {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: %d blocks or more; 1 to %d can be launched", f.name, blocks, maxBlocks)
	}
	for _, n := range sh.block {
		if n == 0 {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: a block dimension is 0", f.name)
		}
	}
	if e := t.launchAttrs(cfg); e != 0 {
		return nil, e
	}
	if mutant.Breaks("every_block_runs") {
		sh, blocks = line(1), 1
	}
	o := &order{sim: t.sim, fn: f, stream: s, grid: sh.grid, block: sh.block, blocks: uint32(blocks)}
	if attached(s).capture.Load() != nil || attached(s).bound.Load() != nil {
		o.attrs = launchAttrsOf(cfg)
	}
	return o, acl.ACL_SUCCESS
}

func (t *Thread) launchAttrs(cfg *acl.LaunchKernelCfg) acl.Error {
	if cfg == nil || cfg.NumAttrs == 0 {
		return acl.ACL_SUCCESS
	}
	if cfg.Attrs == 0 || cfg.NumAttrs > 64 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d launch attributes at %#x", cfg.NumAttrs, cfg.Attrs)
	}
	for _, a := range space.List((*acl.LaunchKernelAttr)(space.Pointer(cfg.Attrs)), cfg.NumAttrs) {
		if (a.Id < acl.ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE || a.Id > acl.ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING) && !mutant.Breaks("unknown_attribute") {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "launch attribute %d is unknown", a.Id)
		}
	}
	return acl.ACL_SUCCESS
}

// fits checks that an argument block is as long as the kernel's parameters.
func (t *Thread) fits(fn *function, size uint64) acl.Error {
	if k := fn.kernel; k != nil && size < k.Offset(len(k.Args)) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q takes %d bytes of arguments, %d are given", fn.name, k.Offset(len(k.Args)), size)
	}
	return acl.ACL_SUCCESS
}

// launch copies an argument block to the device and puts the kernel on the stream. size is that of the parameters, which
// the rest of the block follows; patch resolves the placeholders, given the block's device address.
func (t *Thread) launch(o *order, block []byte, size uint64, patch func(block []byte, dev uint64)) acl.Error {
	if e := t.fits(o.fn, size); e != 0 {
		return e
	}
	n := uint64(len(block))
	dev, f := o.stream.Args.Get(n)
	if f != nil {
		return t.failWith(f)
	}
	if patch != nil {
		patch(block, dev)
	}
	copy(space.Bytes(dev, n), block)
	if mutant.Breaks("host_arguments_are_taken") {
		t.submit(o.stream, device.Task{Kind: device.TaskKernel, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
			time.Sleep(200 * time.Microsecond) // until the program has gone on
			copy(space.Bytes(dev, n), block)
			return 0, nil
		}})
	}
	return t.enqueue(o, space.Span{Addr: dev, Size: n}, true)
}

// enqueue puts a kernel on its stream. args is its block in device memory; own says that it goes back to the pool.
func (t *Thread) enqueue(o *order, args space.Span, own bool) acl.Error {
	if o.fn.kernel == nil && o.fn.launches.Add(1) == 1 {
		t.sim.Log("kernel %q is in no kernel library: it takes modelled time and writes nothing (ACLSIM_KERNELS names libraries)", o.fn.name)
		if t.sim.opts.Missing != nil {
			t.sim.opts.Missing(o.fn.name)
		}
	}
	k := device.Task{Kind: device.TaskKernel, Name: o.fn.name, Order: o, Args: args, Demand: t.sim.Model.Demand(o.fn.rule, o.blocks), Own: own, Quick: o.fn.kernel == nil}
	return t.submit(o.stream, k)
}

// Run is the kernel on the device. Before native code touches memory, all that it declares to touch is checked.
func (o *order) Run(s *device.Stream, args space.Span, own bool) (time.Duration, *fail.Failure) {
	d := s.Context.Device
	k := o.fn.kernel
	if k == nil {
		o.markUnknown(d, args)
		return d.Machine.KernelTime(o.fn.rule, o.blocks, 0), nil
	}
	if !own {
		d.Machine.Strict.TaskTouches(&s.Strict, args.Addr, args.Size, space.Read)
		if err := d.Check(args.Addr, args.Size, space.Read); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: its argument block: %v", o.fn.name, err)
		}
	}
	l := &o.launch
	*l = device.Launch{Args: space.Bytes(args.Addr, args.Size), NumBlocks: o.blocks, Grid: o.grid, Block: o.block}
	if f := o.checkArgs(s, args, l.Args); f != nil {
		return 0, f
	}
	if f := o.crashed(d.Machine); f != nil {
		return 0, f
	}
	bytes := uint64(0)
	var extents []space.Extent
	if k.Extents != nil {
		extents = k.Extents(l, nil)
		if f := o.crashed(d.Machine); f != nil {
			return 0, f
		}
		d.Machine.Strict.KernelTouches(&s.Strict, extents)
		for _, x := range extents {
			bytes += min(x.Size, memory.MaxAlloc)
			if x.Size == 0 || (x.Access == space.Read && args.Holds(x.Addr, x.Size)) {
				continue
			}
			if err := d.Check(x.Addr, x.Size, x.Access); err != nil {
				return 0, failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: argument %d (%s), %s: %v", o.fn.name, x.Arg, k.ArgName(x.Arg), space.AccessName(x.Access), err)
			}
		}
	}
	var cost time.Duration
	if k.Duration != nil {
		cost = time.Duration(o.fn.rule.Scaled(int64(k.Duration(l))))
		if f := o.crashed(d.Machine); f != nil {
			return 0, f
		}
	} else {
		cost = d.Machine.KernelTime(o.fn.rule, o.blocks, bytes)
	}
	limit := time.Duration(o.sim.settings.opTimeout.Load())
	if limit == 0 {
		limit = opDefault
	}
	if cost > limit {
		return limit, failed(acl.ACL_ERROR_RT_AICORE_TIMEOUT, "kernel %s takes %v, longer than the %v that an operator may take", o.fn.name, cost, limit)
	}
	k.Do(l, bytes)
	if f := o.crashed(d.Machine); f != nil {
		return cost, f
	}
	d.Machine.Spread(extents, k.Args)
	return cost, nil
}

// crashed returns the failure of a kernel whose library has crashed, in this launch or in one before. The kernel that crashed may have written
// anywhere: no memory is known any more.
func (o *order) crashed(s *device.Machine) *fail.Failure {
	c := o.fn.kernel.Crash()
	if c == nil {
		return nil
	}
	s.Unknowns.Crashed.CompareAndSwap(nil, c)
	s.Unknowns.Any.Store(true)
	if c.Kernel == o.fn.name {
		return failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "%v", c)
	}
	return failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s does not run any more, since its kernel library crashed: %v", o.fn.name, c)
}

// checkArgs checks the addresses among the arguments before the kernel's own functions follow them. Null stands for an
// argument that is not there, except for tiling data.
func (o *order) checkArgs(s *device.Stream, args space.Span, block []byte) *fail.Failure {
	d := s.Context.Device
	for i, a := range o.fn.kernel.Args {
		if a.Kind == device.ArgScalar || a.Size != 8 {
			continue
		}
		p := binary.LittleEndian.Uint64(block[o.fn.kernel.Offset(i):])
		if p == 0 && a.Kind != device.ArgTiling || args.Holds(p, 1) {
			continue
		}
		if err := d.Check(p, 1, argAccess[a.Kind]); err != nil {
			d.Machine.Strict.TaskTouches(&s.Strict, p, 1, argAccess[a.Kind])
			return failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: argument %d (%s), %s: %v", o.fn.name, i, a.Name, space.AccessName(argAccess[a.Kind]), err)
		}
	}
	return nil
}

var argAccess = map[device.ArgKind]uint32{device.ArgInput: space.Read, device.ArgOutput: space.Write, device.ArgInout: space.Read | space.Write, device.ArgWorkspace: space.Read | space.Write, device.ArgTiling: space.Read}

// LaunchKernel launches a kernel whose arguments lie in device memory and are read when it runs.
func (t *Thread) LaunchKernel(funcHandle acl.FuncHandle, numBlocks uint32, argsData acl.Addr, argsSize uint64, stream acl.Stream) acl.Error {
	return t.LaunchKernelV2(funcHandle, numBlocks, argsData, argsSize, nil, stream)
}

// LaunchKernelV2 is LaunchKernel with attributes.
func (t *Thread) LaunchKernelV2(funcHandle acl.FuncHandle, numBlocks uint32, argsData acl.Addr, argsSize uint64, cfg *acl.LaunchKernelCfg, stream acl.Stream) acl.Error {
	o, e := t.prepare(uint64(funcHandle), line(numBlocks), cfg, stream)
	if e != 0 {
		return e
	}
	if argsData == 0 || argsSize == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: %d bytes of arguments at %#x", o.fn.name, argsSize, argsData)
	}
	if t.sim.Locate(argsData).Device != o.stream.Context.Device {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: the arguments at %#x do not lie in the memory of device %d", o.fn.name, argsData, o.stream.Context.Device.ID)
	}
	if e := t.fits(o.fn, argsSize); e != 0 {
		return e
	}
	if mutant.Breaks("device_arguments_are_read_later") {
		return t.launch(o, bytes.Clone(space.Bytes(argsData, argsSize)), argsSize, nil)
	}
	return t.enqueue(o, space.Span{Addr: argsData, Size: argsSize}, false)
}

// LaunchKernelWithHostArgs launches a kernel whose arguments lie in host memory, where the placeholders are patched.
func (t *Thread) LaunchKernelWithHostArgs(funcHandle acl.FuncHandle, numBlocks uint32, stream acl.Stream, cfg *acl.LaunchKernelCfg, hostArgs acl.Addr, argsSize uint64, placeHolderArray *acl.PlaceHolderInfo, placeHolderNum uint64) acl.Error {
	return t.hostArgs(uint64(funcHandle), line(numBlocks), stream, cfg, hostArgs, argsSize, placeHolderArray, placeHolderNum)
}

// LaunchSIMTKernelWithHostArgs is LaunchKernelWithHostArgs with a grid of blocks of threads.
func (t *Thread) LaunchSIMTKernelWithHostArgs(func_ acl.Addr, gridDim, blockDim acl.Dim3, dynUbufSize uint64, stream acl.Stream, cfg *acl.LaunchKernelCfg, hostArgs acl.Addr, argsSize uint64, placeHolderArray *acl.PlaceHolderInfo, placeHolderNum uint64) acl.Error {
	return t.hostArgs(func_, cube(gridDim, blockDim), stream, cfg, hostArgs, argsSize, placeHolderArray, placeHolderNum)
}

// maxArgs bounds the size of an argument block.
const maxArgs = 16 << 20

func (t *Thread) hostArgs(fn uint64, sh shape, stream acl.Stream, cfg *acl.LaunchKernelCfg, args acl.Addr, size uint64, places *acl.PlaceHolderInfo, n uint64) acl.Error {
	o, e := t.prepare(fn, sh, cfg, stream)
	if e != 0 {
		return e
	}
	switch {
	case size > maxArgs || (args == 0) != (size == 0):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: %d bytes of arguments at %#x", o.fn.name, size, args)
	case n > 0 && places == nil:
		return t.absent("placeHolderArray")
	case n > size:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: %d placeholders in %d bytes of arguments", o.fn.name, n, size)
	}
	holders := space.List(places, n)
	for i, p := range holders {
		if (uint64(p.AddrOffset)+8 > size || uint64(p.DataOffset) >= size) && mutant.Breaks("placeholder_outside") {
			return t.launch(o, space.Bytes(args, size), size, nil)
		}
		if uint64(p.AddrOffset)+8 > size || uint64(p.DataOffset) >= size {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: placeholder %d (address at %d, data at %d) does not fit %d bytes of arguments", o.fn.name, i, p.AddrOffset, p.DataOffset, size)
		}
	}
	block := space.Bytes(args, size)
	if mutant.Breaks("placeholder_is_patched") {
		block = bytes.Clone(block)
	}
	if n == 0 {
		return t.launch(o, block, size, nil)
	}
	return t.launch(o, block, size, func(b []byte, dev uint64) {
		for _, p := range holders {
			binary.LittleEndian.PutUint64(b[p.AddrOffset:], dev+uint64(p.DataOffset))
		}
	})
}

// LaunchKernelWithArgsArray launches a kernel with an array of pointers to its arguments.
func (t *Thread) LaunchKernelWithArgsArray(func_ acl.Addr, numBlocks uint32, stream acl.Stream, cfg *acl.LaunchKernelCfg, args *acl.Addr) acl.Error {
	if numBlocks == 0 {
		return t.invalid("numBlocks is 0")
	}
	return t.argsArray(func_, line(numBlocks), stream, cfg, args)
}

// LaunchSIMTKernelWithArgsArray is LaunchKernelWithArgsArray with a grid of blocks of threads.
func (t *Thread) LaunchSIMTKernelWithArgsArray(func_ acl.Addr, gridDim, blockDim acl.Dim3, dynUbufSize uint64, stream acl.Stream, cfg *acl.LaunchKernelCfg, args *acl.Addr) acl.Error {
	return t.argsArray(func_, cube(gridDim, blockDim), stream, cfg, args)
}

func (t *Thread) argsArray(h uint64, sh shape, stream acl.Stream, cfg *acl.LaunchKernelCfg, args *acl.Addr) acl.Error {
	fn, e := t.layout(h)
	if e != 0 {
		return e
	}
	o, e := t.prepare(h, sh, cfg, stream)
	if e != 0 {
		return e
	}
	k := fn.kernel
	if args == nil && len(k.Args) > 0 {
		return t.absent("args")
	}
	block := make([]byte, k.Offset(len(k.Args)))
	for i, p := range space.List(args, uint64(len(k.Args))) {
		if p == 0 {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: the pointer to argument %d (%s) is null", fn.name, i, k.Args[i].Name)
		}
		copy(block[k.Offset(i):], space.Bytes(p, uint64(k.Args[i].Size)))
	}
	return t.launch(o, block, uint64(len(block)), nil)
}
