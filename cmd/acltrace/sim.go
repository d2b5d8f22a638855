package main

import (
	"os"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/spf13/cobra"
)

func (a *app) simCmd() *cobra.Command {
	var info, asJSON bool
	var apiName string
	settings := map[string]*string{} // by flag
	c := &cobra.Command{
		Use:   "sim [flags] -- PROGRAM [ARGUMENT …]",
		Short: "run a program on the simulator, without recording",
		Long: `Runs a program on the simulator. The flags set the variables of the environment that docs/simulator.md
lists, or docs/cuda.md for the CUDA driver, whose simulator has --kernels and --devices alone; what is set there
already holds where no flag is given. The exit code is the program's.

With --info, nothing is run: it says what is simulated and how, for the functions of the runtime whose names begin as
given, or for all.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && !info {
				return usage("acltrace sim needs a program: acltrace sim -- ./app")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			rt := acl.Model
			if !info || apiName != "auto" {
				var err error
				if rt, err = runtime(apiName, append(args, "")[0]); err != nil {
					return err
				}
			}
			variable := func(name string) string { return rt.Simulator.Prefix + name }
			for flag, v := range settings {
				if !c.Flags().Changed(flag) {
					continue
				}
				name := strings.ToUpper(flag)
				if !slices.Contains(rt.Simulator.Settings, name) {
					return usage("--%s: the simulator of %s's runtime has no such setting; it has --%s", flag, rt.Accelerator.Vendor, strings.ToLower(strings.Join(rt.Simulator.Settings, ", --")))
				}
				os.Setenv(variable(name), *v)
			}
			if c.Flags().Changed("kernels") {
				setKernels(rt, *settings["kernels"])
			}
			if clock := os.Getenv(variable("CLOCK")); clock != "" && clock != "real" && clock != "virtual" {
				return usage("the clock is real or virtual, not %s", clock)
			}
			m, err := model.Load(os.Getenv(variable("MODEL")))
			if err != nil {
				return &exit{exitUsage, err}
			}
			if info {
				return a.simulator(rt, m, args, asJSON)
			}
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
	f.StringVar(&apiName, "api", "auto", apiUsage)
	f.BoolVar(&info, "info", false, "say what is simulated and how, and run nothing")
	f.BoolVar(&asJSON, "json", false, "with --info, as JSON")
	for _, v := range []struct{ flag, usage string }{
		{"clock", "real: the device runs beside the program; virtual: a discrete-event simulation"},
		{"model", "cost model: a preset, or a JSON `file`"},
		{"seed", "`number` that the chance in the model's times and in the faults begins with"},
		{"kernels", kernelsUsage},
		{"devices", "`number` of devices"},
		{"faults", "errors that the program is to meet"},
		{"strict", "find what a device punishes later: 1 reports it, abort ends the program with the first `finding`"},
	} {
		settings[v.flag] = f.String(v.flag, "", v.usage)
	}
	f.Lookup("strict").NoOptDefVal = "1"
	return c
}

const kernelsUsage = "kernel `libraries`, separated by colons, before those beside the program's binaries; \"\" for none"

// setKernels sets the kernel libraries of a program that this process starts. An empty list means none, not even those beside the
// program's binaries.
func setKernels(m *api.Model, libraries string) {
	os.Setenv(m.Simulator.Kernels, libraries)
	if libraries == "" && m.Simulator.Beside != "" {
		os.Setenv(m.Simulator.Beside, "0")
	}
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
		return s.Text(a.out)
	}
	return a.printJSON(s)
}
