package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/report"
	sim "github.com/acltrace/acltrace/sim/acl"
	"github.com/acltrace/acltrace/sim/acl/fault"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) simCmd() *cobra.Command {
	var info, asJSON bool
	var apiName, root string
	settings := map[string]*string{} // by flag
	c := &cobra.Command{
		Use:   "sim [flags] -- PROGRAM [ARGUMENT …]",
		Short: "run a program on the simulator",
		Long: "Runs a program on the simulator. The flags set the variables in docs/reference/environment.md. A variable that is set already applies if its flag " +
			"is not given. The CUDA simulator has --kernels and --devices only. The exit code is the program's.\n\n" +
			"--info describes the simulator and the runtime functions whose names begin with the arguments, or all.\n\n" +
			"--root makes a folder that build systems and programs take for the vendor's toolkit.",
		Example: "acltrace sim -- ./app\n" +
			"acltrace sim --root ~/ascend\n" +
			"acltrace sim --info aclrtMemcpy",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && !info && root == "" {
				return usage("sim needs a program: acltrace sim -- ./app")
			}
			if len(args) > 0 && root != "" {
				return usage("--root runs no program")
			}
			if asJSON && !info {
				return usage("--json needs --info")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			rt := runtimes.All[0]
			if !info || apiName != "auto" {
				var err error
				if rt, err = runtime(apiName, append(args, "")[0]); err != nil {
					return err
				}
			}
			if root != "" {
				return a.layRoot(rt, root)
			}
			m, err := setSettings(c.Flags(), rt, settings)
			if err != nil {
				return err
			}
			if info {
				return a.simulator(rt, m, args, asJSON)
			}
			a.toolkits(rt, true)
			code, err := record.RunSimulated(rt, args, a.stdout, a.stderr)
			if err != nil {
				return &exit{exitStart, err}
			}
			if code != 0 {
				return &exit{code: code}
			}
			return nil
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	apiFlag(f, &apiName)
	f.BoolVar(&info, "info", false, "describe the simulator and run nothing")
	f.StringVar(&root, "root", "", "`DIR`: make a toolkit in a folder and run nothing")
	explain(f, "root", "It has the headers, libraries and programs that a build and a run need, and DIR/set_env.sh. A root of another version is replaced.")
	f.BoolVar(&asJSON, "json", false, "with --info: print JSON")
	for _, v := range []struct{ flag, usage string }{
		{"clock", "`CLOCK`: real or virtual"},
		{"model", "`MODEL`: cost model: a preset or a JSON file"},
		{"seed", "`N`: seed of random times and faults"},
		{"kernels", kernelsUsage},
		{"devices", "`N`: number of devices"},
		{"faults", "`LIST`: faults to inject"},
		{"strict", "`MODE`: find races: 1 or abort"},
	} {
		settings[v.flag] = f.String(v.flag, "", v.usage)
	}
	f.Lookup("strict").NoOptDefVal = "1"
	exclusive(c, "root", "info")
	explain(f, "strict", "Finds mistakes that a device punishes later. 1 reports them. abort ends the program with the first one.")
	explain(f, "clock", "real runs the device beside the program. virtual is a discrete-event simulation.")
	explain(f, "faults", "docs/reference/simulator.md describes the list.")
	explainKernels(f)
	return c
}

// setSettings sets the simulator's variables from the flags, and returns its cost model.
func setSettings(f *pflag.FlagSet, rt *api.Model, settings map[string]*string) (*model.Model, error) {
	variable := func(name string) string { return rt.Simulator.Prefix + name }
	for flag, v := range settings {
		if !f.Changed(flag) {
			continue
		}
		name := strings.ToUpper(flag)
		if !slices.Contains(rt.Simulator.Settings, name) {
			return nil, usage("--%s: the %s simulator does not have it; it has --%s", flag, rt.Accelerator.Vendor, strings.ToLower(strings.Join(rt.Simulator.Settings, ", --")))
		}
		if err := checkSetting(&rt.Simulator, flag, *v); err != nil {
			return nil, usage("--%s %s: %w", flag, *v, err)
		}
		os.Setenv(variable(name), *v)
	}
	if f.Changed("kernels") {
		if err := setKernels(rt, *settings["kernels"]); err != nil {
			return nil, err
		}
	}
	if clock := os.Getenv(variable("CLOCK")); clock != "" && clock != "real" && clock != "virtual" {
		return nil, usage("--clock %s: want real or virtual", clock)
	}
	if s := *settings["strict"]; s != "" && s != "1" && s != "abort" {
		return nil, usage("--strict=%s: want 1 or abort", s)
	}
	m, err := model.Load(os.Getenv(variable("MODEL")))
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	return m, nil
}

// layRoot makes a toolkit in a folder.
func (a *app) layRoot(rt *api.Model, dir string) error {
	if rt.Simulator.Toolkit.Folder == "" {
		return usage("--root: the simulator of %s has no toolkit", rt.Accelerator.Vendor)
	}
	if err := artifacts.Lay(rt, dir, version); err != nil {
		return fmt.Errorf("lay out a toolkit: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	report.Printf(a.out, ". %s\n", shell.Quote(filepath.Join(dir, rt.Simulator.Toolkit.Script)))
	return nil
}

// toolkits prints which toolkit a program uses if its environment names one.
func (a *app) toolkits(rt *api.Model, simulated bool) {
	for _, note := range inject.Toolkits(rt, os.Environ(), simulated, version) {
		advice := ""
		if note.Root != "" {
			advice = ": make it anew with acltrace sim --root " + note.Root
		}
		report.Printf(a.err, "acltrace: %s%s\n", note.Text, advice)
	}
}

// checkSetting returns an error for a value that the simulator would report and ignore, or fail with.
func checkSetting(s *api.Simulator, flag, value string) error {
	switch flag {
	case "devices":
		name := s.Prefix + "DEVICES"
		if pattern, ok := s.Replayed[name]; ok && !regexp.MustCompile("^("+pattern+")$").MatchString(value) {
			return fmt.Errorf("invalid number; docs/reference/environment.md has the range of %s", name)
		}
	case "seed":
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			return errors.New("want a decimal number")
		}
	case "faults":
		_, err := fault.Parse(value, 0)
		return err
	}
	return nil
}

func (a *app) simulator(rt *api.Model, m *model.Model, names []string, asJSON bool) error {
	if !slices.Contains(rt.Simulator.Settings, "MODEL") {
		m = nil // it measures nothing
	}
	s, err := newSimulatorReport(rt, m, names)
	if err != nil {
		return &exit{exitUsage, err}
	}
	if !asJSON {
		return s.Text(a.out, a.text())
	}
	return a.printJSON(s)
}

// simulatorReport describes the simulator.
type simulatorReport struct {
	Device    *sim.Description       `json:"device,omitempty"`  // the simulated device, nil for a runtime without a cost model
	Model     *model.Model           `json:"model,omitempty"`   // the cost model, nil without one
	Presets   []string               `json:"presets,omitempty"` // names of the cost models in the program
	Counts    map[string]layerCounts `json:"counts"`            // numbers of functions, by layer
	Functions []simulatedFunction    `json:"functions"`         // functions of the runtime
}

// layerCounts counts a layer's functions.
type layerCounts struct {
	Known     int `json:"known"`     // functions that a recording knows
	Simulated int `json:"simulated"` // functions that the simulator has
}

// simulatedFunction describes one runtime function.
type simulatedFunction struct {
	Name      string `json:"name"`            // function name
	Layer     string `json:"layer"`           // layer of the runtime
	Simulated bool   `json:"simulated"`       // the simulator has it
	Task      string `json:"task,omitempty"`  // task that it puts on a stream
	Waits     string `json:"waits,omitempty"` // device, stream or event that it waits for; poll if it only queries
	Doc       string `json:"doc"`             // purpose of the function
}

// newSimulatorReport describes the simulator and the functions whose names start with a prefix, or all. cost may be
// nil.
func newSimulatorReport(m *api.Model, cost *model.Model, names []string) (*simulatorReport, error) {
	s := &simulatorReport{Counts: map[string]layerCounts{}}
	if cost != nil {
		d := sim.Describe()
		s.Device, s.Model, s.Presets = &d, cost, model.Presets()
	}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if f.Form != nil {
			continue
		}
		c := s.Counts[f.Layer]
		c.Known++
		if f.Simulated {
			c.Simulated++
		}
		s.Counts[f.Layer] = c
		if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(f.Name, n) }) {
			s.Functions = append(s.Functions, simulatedFunction{f.Name, f.Layer, f.Simulated, f.Task.String(), f.Sync.String(), f.Doc})
		}
	}
	if len(s.Functions) == 0 {
		return nil, fmt.Errorf("no runtime function begins with %s", strings.Join(names, " or "))
	}
	return s, nil
}

