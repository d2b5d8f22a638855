package acl

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Faults are errors that a program is to meet. Each counts what it is about, in the order of the calls, and strikes once.
type Faults struct {
	mu    sync.Mutex
	calls map[string][]*fault // by function
	tasks map[device.TaskKind][]*fault
	oom   []*fault
	lost  []*fault
}

// fault is one error to come.
type fault struct {
	name    string // of the kernel; "" for any
	at      int64  // number of the one that is hit
	seen    int64
	code    acl.Error
	corrupt bool
	memory  string // what is wrong with a buffer of the kernel: one of badMemory
	pick    uint64 // chooses the buffer
}

// badMemory are the mistakes of a program that a kernel meets in its memory.
var badMemory = []string{freedEarly, outOfBounds}

const (
	freedEarly  = "freed"
	outOfBounds = "outside"
)

// taskKinds are the kinds that a fault may name.
var taskKinds = map[string]device.TaskKind{
	"kernel": device.TaskKernel, "copy": device.TaskCopy, "fill": device.TaskFill, "reduce": device.TaskReduce, "record": device.TaskRecord, "wait": device.TaskWait, "reset": device.TaskReset,
	"notify": device.TaskNotify, "value": device.TaskValue, "host": device.TaskHost, "graph": device.TaskGraph, "overflow": device.TaskOverflow, "free": device.TaskFree, "cache": device.TaskCache,
}

// ParseFaults reads a list of faults, separated by commas or blanks:
//
//	aclrtMalloc:3=207018       the third call of a function fails with a code
//	kernel:NAME:2=507015       the second launch of a kernel fails; NAME may be left out
//	copy:5=507013, fill:1=…    so does a task of another kind
//	copy:5=corrupt             the fifth copy is made, and one byte of it is wrong
//	kernel:1=timeout           the first kernel never ends: it fails when its time is over
//	kernel:5=freed             a buffer of the fifth launch is freed too early; =outside: it is too short
//	kernel:1-1000000=freed     the same for a launch of these, by chance
//	oom:4                      the fourth allocation of device memory finds none
//	lost:100                   the device is lost at the hundredth task
//
// The seed begins the chance.
func ParseFaults(text string, seed uint64) (*Faults, error) {
	f := &Faults{calls: map[string][]*fault{}, tasks: map[device.TaskKind][]*fault{}}
	chance := rand.New(rand.NewPCG(seed, 0))
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		if err := f.parse(item, chance); err != nil {
			return nil, fmt.Errorf("fault %q: %w", item, err)
		}
	}
	return f, nil
}

func (f *Faults) parse(item string, chance *rand.Rand) error {
	what, effect, _ := strings.Cut(item, "=")
	i := strings.LastIndexByte(what, ':')
	if i < 0 {
		return fmt.Errorf("it has no number: NAME:N")
	}
	first, last, ranged := strings.Cut(what[i+1:], "-")
	if !ranged {
		last = first
	}
	n, err := strconv.ParseInt(first, 10, 64)
	m, err2 := strconv.ParseInt(last, 10, 64)
	if err != nil || err2 != nil || n < 1 || m < n {
		return fmt.Errorf("%q is no number from 1, and no range of them", what[i+1:])
	}
	x := &fault{at: n + chance.Int64N(m-n+1), pick: chance.Uint64()}
	what, x.name, _ = strings.Cut(what[:i], ":")
	kind, isTask := taskKinds[what]
	switch {
	case x.name != "" && kind != device.TaskKernel:
		return fmt.Errorf("only kernels have names")
	case what == "oom" && effect == "":
		f.oom = append(f.oom, x)
		return nil
	case what == "lost" && effect == "":
		f.lost = append(f.lost, x)
		return nil
	case kind == device.TaskKernel && effect == "timeout":
		x.code = acl.ACL_ERROR_RT_AICORE_TIMEOUT
	case kind == device.TaskKernel && slices.Contains(badMemory, effect):
		x.memory = effect
	case kind == device.TaskCopy && effect == "corrupt":
		x.corrupt = true
	default:
		code, err := strconv.ParseInt(effect, 10, 32)
		if err != nil || code == 0 {
			return fmt.Errorf("%q is no error code", effect)
		}
		x.code = acl.Error(code)
	}
	if isTask {
		f.tasks[kind] = append(f.tasks[kind], x)
		return nil
	}
	for i := range acl.Model.Funcs {
		if fn := &acl.Model.Funcs[i]; fn.Name == what && fn.RetError && !x.corrupt {
			f.calls[what] = append(f.calls[what], x)
			return nil
		}
	}
	return fmt.Errorf("%s is no function that returns an error, and no kind of task", what)
}

// hit counts one more of what the faults are about, and returns the one that strikes.
func (f *Faults) hit(list []*fault, name string) *fault {
	var struck *fault
	for _, x := range list {
		if x.name != "" && x.name != name {
			continue
		}
		if x.seen++; x.seen == x.at {
			struck = x
		}
	}
	return struck
}

// taskFault returns the fault of the next task of a kind.
func (s *Sim) taskFault(kind device.TaskKind, name string) *fault {
	f := s.opts.Faults
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit(f.tasks[kind], name)
}

