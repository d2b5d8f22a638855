// Package backend holds the libraries that a plan can be played on.
//
// A Backend states what the compiler and a replay must know of a library before they use it. There are three: the runtime's simulator, a
// library of the user's, and Null, which calls nothing. Package compile asks for placement, package replay for the library and for trust.
// Virtual time is no backend: replay/whatif schedules tasks of a timeline and makes no calls.
//
// This package loads no library and starts no process.
package backend

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/artifacts"
)

// A Backend is a library with the traced runtime's interface. Its methods return the same values at every call.
type Backend interface {
	// Library returns the absolute path of the shared library for the player, or NullName.
	Library() (string, error)
	// Placement returns how the library puts device memory at wanted addresses.
	Placement() Placement
	// NeedsTrust reports whether calls and kernels of a trace would run on a device with the user's rights. Such a replay needs the user's
	// word, and has no sandbox.
	NeedsTrust() bool
	// Computes reports whether calls have effects. Without effects there is no memory to fill and no result to compare.
	Computes() bool
	// Environment returns the variables that Placement needs in each process of the player, NAME=value. The first recorded address of
	// device memory is low; move asks for other addresses than the recorded ones.
	Environment(low uint64, move bool) []string
}

// Placement is how a library puts device memory at wanted addresses.
type Placement int

// The ways of placement.
const (
	Nowhere Placement = iota // it does not
	ByList                   // the player knows how, given a list of the recorded addresses (player/place.h); it can't move memory
	ByCall                   // the player asks for an address before each allocation (aclsim/place.h)
)

// NullName is the name of Null on the command line and for the player.
const NullName = "null"

// New returns the backend of a name: the path of a library, NullName, or "" for the simulator of the model's runtime.
func New(name string, m *api.Model) Backend {
	switch {
	case name == NullName:
		return Null{}
	case name == "" || artifacts.Simulates(m, name):
		return Simulator{m, name}
	}
	return Library{name}
}

// Check returns an error if the library of a backend does not exist. The simulator is part of the program.
func Check(name string) error {
	if name == "" || name == NullName {
		return nil
	}
	if _, err := os.Stat(name); err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	return nil
}

// Simulator is the simulator of a runtime.
type Simulator struct {
	Model *api.Model
	Path  string // of another build of the simulator, "" for the one of this program
}

// Library implements Backend.
func (s Simulator) Library() (string, error) {
	if s.Path != "" {
		return filepath.Abs(s.Path)
	}
	return artifacts.Path(s.Model.Simulator.Library)
}

// Placement implements Backend.
func (s Simulator) Placement() Placement { return ByCall }

// NeedsTrust implements Backend.
func (s Simulator) NeedsTrust() bool { return false }

// Computes implements Backend.
func (s Simulator) Computes() bool { return true }

// moveBy is the distance by which all device memory is moved.
const moveBy = 0x10000000000

// Environment implements Backend. It also removes the user's own list of addresses.
func (s Simulator) Environment(low uint64, move bool) []string {
	sim := &s.Model.Simulator
	env := []string{sim.Place + "="}
	if move {
		const unit = 2 << 20
		env = append(env, fmt.Sprintf("%s=%#x", sim.Base, low/unit*unit+moveBy))
	}
	return env
}

// Library is a library of the user's, as that of a device.
type Library struct{ Path string }

// Library implements Backend.
func (l Library) Library() (string, error) { return filepath.Abs(l.Path) }

// Placement implements Backend.
func (l Library) Placement() Placement { return ByList }

// NeedsTrust implements Backend.
func (l Library) NeedsTrust() bool { return true }

// Computes implements Backend.
func (l Library) Computes() bool { return true }

// Environment implements Backend.
func (l Library) Environment(uint64, bool) []string { return nil }

// Null calls no library: each function is one of the player's that returns 0 at once.
type Null struct{}

// Library implements Backend.
func (Null) Library() (string, error) { return NullName, nil }

// Placement implements Backend.
func (Null) Placement() Placement { return Nowhere }

// NeedsTrust implements Backend.
func (Null) NeedsTrust() bool { return false }

// Computes implements Backend.
func (Null) Computes() bool { return false }

// Environment implements Backend.
func (Null) Environment(uint64, bool) []string { return nil }
