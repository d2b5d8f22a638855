package inject

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/record/host"
)

// Simulate returns an environment in which a program finds the simulator's libraries in dir, and the simulator finds kernel libraries
// beside the binaries that the program loads. A variable that says otherwise is kept.
func Simulate(m *api.Model, env []string, dir string) []string {
	env = Prepend(env, "LD_LIBRARY_PATH", dir, ":")
	beside := m.Simulator.Beside
	if _, set := host.Lookup(env, beside); set || beside == "" {
		return env
	}
	return append(env, beside+"=1")
}
