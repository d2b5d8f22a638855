package inject

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// Simulate returns an environment in which a program finds the simulator's libraries in dir, and the simulator finds kernel libraries
// beside the binaries that the program loads. A variable that says otherwise is kept.
func Simulate(m *api.Model, env []string, dir string) []string {
	env = Prepend(env, "LD_LIBRARY_PATH", dir, ":")
	beside := m.Simulator.Beside
	if beside == "" || slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, beside+"=") }) {
		return env
	}
	return append(env, beside+"=1")
}
