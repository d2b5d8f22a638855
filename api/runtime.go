package api

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Runtime describes a runtime as a whole. It holds the keys in runtime.yaml that acltrace needs to run.
type Runtime struct {
	Title   string // name in help texts
	Backend string // names the machine's own library for a replay
	// Shim is the library file that is loaded into programs to record them.
	Shim        string
	Accelerator Accelerator
	Installed   Installed
	Device      Window // addresses that the driver owns; zero for none
	// DeviceName is the function that returns the device's name as text, "" for none.
	DeviceName string `yaml:"device_name"`
	// DeviceFacts are the functions that report facts about a device, which the recorder keeps.
	DeviceFacts []DeviceFact `yaml:"device_facts"`
	// Environment lists the variables that a trace keeps, and prefixes of variables, which end in "_".
	Environment []string
	// Exhausted is the error code range for a valid call that ran out of a resource.
	Exhausted [2]int32
	// Pending is the error code by which a query reports incomplete work, 0 for none.
	Pending int32
	// Idle is the error code by which a call that polls callbacks reports that none was due in time, 0 for none.
	Idle int32
	// Busy is the error code by which a call refuses to change or end an object while launched work uses it, 0 for none. Whether it does
	// depends on the device's speed.
	Busy int32
	// Classes has the error codes of each class.
	Classes ErrorClasses
	// Causes has the error codes that package blame explains by an earlier call.
	Causes Causes
	// Refused is the error code for calls inside a host callback, 0 if they are allowed.
	Refused int32
	// Constants is the largest constant handle, such as a default stream.
	Constants uint64
	// OwnStream is the constant for the thread's own default stream, 0 for none.
	OwnStream uint64 `yaml:"own_stream"`
	// NonBlocking is the stream flag that disables synchronization with the context's default stream. 0 if default streams
	// wait for no other stream.
	NonBlocking uint64 `yaml:"non_blocking"`
	// Staged means that an asynchronous copy from host memory that is not pinned takes the data at the call. Otherwise it first waits for
	// the stream.
	Staged bool
	// Numbers are the object kinds that kernels receive as 8-byte handles among their arguments.
	Numbers   []Object
	Simulator Simulator
	Faults    Faults
	Below     Below
	Above     `yaml:",inline"`
}

// Above has the libraries above the runtime.
type Above struct {
	// Operators are the file names of the libraries with operators, without versions. Their functions call the runtime.
	Operators []string
	// MarkingFrameworks are the file names of the libraries of frameworks that make marks only for a tool.
	MarkingFrameworks []string `yaml:"marking_frameworks"`
}

// Below lists the software under and beside a runtime that can move data without a call of the runtime.
type Below struct {
	Libraries []string // file names without versions
	// Prefixes are those of function names. ^ at the end: a capital letter follows. They count in these libraries and, for functions outside
	// the model, in the runtime's own.
	Prefixes []string
}

// Has reports whether a file name, with or without a version, is one of Libraries.
func (b *Below) Has(file string) bool {
	return slices.ContainsFunc(b.Libraries, func(n string) bool { return named(file, n) })
}

// Accelerator names a runtime's devices, their vendor and their cost model, a preset in package sim/model.
type Accelerator struct {
	Kind, Vendor, Costs string
	Streams             int // that a device has for captured graphs, 0 if unknown
}

// A DeviceFact is an output of a function that identifies or describes a device.
type DeviceFact struct {
	Function string
	Fact     string // field of format.ProcessDevice: uuid, pci, host_number or memory_bytes
	Value    string // output parameter
	Device   string // parameter with the device's number, "" for the device that the thread has selected
	Selector string // parameter that selects the output's meaning, "" for none
	Selects  uint64 // value of Selector
	Prefix   string // of a UUID's text
	Unless   string // environment variable in whose processes Device has another numbering, "" for none
}

// Installed lists the files that show which runtime and driver versions and devices the machine has.
// The first file that exists decides.
type Installed struct {
	Homes   []string // environment variables with the runtime's folder
	Folders []string // the runtime's folders if no variable is set
	Runtime []string // version files in such a folder
	Driver  []string // the driver's version files
	// Libraries are further folders with the runtime's library, which the loader may not search.
	Libraries []string
	Devices   []string // device file patterns
	// Carried are byte strings that only binaries with code for these devices contain.
	Carried []string
}

// Window is an address range that the driver owns. Memory in it is device memory unless the runtime returned it as
// host memory.
type Window struct{ From, To uint64 }

// A Capacity is a pair of parameter names: the value of Size may not exceed that of Capacity.
type Capacity struct{ Size, Capacity string }

// ErrorClass says what an error code means for work on the device.
type ErrorClass uint8

// The classes.
const (
	CallRefused ErrorClass = iota // the call was invalid or not possible, and did nothing
	DeviceFault                   // a task or the device failed, whichever call reports it
	TimedOut                      // the host stopped waiting; nothing is known to have failed
	WorkState                     // earlier work is not complete, was ended or aborted, or its capture was invalidated by another call
)

