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

func (l Library) Clock() Clock                { return RealClock }
func (l Library) Library() (string, error)    { return filepath.Abs(l.Path) }
func (l Library) Placement() Placement        { return ByList }
func (l Library) Environment(uint64) []string { return nil }
func (l Library) NeedsTrust() bool            { return true }
func (l Library) Computes() bool              { return true }
