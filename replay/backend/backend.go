// Package backend describes everything that a trace can be replayed on.
//
// A Backend implements the contract below: the runtime's simulator, a shared library, nothing at all, or a simulation in virtual time.
// Each has its own file, with its row for Kinds. To add a backend, write such a file and add its row.
//
// The command line takes names and conflicting options from the table. Package compile asks a Backend for its placement, package replay
// for the library, trust and clock. This package loads no library, starts no process and reads no trace.
package backend

import (
	"fmt"
	"os"

	"github.com/acltrace/acltrace/api"
)

// A Backend executes a plan's calls, or schedules them. Its methods return the same values at every call.
//
// Clock: on a RealClock the player makes each call, and a replay returns once all of them have. On a VirtualClock no call is made: package
// whatif computes when each call and task would begin and end, and none of the other methods is called.
//
// Placement: recorded addresses are in arguments and payloads. A backend that places allocations where they were needs no
// relocation. Otherwise the compiler relocates the words that it knows to be addresses.
//
// Environment: each player process sets the variables before it loads the library. They may name only files in the replay's folder.
//
// Trust: a trace's kernels and calls are a stranger's code. Without NeedsTrust the backend promises that all run in the player's sandbox.
type Backend interface {
	// Clock returns the clock that the calls run by.
	Clock() Clock
	// Library returns the shared library's absolute path for the player, or NullName.
	Library() (string, error)
	// Placement returns how the library puts device memory at wanted addresses.
	Placement() Placement
	// Environment returns the variables that Placement needs, NAME=value. base is the start of the addresses for device memory, 0 for the
	// library's own.
	Environment(base uint64) []string
	// NeedsTrust reports whether recorded calls and kernels would run on a device with the user's rights.
	NeedsTrust() bool
	// Computes reports whether calls have effects. Without effects there is no memory to fill and no result to compare.
	Computes() bool
}

// Clock is a replay's clock.
type Clock int

// The clocks.
const (
	RealClock    Clock = iota // the machine's
	VirtualClock              // computed by a cost model
)

// Placement is how a library puts device memory at wanted addresses.
type Placement int

// The placements.
const (
	Nowhere Placement = iota // it does not
	ByList                   // the player does it, given the recorded addresses (player/place.h); it can't move memory
	ByCall                   // the player asks for an address before each allocation (aclsim/place.h)
)

// A Kind is a row in Kinds.
type Kind struct {
	Name     string   // on the command line, "" for a kind that is named by a path
	Text     string   // what it stands for, in the help of --backend
	Options  []string // replay options for this kind alone
	Excludes []string // replay options without meaning for it
	Because  string   // why they have none

	takes func(name string, m *api.Model) bool // for names besides Name, may be nil
	make  func(name string, m *api.Model) Backend
}

// Kinds are all backends. The first one that takes a name has it.
var Kinds = []Kind{simulatorKind, virtualKind, nullKind, libraryKind}

// KindOf returns the kind that a name stands for.
func KindOf(name string, m *api.Model) *Kind {
	for i := range Kinds {
		if k := &Kinds[i]; k.Name != "" && name == k.Name || k.takes != nil && k.takes(name, m) {
			return k
		}
	}
	return nil // never: libraryKind takes every name
}

// New returns the backend with a name: a kind's name, a library's path, or "" for the simulator.
func New(name string, m *api.Model) Backend { return KindOf(name, m).make(name, m) }

// Check returns an error if the library that a name stands for does not exist. The simulator is part of the program.
func Check(name string) error {
	if name == "" || KindOf(name, nil).Name == name {
		return nil
	}
	if _, err := os.Stat(name); err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	return nil
}
