package backend

import (
	"errors"

	"github.com/acltrace/acltrace/api"
)

// VirtualName is Virtual's name on the command line.
const VirtualName = "virtual"

var virtualKind = Kind{
	Name:    VirtualName,
	Text:    "virtual time",
	Options: []string{"model", "base", "seed", "output", "force"},
	Excludes: []string{"place", "graphs", "guess", "verify", "timeout", "plan-only", "kernels", "keep", "repeat", "wrapper", "tolerance", "strict", "stub-comm", "trust",
		"poison", "max-memory"},
	Because: "there are times, and no contents",
	make:    func(string, *api.Model) Backend { return Virtual{} },
}

// Virtual schedules a trace's calls and tasks in virtual time (package whatif), on a device that a cost model describes. It makes no
// call.
type Virtual struct{}

func (Virtual) Clock() Clock { return VirtualClock }

// Library implements Backend: there is none.
func (Virtual) Library() (string, error) {
	return "", errors.New("backend: a replay in virtual time has no library")
}

func (Virtual) Placement() Placement        { return Nowhere }
func (Virtual) Environment(uint64) []string { return nil }
func (Virtual) NeedsTrust() bool            { return false }
func (Virtual) Computes() bool              { return false }
