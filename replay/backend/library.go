package backend

import (
	"path/filepath"

	"github.com/acltrace/acltrace/api"
)

var libraryKind = Kind{
	takes: func(string, *api.Model) bool { return true },
	make:  func(name string, _ *api.Model) Backend { return Library{name} },
}

// Library is a shared library with the runtime's interface, such as a device's runtime.
type Library struct{ Path string }

// Clock implements Backend.
func (l Library) Clock() Clock { return RealClock }

// Library implements Backend.
func (l Library) Library() (string, error) { return filepath.Abs(l.Path) }

// Placement implements Backend.
func (l Library) Placement() Placement { return ByList }

// Environment implements Backend.
func (l Library) Environment(uint64, bool) []string { return nil }

// NeedsTrust implements Backend.
func (l Library) NeedsTrust() bool { return true }

// Computes implements Backend.
func (l Library) Computes() bool { return true }
