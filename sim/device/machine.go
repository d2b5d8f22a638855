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

// memoryKind is the kind of memory at an address.
type memoryKind uint8

const (
	Pageable memoryKind = iota
	Pinned
	OnDevice
	InManaged
)

// Location is the kind of memory at an address, and its device if Kind is OnDevice.
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

// Options configure a Machine.
type Options struct {
	VABase        uint64     // start address of the first device's memory; a multiple of 2 MiB
	Reserved      space.Span // address range that the caller has mapped without access for the devices
	Devices       int
	Memory        uint64 // bytes on each device
	Model         *model.Model
	Virtual       bool // use virtual time
	Seed          uint64
	Uninitialised bool
	Log           io.Writer
	Runtime       Runtime
}

// Runtime is the layer above the devices. Its methods are called without locks held.
type Runtime interface {
	TaskFailed(s *Stream, k *Task, f *fail.Failure)
	StreamEnding(s *Stream)
	StreamEnded(s *Stream)
}

// Machine holds the devices of one process, the host memory that they reach, and the clock.
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

// Start creates the devices. It reserves no addresses yet.
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

// Close frees all memory. All streams must have ended.
func (s *Machine) Close() {
	for _, d := range s.Devices {
		d.Memory.Close()
	}
	s.Shares.Close()
	s.Host.Close()
	s.Managed.Close()
}

// HostThread is the device's view on a program thread.
type HostThread struct {
	Time    time.Duration // virtual time
	LateBy  *int64        // nanoseconds by which the thread is late; may be nil
	Untimed *int32        // while not 0, calls take no host time; may be nil
	Strict  strict.Thread
}

const (
	// DefaultVABase is the start address of the first device's memory.
	DefaultVABase = 0x124000000000
	// DefaultMemory is the memory size of a device.
	DefaultMemory = 64 << 30
	// MaxDevices is the largest number of devices.
	MaxDevices = 16
)

// SpendCall adds the host time of a whole call, in nanoseconds. Enter has added a part of it already.
func (s *Machine) SpendCall(t *HostThread, ns int64) {
	s.Clock.spend(t, max(0, ns-s.Model.Host.Call))
}

// Waited adds the host time of a wait in virtual time, after the device was done. since is the thread's time before
// the wait.
func (s *Machine) Waited(t *HostThread, since time.Duration) {
	if s.Options.Virtual && t.Time > since {
		s.Clock.spend(t, s.Model.Host.Sync)
	} else {
		s.SpendCall(t, s.Model.Host.Sync)
	}
}

// KernelTime returns the device time of a kernel.
func (s *Machine) KernelTime(rule *model.Kernel, blocks uint32, bytes uint64) time.Duration {
	return time.Duration(s.Model.KernelTime(rule, blocks, bytes))
}

// CopyTime returns the device time of a copy or a fill.
func (s *Machine) CopyTime(kind model.CopyKind, n uint64) time.Duration {
	return time.Duration(s.Model.CopyTime(kind, n))
}

func (s *Machine) Log(format string, a ...any) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	fmt.Fprintf(s.Options.Log, "aclsim: "+format+"\n", a...)
}

// checked returns the strict-mode state of the thread; nil for a nil thread.
func (t *HostThread) checked() *strict.Thread {
	if t == nil {
		return nil
	}
	return &t.Strict
}
