package inject

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/record/host"
)

// Variable is an environment variable. A list is put before the present value of the variable.
type Variable struct {
	Name  string `json:"name"`           // variable name
	Value string `json:"value"`          // value of the variable
	List  bool   `json:"list,omitempty"` // put it before the variable's present value, separated by a colon
}

// SimulatorVariables returns the variables with which a program finds the simulator's libraries in dir and its toolkit there, and the
// simulator finds kernel libraries beside the binaries that the program loads.
func SimulatorVariables(m *api.Model, dir string) []Variable {
	s := &m.Simulator
	vs := []Variable{{"LD_LIBRARY_PATH", dir, true}}
	if s.Beside != "" {
		vs = append(vs, Variable{Name: s.Beside, Value: "1"})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Toolkit.Variables)) {
		vs = append(vs, Variable{Name: name, Value: filepath.Join(dir, s.Toolkit.Folder, s.Toolkit.Variables[name])})
	}
	return vs
}

// Simulate adds the variables of the simulator in dir to an environment. A variable that is set is kept. With a toolkit of its own, the
// environment gets no other one.
func Simulate(m *api.Model, env []string, dir string) []string {
	home, own := ownToolkit(m, env)
	for _, v := range SimulatorVariables(m, dir) {
		_, toolkit := m.Simulator.Toolkit.Variables[v.Name]
		value, set := host.Lookup(env, v.Name)
		switch {
		case v.List:
			env = Prepend(env, v.Name, v.Value, ":")
		case toolkit && !own && (value == "" || home != ""):
			env = append(Without(env, v.Name), v.Name+"="+v.Value)
		case !toolkit && !set:
			env = append(slices.Clone(env), v.Name+"="+v.Value)
		}
	}
	return env
}

// Without returns an environment without a variable.
func Without(env []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// ownToolkit returns the first variable that names a toolkit, NAME=VALUE, "" for none, and whether the toolkit is the user's: not one
// that another acltrace has set.
func ownToolkit(m *api.Model, env []string) (home string, own bool) {
	for _, name := range m.Installed.Homes {
		if _, ours := m.Simulator.Toolkit.Variables[name]; ours {
			if value, _ := host.Lookup(env, name); value != "" {
				return name + "=" + value, !artifacts.IsToolkit(value)
			}
		}
	}
	return "", false
}

// A ToolkitNote says which toolkit a program uses.
type ToolkitNote struct {
	Text string
	Root string // a root of another version, which has to be made anew
}

// Toolkits describes the toolkits that an environment names beside the simulator of acltrace's version: a vendor's, and roots that
// another version has laid out. sim says that the program runs on the simulator.
func Toolkits(m *api.Model, env []string, sim bool, version string) (notes []ToolkitNote) {
	setting, own := ownToolkit(m, env)
	name, home, _ := strings.Cut(setting, "=")
	root := artifacts.RootVersion(home)
	switch {
	case !own:
	case root != "" && root != version:
		notes = append(notes, ToolkitNote{Text: fmt.Sprintf("%s is a root of acltrace %s, this is %s", setting, root, version), Root: home})
	case sim && root == "":
		notes = append(notes, ToolkitNote{Text: fmt.Sprintf("use the simulator's libraries with the toolkit in %s: unset %s to use the simulator's toolkit", setting, name)})
	}
	if !sim {
		return notes
	}
	list, _ := host.Lookup(env, "LD_LIBRARY_PATH")
	for _, dir := range filepath.SplitList(list) {
		path := filepath.Join(dir, filepath.Base(m.Simulator.Library))
		if _, err := os.Stat(path); dir != "" && err == nil && !artifacts.Simulates(m, path) {
			notes = append(notes, ToolkitNote{Text: fmt.Sprintf("use the simulator's %s, not %s in LD_LIBRARY_PATH", filepath.Base(path), path)})
		}
	}
	return notes
}
