// Package sim emulates the AscendCL runtime and the devices behind it, from its documented behaviour. It is plain Go and
// knows no C: device memory, streams, events, copies, kernels and errors are one file each.
//
// A Sim is a process: it has devices, contexts, streams and the memory of them all. Each thread of the program makes a
// Thread, whose methods are the functions of the runtime (acl.API); a Thread belongs to one thread at a time, different
// ones may be used at once. Streams run on goroutines of their own, beside the callers.
//
// Device memory lies in the address space of this process, at addresses that depend on nothing but the order of the
// calls. Every access of a copy, a fill or a kernel's declared extents is checked against the live allocations. Host
// addresses are the program's own memory and can't be checked: a bad one is caught as the fault that it raises.
//
// The package never calls into C, never looks at the environment and never ends the process. What is simulated, and which
// choice was made where the documents are silent, is listed in docs/simulator.md.
package acl

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

// Options say what is simulated. The zero value is one device with nothing known about kernels.
type Options struct {
	// VABase is the address of the first device's memory, a multiple of 2 MiB; 0 stands for DefaultVABase.
	VABase uint64
	// Reserved is address space that the caller has mapped without access for the devices. Where a device's addresses are
	// not in it, the simulator maps them itself.
	Reserved space.Span
	// Devices is the number of devices; 0 stands for 1.
	Devices int
	// Memory is the size of each device's memory in bytes; 0 stands for DefaultMemory.
	Memory uint64
	// Place holds the addresses of the allocations of device memory, in the order of the calls. 0 means that an
	// allocation may lie anywhere, as may those behind the end of the list.
	Place []uint64
	// Kernels knows what the kernels do; nil for none.
	Kernels device.Kernels
	// Beside returns the kernels of the library that belongs to a binary's file, nil for none. It is nil if libraries are not looked for
	// beside the binaries that programs load.
	Beside func(path string) device.Kernels
	// Missing is called at the first launch of each kernel that no library knows; nil for not.
	Missing func(kernel string)
	// Caller calls functions of the program; nil where there is no program to call.
	Caller Caller
	// Model tells how long tasks take on the device; nil stands for the default preset.
	Model *model.Model
	// Virtual has everything happen in virtual time: see virtualClock.
	Virtual bool
	// Seed begins the chance in the model's times.
	Seed uint64
	// Uninitialised has Unknown report bytes that depend on device memory which nothing has written.
	Uninitialised bool
	// Strict has the simulator look for what a runtime may let pass and a device punishes later; nil for not.
	Strict *Strict
	// Faults are errors that the program is to meet; nil for none.
	Faults *Faults
	// Log receives warnings, a line each; nil stands for os.Stderr.
	Log io.Writer
}

// Sim is one simulated process with its devices.
type Sim struct {
	device.Machine
	objects // live objects of the program, by handle

	opts Options
	text space.Arena
	soc  uint64 // address of the name of the SoC

	life       lifetime
	messages   messages
	place      placement
	settings   processSettings
	perDevice  []deviceSettings // by id
	attributes cannAttributes

	captures      captures
	models        atomic.Uint64 // made so far
	subscriptions subscriptions
	observers     observers
	program       programAddresses
}

// lifetime counts what aclInit begins and aclFinalize ends.
type lifetime struct {
	inits         atomic.Int64 // references by aclInit
	ended         atomic.Bool  // finalized after an init
	defaultDevice atomic.Int32 // of threads that set none; noDevice for none
}

// placement is the progress in Options.Place.
type placement struct {
	mu   sync.Mutex
	next int // number of the next allocation
}

// programAddresses are objects that the program names by addresses of its own.
type programAddresses struct {
	args    sync.Map // address of the handle's memory → *argList
	symbols sync.Map // → *hostSymbol
	stubs   sync.Map // → *stubFunc
}

const socName = "Ascend910B1"

// New makes a simulator. The address space of a device is reserved when a program first uses the device.
func New(o *Options) *Sim {
	s := &Sim{}
	s.life.defaultDevice.Store(noDevice)
	if o != nil {
		s.opts = *o
	}
	if s.opts.VABase == 0 {
		s.opts.VABase = device.DefaultVABase
	}
	if s.opts.Devices <= 0 {
		s.opts.Devices = 1
	}
	s.opts.Devices = min(s.opts.Devices, device.MaxDevices)
	if s.opts.Memory == 0 {
		s.opts.Memory = device.DefaultMemory
	}
	if s.opts.Log == nil {
		s.opts.Log = os.Stderr
	}
	if s.opts.Model == nil {
		m, err := model.Load(model.Default)
		if err != nil {
			panic(err) // it is built in
		}
		s.opts.Model = m
	}
	for i := range s.subscriptions.threads {
		s.subscriptions.threads[i] = map[uint64]*subscriber{}
	}
	s.objects.init()
	s.perDevice = make([]deviceSettings, s.opts.Devices)
	s.Machine.Start(device.Options{VABase: s.opts.VABase, Reserved: s.opts.Reserved, Devices: s.opts.Devices, Memory: s.opts.Memory, Model: s.opts.Model,
		Virtual: s.opts.Virtual, Seed: s.opts.Seed, Uninitialised: s.opts.Uninitialised, Log: s.opts.Log, Runtime: s})
	s.soc = s.text.Add(socName)
	if s.opts.Strict != nil {
		s.Strict = s.newChecker(s.opts.Strict.Report)
	}
	return s
}

// Close stops all streams and gives all memory back. No thread may be inside a call, and none may make another.
func (s *Sim) Close() {
	s.Strict.Close()
	for _, d := range s.Devices {
		s.shutdown(d, true)
	}
	s.physicals.Each(func(p *memory.Physical) { s.physicals.Remove(p.Handle); p.Release() })
	s.Machine.Close()
	s.text.Close()
}
