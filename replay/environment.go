package replay

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// IgnoredVariable is a variable of the recording that a replay does not set.
type IgnoredVariable struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (v *IgnoredVariable) String() string { return fmt.Sprintf("%q: %s", v.Name, v.Reason) }

// recordedVariables returns the variables that set the simulator up as in the recording, NAME=value in the order of their names, and the
// simulator's other variables of the trace. It omits the variables that a replay decides itself.
func recordedVariables(sim *api.Simulator, meta *format.Meta) (set []string, ignored []IgnoredVariable) {
	for _, name := range slices.Sorted(maps.Keys(meta.Env)) {
		if !strings.HasPrefix(name, sim.Prefix) || sim.Decides(name) {
			continue
		}
		if err := sim.CheckVariable(name, meta.Env[name]); err != nil {
			ignored = append(ignored, IgnoredVariable{name, err.Error()})
			continue
		}
		set = append(set, name+"="+meta.Env[name])
	}
	return set, ignored
}

// env is the environment of the player; of variables that are there twice the last one counts.
func (s *session) env() []string {
	sim := &s.p.model.Simulator
	recorded, _ := recordedVariables(sim, s.meta)
	env := slices.Concat(os.Environ(), recorded, s.kernelVariables(), slices.Collect(maps.Values(s.p.env)))
	if s.o.Verify && !s.o.Poison && sim.Uninitialised != "" {
		env = append(env, sim.Uninitialised+"=1")
	}
	if s.o.Strict {
		env = append(env, sim.Strict+"=1", sim.Findings+"="+strictLog(s.dir))
	}
	return loadsNothingBeside(sim, append(env, s.o.Env...))
}

// loadsNothingBeside removes the variable that has the simulator load libraries beside the binaries of a program. A replay's binaries
// and their paths are a stranger's.
func loadsNothingBeside(sim *api.Simulator, env []string) []string {
	if sim.Beside == "" {
		return env
	}
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, sim.Beside+"=") })
}
