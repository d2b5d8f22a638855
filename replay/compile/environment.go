package compile

import (
	"fmt"
	"maps"
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
func RecordedVariables(sim *api.Simulator, meta *format.Meta) (set []string, ignored []IgnoredVariable) {
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
