package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/record/doctor"
	"github.com/acltrace/acltrace/report"
)

func (a *app) doctorCmd() *cobra.Command {
	var asJSON bool
	var apiName string
	c := &cobra.Command{
		Use:   "doctor [flags] [-- PROGRAM …]",
		Short: "check what works on this machine",
		Long: "Tries the parts that other commands need, and prints the missing ones and how to get them. With a program, it also prints the runtime libraries that the " +
			"program would load, and which of their functions are recorded. The program is not run. The exit code is 1 if something does not work.",
		Example: "acltrace doctor\n" +
			"acltrace doctor -- python train.py",
		RunE: func(_ *cobra.Command, args []string) error {
			m, why, err := runtimeWhy(apiName, append(args, "")[0])
			if err != nil {
				return err
			}
			d := doctor.Diagnose(m, args)
			d.Findings = slices.Insert(d.Findings, 0, doctor.Finding{For: "record", What: "runtime " + m.Name, OK: true, Detail: why})
			if asJSON {
				if err := a.printJSON(d); err != nil {
					return err
				}
			} else {
				a.diagnosis(d)
			}
			if !d.OK() {
				return &exit{code: exitFailed}
			}
			return nil
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	apiFlag(f, &apiName)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) diagnosis(d *doctor.Diagnosis) {
	for _, f := range d.Findings {
		word := any("ok     ")
		if !f.OK {
			word = report.Bad("missing")
		}
		report.Printf(a.out, "%s  %s: %s", word, f.For, f.What)
		if f.Detail != "" && f.Detail != f.What {
			report.Printf(a.out, ": %s", f.Detail)
		}
		report.Printf(a.out, "\n")
		if f.Fix != "" {
			report.Printf(a.out, "         %s\n", f.Fix)
		}
	}
	for _, l := range d.Libraries {
		a.functions(l.Path+", counted by name", l.Counted)
		a.functions(l.Path+", not seen", l.PassedBy)
	}
}

func (a *app) functions(what string, names []string) {
	const most = 12
	if len(names) == 0 {
		return
	}
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %s more (see --json)", human.Count(len(names)-most))
	}
	report.Printf(a.out, "%s: %s%s\n", what, strings.Join(names, " "), more)
}
