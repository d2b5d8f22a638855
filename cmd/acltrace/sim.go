package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/spf13/cobra"
)

func (a *app) simCmd() *cobra.Command {
	var info, asJSON bool
	var apiName string
	env := map[string]*string{}
	variable := func(name string) string { return acl.Model.Simulator.Prefix + name }
	c := &cobra.Command{
		Use:   "sim [flags] -- PROGRAM [ARGUMENT …]",
		Short: "run a program on the simulator, without recording",
		Long: `Runs a program on the simulator. The flags set the variables of the environment that docs/simulator.md
lists; what is set there already holds where no flag is given. The exit code is the program's.

With --info, nothing is run: it says what is simulated and how, for the functions of the runtime whose names begin as
given, or for all.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && !info {
				return usage("acltrace sim needs a program: acltrace sim -- ./app")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			for name, v := range env {
				if *v != "" {
					os.Setenv(name, *v)
				}
			}
			if clock := os.Getenv(variable("CLOCK")); clock != "" && clock != "real" && clock != "virtual" {
				return usage("the clock is real or virtual, not %s", clock)
			}
			m, err := model.Load(os.Getenv(variable("MODEL")))
			if err != nil {
				return &exit{exitUsage, err}
			}
			if info {
				return a.simulator(m, args, asJSON)
			}
			rt, err := runtime(apiName, args[0])
			if err != nil {
				return err
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
	for _, v := range []struct{ flag, name, usage string }{
		{"clock", variable("CLOCK"), "real: the device runs beside the program; virtual: a discrete-event simulation"},
		{"model", variable("MODEL"), "cost model: a preset, or a JSON `file`"},
		{"seed", variable("SEED"), "`number` that the chance in the model's times and in the faults begins with"},
		{"kernels", variable("KERNELS"), "kernel `libraries`, separated by colons"},
		{"devices", variable("DEVICES"), "`number` of devices"},
		{"faults", variable("FAULTS"), "errors that the program is to meet"},
		{"strict", variable("STRICT"), "find what a device punishes later: 1 reports it, abort ends the program with the first `finding`"},
	} {
		env[v.name] = f.String(v.flag, "", v.usage)
	}
	f.Lookup("strict").NoOptDefVal = "1"
	return c
}

func (a *app) simulator(m *model.Model, names []string, asJSON bool) error {
	s, err := report.NewSimulator(acl.Model, m, names)
	if err != nil {
		return &exit{exitUsage, err}
	}
	if !asJSON {
		return s.Text(a.out)
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", b)
	return err
}