// outOfMemory tells whether the next allocation of device memory is to fail.
func (s *Sim) outOfMemory() *fail.Failure {
	f := s.opts.Faults
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.hit(f.oom, ""); x != nil {
		return failed(acl.ACL_ERROR_RT_DEVICE_OOM, "out of device memory, by plan: allocation %d", x.at)
	}
	return nil
}

// loseDevice tells whether the device is lost with the next task.
func (s *Sim) loseDevice() bool {
	f := s.opts.Faults
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit(f.lost, "") != nil
}

// spoil makes a task meet its fault, where one strikes it.
func (s *Sim) spoil(d *device.Device, k *device.Task) {
	if s.opts.Faults == nil {
		return
	}
	if s.loseDevice() {
		s.of(d).lost.Store(true)
	}
	if s.of(d).lost.Load() {
		k.Begin = nil
		k.Run = func(s *device.Stream) (time.Duration, *fail.Failure) {
			return 0, failed(acl.ACL_ERROR_RT_LOST_HEARTBEAT, "device %d was lost, by plan", d.ID)
		}
		return
	}
	x := s.taskFault(k.Kind, k.Name)
	if x == nil {
		return
	}
	run := k.Run
	if !x.corrupt {
		k.Begin = nil
	}
	switch {
	case x.memory != "":
		o, args, own := orderOf(k), k.Args, k.Own
		k.Run = func(s *device.Stream) (time.Duration, *fail.Failure) { return o.runBadly(s, args, own, x) }
	case x.corrupt:
		k.Run = func(s *device.Stream) (time.Duration, *fail.Failure) {
			cost, f := run(s)
			if f == nil {
				corrupt(k.Wrote)
			}
			return cost, f
		}
	default:
		k.Run = func(s *device.Stream) (time.Duration, *fail.Failure) {
			return 0, failed(x.code, "%s %d %s on stream %d fails, by plan", k.Kind, x.at, k.Name, s.ID)
		}
	}
}

// runBadly is run where the program has made a mistake with one of the kernel's buffers.
func (o *order) runBadly(s *device.Stream, args space.Span, own bool, x *fault) (time.Duration, *fail.Failure) {
	d := s.Context.Device
	used := o.buffers(d, args)
	if len(used) == 0 {
		return 0, failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: launch %d fails, by plan: it has no buffer of the device's for which something could be wrong", o.fn.name, x.at)
	}
	b := used[x.pick%uint64(len(used))]
	all, _ := d.Memory.Live.Find(b.Addr)
	if x.memory == outOfBounds {
		b.Size = all.End() - b.Addr + memory.AllocAlign
	} else {
		d.Memory.Free(all.Addr, memory.ByMalloc)
		if o.fn.kernel != nil {
			if cost, f := o.Run(s, args, own); f != nil {
				return cost, f
			}
		}
	}
	return 0, failed(acl.ACL_ERROR_RT_AICORE_EXCEPTION, "kernel %s: a buffer, %s: %v", o.fn.name, space.AccessName(b.Access), d.Check(b.Addr, b.Size, b.Access))
}

// buffers are the parts of allocations that a launch uses: what it declares, or what its arguments point to.
func (o *order) buffers(d *device.Device, args space.Span) (used []space.Extent) {
	block := space.Bytes(args.Addr, args.Size)
	var all []space.Extent
	if k := o.fn.kernel; k != nil && k.Extents != nil {
		all = k.Extents(&device.Launch{Args: block, NumBlocks: o.blocks, Grid: o.grid, Block: o.block}, nil)
	} else {
		for ; len(block) >= 8; block = block[8:] {
			all = append(all, space.Extent{Addr: binary.LittleEndian.Uint64(block), Size: 1, Access: space.Read | space.Write})
		}
	}
	for _, x := range all {
		if r, ok := d.Memory.Live.Find(x.Addr); ok && r.V.How == memory.ByMalloc && x.Size > 0 {
			used = append(used, x)
		}
	}
	return used
}

// corrupt changes one byte, always the same one.
func corrupt(w space.Span) {
	if w.Size > 0 {
		space.Bytes(w.Addr, w.Size)[w.Size/2] ^= 0x80
	}
}

// Call calls a function of the interface by its number, with its arguments as words. The second result is false where it is
// not simulated.
func (t *Thread) Call(fn api.ID, words []uint64) (uint64, bool) {
	if c := t.sim.Strict; c != nil {
		f := acl.Model.Func(fn)
		outer := c.Enter(&t.Strict, f.Name)
		result, ok := t.perform(fn, words)
		c.Leave(&t.Strict, f, words, result, outer)
		return result, ok
	}
	return t.perform(fn, words)
}

// perform is Call without strict mode.
func (t *Thread) perform(fn api.ID, words []uint64) (uint64, bool) {
	if f := t.sim.opts.Faults; f != nil {
		if e := f.call(t, fn); e != 0 {
			return uint64(uint32(e)), true
		}
	}
	if fn >= firstRuntime {
		return t.callRuntime(fn, words)
	}
	return t.dispatch(fn, words)
}

func (f *Faults) call(t *Thread, fn api.ID) acl.Error {
	name := acl.Model.Func(fn).Name
	f.mu.Lock()
	x := f.hit(f.calls[name], "")
	f.mu.Unlock()
	if x == nil {
		return acl.ACL_SUCCESS
	}
	return t.fail(x.code, "%s fails, by plan: call %d", name, x.at)
}