// ErrorClasses lists error codes by class. Codes that are in no list are of refused calls.
type ErrorClasses struct {
	Fault, Timeout, State []int32
	// FaultRange has the smallest and largest code of further device faults: codes that are unknown, because the runtime is newer.
	FaultRange [2]int32 `yaml:"fault_range"`
	// Capture has the codes of calls that a capture refused, or that met a broken capture.
	Capture []int32
}

// Causes lists the error codes of calls that an earlier call, or its absence, made invalid.
type Causes struct {
	NoContext     []int32 `yaml:"no_context"`    // the thread has no device or context
	OtherContext  []int32 `yaml:"other_context"` // an object belongs to another device or context than the thread's
	Uninitialized []int32 // the runtime is not initialized, or not any more
	Reinitialized []int32 // the runtime is initialized already
	Refinalized   []int32 // the runtime was finalized already
	// Capacities are the parameters that limit other parameters of the same function.
	Capacities []Capacity
}

// Faults describes how a runtime reports a task that failed on the device.
type Faults struct {
	// Stops: each failed task stops its context, see ReplayRules.Stops.
	Stops bool
	// Stream and Task are functions that return the runtime's ids for the failed task and its stream during an exception
	// callback, "" for none.
	Stream, Task string
	// Message is a regular expression with the groups stream, task, flip and kernel. It matches error messages.
	Message string
}

// Simulator says how acltrace finds and controls a runtime's simulator. A field for a setting holds the environment variable
// that sets it, "" if the simulator lacks the setting.
type Simulator struct {
	Library string // file in the folder of acltrace's libraries
	// Files are the other files that belong to it, in the same folder: links to the library, and its engine. From the keys in build.
	Files   []string `yaml:"-"`
	Symbol  string   // exported by the simulator and not by the vendor's library
	Prefix  string   // for all its variables
	Kernels string   // kernel library files
	// KernelSymbol is exported by every kernel library. Libraries without it are not searched for kernels.
	KernelSymbol string `yaml:"kernel_symbol"`
	Loaded       string // file to which it appends the kernel libraries that it loads (internal/kernellib)
	// Beside makes it look for a kernel library beside each binary that a program loads, if it is 1. A replay never sets
	// it, because the paths in a trace are not trusted.
	Beside           string
	Visible          string // devices that a process sees; a replay ignores it, as the recorded numbers are the process's
	Base             string // first device address, in hexadecimal
	Arena            Arena  // of device memory
	Managed          Arena  // of memory that host and devices share; without one it is in Arena
	Reserved         Arena  // of reserved addresses
	Place            string // file with allocation addresses
	Strict, Findings string // 1 enables strict mode; file to which it appends findings
	Uninitialised    string // 1 reports results computed from memory that nothing has written
	Model            string // cost model: a name, a file or its content
	Clock            string // "virtual" for virtual time
	Release          Release
	Toolkit          Toolkit
	// Settings are the variables that acltrace sim sets, without the prefix.
	Settings []string
	// Replayed are the variables that a trace may set in a replay, each with a regular expression for the whole value. None
	// is a path.
	Replayed map[string]string
}

// Virtual reports whether a simulator with these environment variables ran in virtual time. Each process has a virtual clock of its own.
func (s *Simulator) Virtual(env map[string]string) bool {
	return s.Clock != "" && env[s.Clock] == "virtual"
}

// Toolkit is the folder that programs take for the vendor's toolkit: see internal/artifacts (Lay).
type Toolkit struct {
	Folder    string            // beside the simulator's library, "" for none
	Libraries string            // its folder with libraries
	Script    string            // sets the variables in a shell
	Variables map[string]string // environment variables for paths in it
}

// Release is the vendor's release that a simulator takes the place of. Its values are what the functions for versions and names return.
type Release struct {
	Toolkit   string // version of the toolkit
	Interface string // version of the interface
	Device    string // name of the device
}

// Arena describes the addresses at which a simulator can place memory on request. The zero value means that there are none.
type Arena struct {
	At     uint64 // first address, 0 for Simulator.Base
	After  uint64 // distance from there
	Size   uint64 // bytes for each device
	Stride uint64 // distance between the devices, 0 if all share one range
	Align  uint64 // of addresses, 0 for the alignment of all device memory
}

// maxVariable limits the bytes in a variable that a trace sets.
const maxVariable = 64 << 10

// CheckVariable returns an error unless a trace may set a simulator variable to a value in a replay.
func (s *Simulator) CheckVariable(name, value string) error {
	syntax, ok := s.Replayed[name]
	switch {
	case !ok:
		return errors.New("a trace can't set it")
	case len(value) > maxVariable:
		return fmt.Errorf("%d bytes: at most %d are allowed", len(value), maxVariable)
	}
	// (?s): a value in JSON may have several lines.
	if !regexp.MustCompile(`(?s)\A(?:` + syntax + `)\z`).MatchString(value) {
		return errors.New("a trace can't set it to this value")
	}
	return nil
}

// Decides reports whether a replay sets or clears a variable itself and ignores the value in the trace.
func (s *Simulator) Decides(name string) bool {
	return name != "" && slices.Contains([]string{s.Kernels, s.Loaded, s.Beside, s.Place, s.Strict, s.Findings, s.Uninitialised}, name)
}
