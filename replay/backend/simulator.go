package backend

import (
	"fmt"
	"path/filepath"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/artifacts"
)

// SimulatorName is the Simulator's name on the command line.
const SimulatorName = "sim"

var simulatorKind = Kind{
	Name:  SimulatorName,
	Text:  "the simulator",
	takes: func(name string, m *api.Model) bool { return name == "" || m != nil && artifacts.Simulates(m, name) },
	make: func(name string, m *api.Model) Backend {
		if name == SimulatorName {
			name = ""
		}
		return Simulator{m, name}
	},
}

// Simulator is a runtime's simulator. It emulates the calls, and runs kernels from kernel libraries, in the player's sandbox.
type Simulator struct {
	Model *api.Model
	Path  string // another simulator build, "" for this program's
}

func (s Simulator) Clock() Clock { return RealClock }

func (s Simulator) Library() (string, error) {
	if s.Path != "" {
		return filepath.Abs(s.Path)
	}
	return artifacts.Simulator(s.Model)
}

func (s Simulator) Placement() Placement { return ByCall }

// Environment implements Backend. It also removes the user's own address list.
func (s Simulator) Environment(base uint64) []string {
	sim := &s.Model.Simulator
	env := []string{sim.Place + "="}
	if base != 0 {
		env = append(env, fmt.Sprintf("%s=%#x", sim.Base, base))
	}
	return env
}

func (s Simulator) NeedsTrust() bool { return false }
func (s Simulator) Computes() bool   { return true }
