package device

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/strict"
)

// memoryKind is a kind of memory.
type memoryKind uint8

const (
	Pageable memoryKind = iota
	Pinned
	OnDevice
	InManaged
)

// location is where memory lies: the device's (dev is set), pinned, or the program's own.
type Location struct {
	Kind   memoryKind
	Device *Device
}

func (s *Machine) Locate(addr uint64) Location {
	for _, d := range s.Devices {
		if d.Memory.Owns(addr) {
			return Location{OnDevice, d}
		}
	}
	if s.Managed.Owns(addr) {
		return Location{InManaged, nil}
	}
	if _, ok := s.Host.Find(addr); ok {
		return Location{Pinned, nil}
	}
	return Location{Pageable, nil}
}

// machineOptions say what is emulated.
type Options struct {
	VABase        uint64     // address of the first device's memory, a multiple of 2 MiB
	Reserved      space.Span // address space that the caller has mapped without access for the devices
	Devices       int
	Memory        uint64 // of each device, in bytes
	Model         *model.Model
	Virtual       bool // all happens in virtual time
	Seed          uint64
	Uninitialised bool
	Log           io.Writer
	Runtime       Runtime
}

// runtimeHooks is the runtime above the devices. None of its methods is called with a lock held.
type Runtime interface {
	TaskFailed(s *Stream, k *Task, f *fail.Failure)
	StreamEnding(s *Stream)
	StreamEnded(s *Stream)
}

// machine is the devices of one process, with the host memory that they reach and their clock.
type Machine struct {
	Options  Options
	Clock    clock
	Strict   *strict.Checker // nil if strict mode is off
	Model    *model.Model
	Devices  []*Device
	Host     memory.Host
	Managed  memory.Managed
	Unknowns Unknowns
	Shares   memory.Shares
	logMu    sync.Mutex
}

// start makes the devices. It reserves no addresses yet.
func (s *Machine) Start(o Options) {
	s.Options, s.Model = o, o.Model
	s.Clock = newRealClock(s)
	if o.Virtual {
		s.Clock = newVirtualClock(s)
	}
	for i := range o.Devices {
		s.Devices = append(s.Devices, newNPU(s, int32(i)))
	}
}

// close gives all memory back. All streams have ended.
func (s *Machine) Close() {
	for _, d := range s.Devices {
		d.Memory.Close()
	}
	s.Shares.Close()
	s.Host.Close()
	s.Managed.Close()
}

// hostThread is what the devices know about a thread of the program.
type HostThread struct {
	Time    time.Duration // virtual time of the thread
	LateBy  *int64        // by how many nanoseconds it is, see Late
	Untimed *int32        // not 0 while its calls take no host time, see Own
	Strict  strict.Thread
}

const (
	// DefaultVABase is where the memory of the first device begins.
	DefaultVABase = 0x124000000000
	// DefaultMemory is the memory of a device.
	DefaultMemory = 64 << 30
	// MaxDevices is the largest number of devices.
	MaxDevices = 16
)

// spendCall lets the host time of a call pass that the model gives as a whole. Entering the call has spent a part of it.
func (s *Machine) SpendCall(t *HostThread, ns int64) {
	s.Clock.spend(t, max(0, ns-s.Model.Host.Call))
}

// waited lets the host time of a wait pass, on top of the time until the device was done, in virtual time. since is the thread's time
// when it began to wait.
func (s *Machine) Waited(t *HostThread, since time.Duration) {
	if s.Options.Virtual && t.Time > since {
		s.Clock.spend(t, s.Model.Host.Sync)
	} else {
		s.SpendCall(t, s.Model.Host.Sync)
	}
}

// kernelTime is the device time of a kernel.
func (s *Machine) KernelTime(rule *model.Kernel, blocks uint32, bytes uint64) time.Duration {
	return time.Duration(s.Model.KernelTime(rule, blocks, bytes))
}

// copyTime is the device time of a copy or a fill.
func (s *Machine) CopyTime(kind model.CopyKind, n uint64) time.Duration {
	return time.Duration(s.Model.CopyTime(kind, n))
}

func (s *Machine) Log(format string, a ...any) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	fmt.Fprintf(s.Options.Log, "aclsim: "+format+"\n", a...)
}

// checked returns the thread for strict mode, nil for a nil thread.
func (t *HostThread) checked() *strict.Thread {
	if t == nil {
		return nil
	}
	return &t.Strict
}