// Text prints the report for people.
func (s *simulatorReport) Text(w io.Writer, o *report.TextOptions) error {
	if err := report.RowsText(w, o, s.rows); err != nil {
		return err
	}
	return report.TableText(w, o, func(t io.Writer) {
		report.Printf(t, "\nsimulated\ttask\twaits or queries\t  function\n")
		for _, f := range s.Functions {
			yes := "no"
			if f.Simulated {
				yes = "yes"
			}
			report.Printf(t, "%s\t%s\t%s\t  %s\n", yes, f.Task, f.Waits, f.Name)
		}
	})
}

func (s *simulatorReport) rows(row report.RowFunc) {
	if s.Model != nil {
		s.times(row)
	}
	for _, layer := range slices.Sorted(maps.Keys(s.Counts)) {
		if n := s.Counts[layer]; n.Simulated > 0 {
			row("functions of "+layer, "%s of %s are simulated; the others return an error and print their names on stderr", human.Count(n.Simulated), human.Count(n.Known))
		}
	}
}

// times prints the device and its task durations.
func (s *simulatorReport) times(row report.RowFunc) {
	row("device", "%s with %s of memory, up to %d devices; never compared with a device", s.Device.SoC, human.Bytes(s.Device.Memory), s.Device.Devices)
	row("limits", "%s streams a device, %s unfinished tasks a stream, %s events, %s notifies, %s blocks a launch",
		human.Count(s.Device.Streams), human.Count(s.Device.Depth), human.Count(s.Device.Events), human.Count(s.Device.Notifies), human.Count(s.Device.Blocks))
	c := s.Model
	row("times", "model %s (presets: %s)", c.Name, strings.Join(s.Presets, ", "))
	row("", "%s", c.Source)
	row("launch", "%s until an idle stream begins, %s between tasks", human.Duration(c.Launch.Latency), human.Duration(c.Launch.Overhead))
	row("cores", "%s cube, %s vector; %s streams at once", some(c.Cores.Cube), some(c.Cores.Vector), some(c.Streams))
	for k := range model.NumCopyKinds {
		var sizes []string
		for _, z := range c.Copies[k].Sizes {
			upTo := ""
			if z.UpTo > 0 {
				upTo = " up to " + human.Bytes(z.UpTo)
			}
			sizes = append(sizes, fmt.Sprintf("%s and %s%s", human.Duration(z.Latency), human.Rate(z.Rate*1e9), upTo))
		}
		row(strings.ReplaceAll(k.String(), "_", " "), "%s", strings.Join(sizes, ", then "))
	}
	for _, k := range c.Kernels {
		cores := k.Cores
		if cores == "" {
			cores = "vector"
		}
		how := human.Duration(k.Fixed)
		if k.Duration > 0 {
			how = human.Duration(k.Duration)
		} else {
			if k.Block > 0 {
				how += ", " + human.Duration(k.Block) + " for each row of blocks"
			}
			if k.Rate > 0 {
				how += ", " + human.Rate(k.Rate*1e9)
			}
		}
		row("kernel "+k.Name, "%s, on %s cores", how, cores)
	}
}

// some formats a model's number; 0 means no limit.
func some(n int) string {
	if n == 0 {
		return "any number of"
	}
	return fmt.Sprint(n)
}
