package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Faults are planned errors. Each fault counts matching calls or tasks and strikes once.
type Faults struct {
	mu      sync.Mutex
	planned map[string][]*Fault // by function, task kind, OutOfMemory or LostDevice
}

// Faults that are neither calls nor tasks.
const (
	OutOfMemory = "oom"
	LostDevice  = "lost"
)

// Fault is one planned error.
type Fault struct {
	name    string // kernel name; "" for any
	At      int64  // number of the call or task that fails
	seen    int64
	Code    acl.Error
	Corrupt bool
	Memory  string // buffer mistake, one of BadMemory
	Pick    uint64 // selects the buffer
}

// BadMemory are the possible buffer mistakes.
var BadMemory = []string{FreedEarly, OutOfBounds}

const (
	FreedEarly  = "freed"
	OutOfBounds = "outside"
)

// taskKinds are the task kinds that a fault can name.
var taskKinds = []device.TaskKind{device.TaskKernel, device.TaskCopy, device.TaskFill, device.TaskReduce, device.TaskRecord, device.TaskWait, device.TaskReset,
	device.TaskNotify, device.TaskValue, device.TaskHost, device.TaskGraph, device.TaskOverflow, device.TaskFree, device.TaskCache}

// Parse parses a list of faults, separated by commas or blanks:
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
// seed initializes the random choices.
func Parse(text string, seed uint64) (*Faults, error) {
	f := &Faults{planned: map[string][]*Fault{}}
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
		return fmt.Errorf("want NAME:N or NAME:N-M")
	}
	first, last, ranged := strings.Cut(what[i+1:], "-")
	if !ranged {
		last = first
	}
	n, err := strconv.ParseInt(first, 10, 64)
	m, err2 := strconv.ParseInt(last, 10, 64)
	if err != nil || err2 != nil || n < 1 || m < n {
		return fmt.Errorf("invalid number %q: want N or N-M, from 1 on", what[i+1:])
	}
	x := &Fault{At: n + chance.Int64N(m-n+1), Pick: chance.Uint64()}
	what, x.name, _ = strings.Cut(what[:i], ":")
	kind, other := device.TaskKind(what), what == OutOfMemory || what == LostDevice
	switch {
	case x.name != "" && kind != device.TaskKernel:
		return fmt.Errorf("a name is for kernels only: want kernel:NAME:N")
	case other && effect != "":
		return fmt.Errorf("%s can't have an effect: want %[1]s:N", what)
	case other:
	case kind == device.TaskKernel && effect == "timeout":
		x.Code = acl.ACL_ERROR_RT_AICORE_TIMEOUT
	case kind == device.TaskKernel && slices.Contains(BadMemory, effect):
		x.Memory = effect
	case kind == device.TaskCopy && effect == "corrupt":
		x.Corrupt = true
	default:
		code, err := strconv.ParseInt(effect, 10, 32)
		if err != nil || code == 0 {
			return fmt.Errorf("invalid effect %q: want an error code, for a copy also corrupt, for a kernel also timeout, freed or outside", effect)
		}
		x.Code = acl.Error(code)
	}
	fn := acl.Model.Lookup(what)
	if !other && !slices.Contains(taskKinds, kind) && (fn == nil || !fn.RetError) {
		return fmt.Errorf("%s is neither a function that returns an error nor a kind of task", what)
	}
	f.planned[what] = append(f.planned[what], x)
	return nil
}

// Hit counts a call, a task with its kernel's name, or another event, and returns the fault that strikes it; nil for
// none. f may be nil.
func (f *Faults) Hit(what, name string) (struck *Fault) {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.planned[what] {
		if x.name != "" && x.name != name {
			continue
		}
		if x.seen++; x.seen == x.At {
			struck = x
		}
	}
	return struck
}

// Corrupt changes one byte, always the same one.
func Corrupt(w space.Span) {
	if w.Size > 0 {
		space.Bytes(w.Addr, w.Size)[w.Size/2] ^= 0x80
	}
}
