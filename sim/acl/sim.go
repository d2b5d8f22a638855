// Package acl emulates the AscendCL runtime over the devices of sim/device, from its documented behaviour.
//
// New creates a Sim, which is one process. Each program thread needs a Thread, and its methods are the functions of
// the runtime (the interface acl.API). A Thread is for one system thread; different ones run in parallel. There is
// one file for each section of the API. Close ends all streams and frees all memory.
//
// Sub-packages hold objects and their behaviour without argument checks: graph, kernel, callback, fault and status.
// sim/libascendcl/engine calls this package for C programs.
//
// Device memory is in the address space of this process, at addresses that depend only on the order of calls. Copies,
// fills and declared kernel extents are checked against live allocations. Host addresses can't be checked: a bad one
// is caught as a memory fault.
//
// The package never calls into C, never reads the environment and never ends the process. docs/reference/simulator-behaviour.md lists the
// simulated functions and the choices where the documentation is silent.
package acl

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/callback"
	"github.com/acltrace/acltrace/sim/acl/fault"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

// Options configure a Sim. The zero value is one device without kernels.
type Options struct {
	// VABase is the start address of the first device's memory, a multiple of 2 MiB; 0 for DefaultVABase.
	VABase uint64
	// Reserved is an address range that the caller has mapped without access for the devices. The simulator maps
	// device addresses outside it itself.
	Reserved space.Span
	// Devices is the number of devices; 0 for 1.
	Devices int
	// Visible has the machine's ids of the devices that the process sees, in its numbering; nil for all. See Visible.
	Visible []int32
	// Memory is the size of each device's memory in bytes; 0 for DefaultMemory.
	Memory uint64
	// Place has the wanted addresses of device allocations, in call order. 0 and missing entries allow any address.
	Place []uint64
	// Kernels looks up kernels; nil for none.
	Kernels device.Kernels
	// Beside returns the kernel library for a binary file; nil for none. The field is nil if no such libraries are
	// used.
	Beside func(path string) device.Kernels
	// Operators computes operators; nil for none.
	Operators kernel.Computer
	// Missing is called at the first launch of each unknown kernel; may be nil.
	Missing func(kernel string)
	// NotComputed is called at the first launch of each kernel that declares what it writes and has no code; may be nil.
	NotComputed func(kernel string)
	// Caller calls program functions; nil without a program.
	Caller callback.Caller
	// Model is the cost model; nil for the default preset.
	Model *model.Model
	// Virtual selects virtual time.
	Virtual bool
	// Seed initializes the random part of model times.
	Seed uint64
	// Uninitialised has Unknown report bytes that depend on unwritten device memory.
	Uninitialised bool
	// Documented selects the documentation's answer if the public runtime's code gives another: functions need aclInit,
	// an option that was not set is an error, and a lack of device memory has an error code of its own.
	Documented bool
	// Strict turns on strict mode, which reports errors that only some devices punish; may be nil.
	Strict *Strict
	// Faults are planned errors; nil for none.
	Faults *fault.Faults
	// Log receives warnings, one per line; nil for os.Stderr.
	Log io.Writer
}

// Sim is one simulated process with its devices.
type Sim struct {
	device.Machine
	objects // live objects by handle
	graph.Models

	opts Options
	text space.Arena
	soc  uint64 // address of the SoC name

	life       lifetime
	summary    summary
	messages   messages
	place      placement
	settings   processSettings
	perDevice  []deviceSettings // by id
	visible    []int32          // the machine's ids of the devices, by the process's id
	attributes cannAttributes

	subscriptions callback.Subscriptions
	observers     callback.Observers
	program       programAddresses
	sharing       sync.Once // reports that shared memory is not checked
}

// lifetime counts aclInit and aclFinalize.
type lifetime struct {
	inits         atomic.Int64 // aclInit references
	ended         atomic.Bool  // finalized
	defaultDevice atomic.Int32 // for threads without a device; noDevice for none
}

// placement is the position in Options.Place.
type placement struct {
	mu   sync.Mutex
	next int // index of the next allocation
}

// programAddresses are objects that the program names by its own addresses.
type programAddresses struct {
	args    sync.Map // address of the handle's memory → *argList
	symbols sync.Map // → *hostSymbol
	stubs   sync.Map // → *stubFunc
}

// release is the simulated release.
var release = acl.Model.Runtime.Simulator.Release

// New creates a simulator. Device addresses are reserved at the first use of a device.
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
	s.visible = s.opts.Visible
	if s.visible == nil {
		for id := range int32(s.opts.Devices) {
			s.visible = append(s.visible, id)
		}
	}
	s.opts.Devices = max(len(s.visible), 1) // a machine has a device, also if the process sees none
	if s.opts.Memory == 0 {
		s.opts.Memory = device.DefaultMemory
	}
	if s.opts.Log == nil {
		s.opts.Log = os.Stderr
	}
	if s.opts.Model == nil {
		m, err := model.Load(model.Default)
		if err != nil {
			panic(err) // the preset is embedded
		}
		s.opts.Model = m
	}
	for i := range s.subscriptions.Threads {
		s.subscriptions.Threads[i] = map[uint64]*callback.Subscriber{}
	}
	s.objects.init()
	s.perDevice = make([]deviceSettings, s.opts.Devices)
	s.Machine.Start(device.Options{VABase: s.opts.VABase, Reserved: s.opts.Reserved, Devices: s.opts.Devices, Memory: s.opts.Memory, Model: s.opts.Model,
		Virtual: s.opts.Virtual, Seed: s.opts.Seed, Uninitialised: s.opts.Uninitialised, Log: s.opts.Log, Runtime: s})
	s.soc = s.text.Add(release.Device)
	if s.opts.Strict != nil {
		s.Strict = s.newChecker(s.opts.Strict.Report)
	}
	s.Models.Init(&s.text, s.opts.Caller, s.Strict)
	s.observers.Caller = s.opts.Caller
	return s
}

// Close stops all streams and frees all memory. No call may be running or follow.
func (s *Sim) Close() {
	s.Strict.Close()
	for _, d := range s.Devices {
		s.shutdown(d, true)
	}
	s.physicals.Each(func(p *memory.Physical) { s.physicals.Remove(p.Handle); p.Release() })
	s.Machine.Close()
	s.text.Close()
}

// of returns the settings of a device.
func (s *Sim) of(d *device.Device) *deviceSettings { return &s.perDevice[d.ID] }

// Description describes the simulated device, except its times.
type Description struct {
	SoC      string `json:"soc"`                 // name of the processor
	Memory   uint64 `json:"memory_bytes"`        // memory of a device, in bytes
	Devices  int    `json:"devices_at_most"`     // largest number of devices
	Streams  int    `json:"streams_of_a_device"` // largest number of streams on a device
	Depth    int    `json:"tasks_of_a_stream"`   // largest number of unfinished tasks on a stream
	Events   int    `json:"events"`              // largest number of events
	Notifies int    `json:"notifies"`            // largest number of notifies
	Blocks   int    `json:"blocks_of_a_launch"`  // largest number of blocks in a launch
}

func Describe() Description {
	return Description{SoC: release.Device, Memory: device.DefaultMemory, Devices: device.MaxDevices, Streams: device.MaxStreams, Depth: device.QueueDepth, Events: graph.MaxEvents, Notifies: maxNotifies, Blocks: kernel.MaxBlocks}
}

// noDevice means that threads start without a device.
const noDevice = -1
