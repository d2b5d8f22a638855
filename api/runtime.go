package api

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Runtime describes a runtime as a whole. It holds the keys of the runtime's runtime.yaml that acltrace needs to run.
type Runtime struct {
	Title   string // name in help texts
	Backend string // name of the machine's own library, for a replay
	// Shim is the file of the library that is loaded into programs to record them.
	Shim        string
	Accelerator Accelerator
	Installed   Installed
	Device      Window // addresses that the driver owns; zero for none
	// DeviceName is the function that returns the name of the device as text, "" for none.
	DeviceName string `yaml:"device_name"`
	// Environment lists the variables that a trace keeps, and prefixes of variables, which end in "_".
	Environment []string
	// Exhausted is the range of error codes for a valid call that ran out of a resource.
	Exhausted [2]int32
	// Pending is the error code of a query about incomplete work, 0 for none.
	Pending int32
	// Refused is the error code of calls made inside a host callback, 0 if they are allowed.
	Refused int32
	// Constants is the largest handle that is a constant of the runtime, such as a default stream.
	Constants uint64
	// OwnStream is the constant for the thread's own default stream, 0 for none.
	OwnStream uint64 `yaml:"own_stream"`
	// NonBlocking is the flag of streams that do not synchronize with the default stream of their context. 0 if default
	// streams wait for no other stream.
	NonBlocking uint64 `yaml:"non_blocking"`
	// Numbers are the kinds of objects that kernels receive as 8-byte handles among their arguments.
	Numbers   []Object
	Simulator Simulator
	Faults    Faults
}

// Accelerator names the devices of a runtime, their vendor and their cost model, a preset of package sim/model.
type Accelerator struct{ Kind, Vendor, Costs string }

// Installed lists the files that show the versions of a runtime and its driver, and whether the machine has a device.
// The first file that exists decides.
type Installed struct {
	Homes   []string // environment variables with the folder of the runtime
	Folders []string // folders of the runtime if no variable is set
	Runtime []string // version files in such a folder
	Driver  []string // version files of the driver
	Devices []string // patterns of device files
	// Carried are byte strings that only binaries with code for these devices contain.
	Carried []string
}

// Window is a range of addresses that the driver owns. Memory in it is device memory unless the runtime returned it as
// host memory.
type Window struct{ From, To uint64 }

// Faults describes how a runtime reports a task that failed on the device.
type Faults struct {
	Codes  [2]int32 // smallest and largest error code of the device
	Except []int32  // codes in this range that describe a call instead
	// Stream and Task are functions that return the runtime's ids of the failed task and its stream during an exception
	// callback, "" for none.
	Stream, Task string
	// Message is a regular expression with the groups stream, task, flip and kernel. It matches error messages.
	Message string
}

// Simulator says how acltrace finds and controls the simulator of a runtime. Fields named after a setting hold the
// environment variable that sets it, "" if the simulator lacks it.
type Simulator struct {
	Library string // file in the folder of acltrace's libraries
	Symbol  string // exported by the simulator and not by the vendor's library
	Prefix  string // of all its variables
	Kernels string // files of kernel libraries
	// KernelSymbol is exported by every kernel library. Libraries without it are not searched for kernels.
	KernelSymbol string `yaml:"kernel_symbol"`
	Loaded       string // file to which it appends the kernel libraries that it loads (internal/kernellib)
	// Beside makes it look for a kernel library beside each binary that a program loads, if it is 1. A replay never sets
	// it, because the paths in a trace are not trusted.
	Beside           string
	Base             string // first address of device memory, in hexadecimal
	Place            string // file with the addresses of allocations
	Strict, Findings string // 1 enables strict mode; file to which it appends findings
	Uninitialised    string // 1 reports results computed from memory that nothing has written
	Model            string // cost model: a name, a file or the content of a file
	Clock            string // "virtual" for virtual time
	// Settings are the variables that acltrace sim sets, without the prefix.
	Settings []string
	// Replayed are the variables that a trace may set in a replay, each with a regular expression for the whole value. None
	// is a path.
	Replayed map[string]string
}

// maxVariable limits the bytes of a variable that a trace sets.
const maxVariable = 64 << 10

// CheckVariable returns an error unless a trace may set a variable of the simulator to a value in a replay.
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
