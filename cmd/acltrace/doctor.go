package main

import (
	"cmp"
	"fmt"
	"io"
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
			"program would load, and which of their functions are recorded, and which boundaries of operators. The program is not run. The exit code is 1 if something does not work.",
		Example: "acltrace doctor\n" +
			"acltrace doctor -- python train.py",
		RunE: func(_ *cobra.Command, args []string) error {
			m, why, err := runtimeWhy(apiName, append(args, "")[0])
			if err != nil {
				return err
			}
			found := doctor.Diagnose(m, args)
			d := &diagnosis{Findings: []finding{{For: "record", What: "runtime " + m.Name, OK: true, Detail: why}}, Libraries: found.Libraries}
			for i := range found.Findings {
				d.Findings = append(d.Findings, worded(&found.Findings[i]))
			}
			if asJSON {
				if err := a.printJSON(d); err != nil {
					return err
				}
			} else {
				if err := report.Wrapped(a.out, a.text(), 9, func(w io.Writer) { diagnosisText(w, d) }); err != nil {
					return err
				}
				if found.OK() && len(args) > 0 {
					report.NextText(a.out, append([]string{"acltrace", "record", "-o", "run.aclt", "--"}, args...)...)
				} else if found.OK() {
					report.NextText(a.out, "acltrace", "demo")
				}
			}
			if !found.OK() {
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

// A diagnosis is a doctor.Diagnosis in terms of commands and flags.
type diagnosis struct {
	Findings  []finding               `json:"findings"`            // the checks
	Libraries []doctor.LibraryFinding `json:"libraries,omitempty"` // runtime libraries that the program would load
}

type finding struct {
	For    string `json:"for"`              // commands that need it
	What   string `json:"what"`             // name of the check, the program or the library
	OK     bool   `json:"ok"`               // it works
	Detail string `json:"detail,omitempty"` // facts, or why it does not work
	Fix    string `json:"fix,omitempty"`    // command that grants missing rights, or advice
}

// checks are the commands that need a check, and its name.
var checks = map[doctor.Check][2]string{
	doctor.Shim:           {"record", "the shim"},
	doctor.Rings:          {"record", "shared memory for the rings"},
	doctor.LoadCode:       {"record", "load code from there"},
	doctor.LoadShim:       {"record", "load the shim into a program"},
	doctor.Audit:          {"record --bind audit", "audit programs (LD_AUDIT)"},
	doctor.Clock:          {"record", "the clock"},
	doctor.UnmappedMemory: {"record", "read memory that may be unmapped (process_vm_readv)"},
	doctor.Simulator:      {"record --sim, sim", "the simulator"},
	doctor.Player:         {"replay", "the player"},
	doctor.Sandbox:        {"replay", "the player's sandbox"},
	doctor.Uprobes:        {"attach, record --probe ebpf", "uprobes"},
	doctor.OtherProcesses: {"attach", "libraries of other users' processes"},
	doctor.HeldAtStart:    {"record --probe ebpf", "hold a program at its start (ptrace)"},
	doctor.Program:        {"record", ""},
	doctor.Library:        {"record", ""},
	doctor.Operators:      {"record --operators", ""},
}

// worded words a finding.
func worded(f *doctor.Finding) finding {
	w := finding{For: checks[f.Check][0], What: cmp.Or(checks[f.Check][1], f.Subject), OK: f.OK, Fix: f.Fix}
	var parts []string
	if f.Err != nil {
		parts = append(parts, advised(f.Err).Error())
	}
	for _, n := range f.Notes {
		switch n.Kind {
		case doctor.Fact:
			parts = append(parts, n.Text)
		case doctor.RingRoom:
			parts = append(parts, n.Text+" (see --ring-size)")
		case doctor.FullPayload:
			parts = append(parts, "--payload full needs "+n.Text+" more")
		case doctor.NoSandbox:
			w.Fix = "without it, replay runs only the kernel libraries in --kernels; --trust runs all"
		case doctor.NoRuntime:
			parts = append(parts, n.Text+": set LD_LIBRARY_PATH, or record with --sim")
		case doctor.LinkedIn:
			parts = append(parts, n.Text+": use --probe ebpf --library "+n.Path)
		case doctor.OnlyAsLibrary:
			parts[0] += " --library " + n.Path + ": " + n.Text
		}
	}
	separator := "; "
	if f.Check == doctor.Program {
		separator = ". "
	}
	w.Detail = strings.Join(parts, separator)
	return w
}

func diagnosisText(w io.Writer, d *diagnosis) {
	missing := 0
	for _, f := range d.Findings {
		if !f.OK {
			missing++
		}
	}
	checks := human.Plural(len(d.Findings), "check")
	if missing > 0 {
		report.Printf(w, "%s of %s failed\n", report.Bad(human.Count(missing)), checks)
	} else {
		report.Printf(w, "all %s passed\n", checks)
	}
	for _, f := range d.Findings {
		word := any("ok     ")
		if !f.OK {
			word = report.Bad("missing")
		}
		report.Printf(w, "%s  %s: %s", word, f.For, f.What)
		if f.Detail != "" && f.Detail != f.What {
			report.Printf(w, ": %s", f.Detail)
		}
		report.Printf(w, "\n")
		if f.Fix != "" {
			report.Printf(w, "         %s\n", f.Fix)
		}
	}
	for _, l := range d.Libraries {
		functionsText(w, l.Path+", counted by name", l.Counted)
		functionsText(w, l.Path+", not seen", l.PassedBy)
	}
}

func functionsText(w io.Writer, what string, names []string) {
	const most = 12
	if len(names) == 0 {
		return
	}
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %s more (see --json)", human.Count(len(names)-most))
	}
	report.Printf(w, "%s: %s%s\n", what, strings.Join(names, " "), more)
}
