package api

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Simulator is how the simulator of a runtime is known.
type Simulator struct {
	Library string // its library's file, in the folder of acltrace's libraries
	Symbol  string // that its library exports, and the vendor's does not
	Kernels string // variable of the environment with the files of its kernel libraries
	// KernelSymbol is exported by every kernel library. A library without it is not searched for kernels.
	KernelSymbol string `yaml:"kernel_symbol"`
	Loaded       string // variable of the environment with the file that it appends the kernel libraries to that it loads (internal/kernellib)
	// Beside is the variable of the environment that has it, if it is 1, look for a kernel library beside each binary that a program
	// loads; "" for one that does not. A replay never sets it: the paths in a trace are a stranger's.
	Beside string
	Base   string // variable of the environment with the first address of device memory, in hexadecimal
	Place  string // variable of the environment with the file that says where allocations go
	// Strict is the variable of the environment that has it look for mistakes, where it is 1, and Findings the one with the file that
	// it appends them to; "" for one that finds none.
	Strict, Findings string
	Uninitialised    string // variable of the environment that has it report, if it is 1, results of memory that nothing has written; "" for one that can't
	Model            string // variable of the environment with its cost model: a name, a file or the content of a file; "" for one without
	Clock            string // variable of the environment that has it run in virtual time, if it is "virtual"; "" for one that can't
	Prefix           string // of all its variables
	// Settings are the variables that acltrace sim sets, without the prefix.
	Settings []string
	// Replayed are the variables that a trace may set in a replay, each with a regular expression for its whole value. None is a path.
	Replayed map[string]string
}

// maxVariable is the size of the largest value of a variable that a trace may set.
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

// Decides reports whether a replay sets a variable itself, or leaves it out, whatever the trace says.
func (s *Simulator) Decides(name string) bool {
	return name != "" && slices.Contains([]string{s.Kernels, s.Loaded, s.Beside, s.Place, s.Strict, s.Findings, s.Uninitialised}, name)
}

// Faults is how a runtime tells a program that a task has failed on the device.
type Faults struct {
	Codes  [2]int32 // the least and the greatest error code of the device
	Except []int32  // codes between them that describe a call, and no task
	// Stream and Task are functions that answer with the runtime's ids of the stream and the task that failed, while it tells the
	// program of it; "" for none.
	Stream, Task string
	// Message is a regular expression whose groups stream, task, flip and kernel are what a message tells of the task.
	Message string
}

// Accelerator is what a runtime's devices are called, who makes them, and the preset of package sim/model for one of them.
type Accelerator struct{ Kind, Vendor, Costs string }

// Installed says which files on a machine tell the versions of a runtime and its driver: the first that is there does. And which
// ones tell that the machine has a device.
type Installed struct {
	Homes   []string // variables of the environment with a folder of the runtime
	Folders []string // of the runtime, where no variable names one
	Runtime []string // files in such a folder
	Driver  []string // files of the driver
	Devices []string // patterns
	// Carried is what a file holds, each alone, that has code for the devices in it.
	Carried []string
}
