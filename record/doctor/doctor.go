// Package doctor tries each thing that the commands need on this machine, and examines how a program would be recorded.
//
// The doctor command calls Diagnose. It never starts the program that it examines.
package doctor

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/replay/sandbox"
)

// Finding is the result of one check.
type Finding struct {
	For    string `json:"for"` // the commands that need it
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty"` // command that grants missing rights
}

// LibraryFinding is a runtime library that a program would load, with the functions that would be recorded.
type LibraryFinding struct {
	Path     string   `json:"path"`
	Linked   bool     `json:"linked"`    // false: the program is not linked to it, and finds it if it asks for it by name
	Exported int      `json:"exported"`  // functions
	Hooked   int      `json:"hooked"`    // recorded with their arguments
	Counted  []string `json:"counted"`   // counted by name
	PassedBy []string `json:"passed_by"` // not seen at all
}

// Diagnosis is the result of Diagnose.
type Diagnosis struct {
	Findings  []Finding        `json:"findings"`
	Libraries []LibraryFinding `json:"libraries,omitempty"`
}

// OK reports whether everything works.
func (d *Diagnosis) OK() bool {
	return !slices.ContainsFunc(d.Findings, func(f Finding) bool { return !f.OK })
}

func (d *Diagnosis) add(needs, what string, err error, detail string) *Finding {
	f := Finding{For: needs, What: what, OK: err == nil, Detail: detail}
	if err != nil {
		f.Detail = err.Error()
	}
	d.Findings = append(d.Findings, f)
	return &d.Findings[len(d.Findings)-1]
}

// Diagnose checks this machine for all commands. Given a command, it also examines how that program would be recorded.
func Diagnose(m *api.Model, command []string) *Diagnosis {
	d := &Diagnosis{}
	d.shim(m, command)
	d.add("record", "the clock", nil, ring.Clock())
	d.add("record", "read memory that may be unmapped (process_vm_readv)", ring.ReadsOwnMemory(), "")
	sim, err := artifacts.SimulatorDir(m)
	d.add("record --sim, sim", "the simulator", err, sim)
	d.player()
	d.uprobes(m)
	d.add("record --probe ebpf", "hold a program at its start (ptrace)", heldAtStart(), "")
	if len(command) > 0 {
		d.program(m, command)
	}
	return d
}

// shim makes a session and loads the shim into a program, and looks whether the command could be audited.
func (d *Diagnosis) shim(m *api.Model, command []string) {
	b, err := artifacts.Bytes(m.Shim)
	if err == nil {
		err = ring.CheckShim(b, m)
	}
	if d.add("record", "the shim", err, ""); err != nil {
		return
	}
	s, err := ring.Create(m, &ring.Options{PayloadLimit: math.MaxUint64})
	f := d.add("record", "shared memory for the rings", err, "")
	if err != nil {
		return
	}
	defer s.Close()
	mem := s.Memory()
	f.Detail = fmt.Sprintf("a thread needs %s, room for %s threads (see --ring-size)", human.Bytes(mem.Ring), human.Count(mem.Limit/mem.Ring))
	if free, err := host.FreeSpace(s.Dir()); err == nil {
		f.Detail = fmt.Sprintf("%s free in %s; ", human.Bytes(free), filepath.Dir(s.Dir())) + f.Detail
		if mem.Left < free {
			f.Detail += fmt.Sprintf("; the memory cgroup has %s left", human.Bytes(mem.Left))
		}
	}
	f.OK = mem.Limit >= mem.Ring
	if mem.Arena > 0 {
		f.Detail += fmt.Sprintf("; --payload full needs %s more", human.Bytes(mem.Arena))
	}
	shim, err := inject.InstallShim(s.Dir(), m)
	if err != nil {
		d.add("record", "load code from there", err, "")
		return
	}
	defer shim.Close()
	cmd := exec.Command("/bin/true")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+shim.Path, "ACLTRACE_SESSION="+s.Dir())
	if out, e := cmd.CombinedOutput(); e != nil || len(out) > 0 {
		err = fmt.Errorf("%s: %v %s", cmd.Path, e, bytes.TrimSpace(out))
	}
	d.add("record", "load the shim into a program", err, filepath.Dir(filepath.Dir(shim.Path)))
	program := cmd.Path
	if len(command) > 0 {
		if path, err := host.FindProgram(command[0]); err == nil && host.CheckExecutable(path) == nil {
			if program, err = host.ScriptProgram(path); err != nil {
				program = path
			}
		}
	}
	_, err = shim.Audited(program, inject.Prepend(os.Environ(), "LD_PRELOAD", shim.Path, ":"))
	d.add("record --bind audit", "audit programs (LD_AUDIT)", err, program)
}

// player starts the player, which enters its sandbox.
func (d *Diagnosis) player() {
	box, err := sandbox.Try()
	if d.add("replay", "the player", err, ""); err != nil {
		return
	}
	f := d.add("replay", "the player's sandbox", nil, box.String())
	if !box.Whole() {
		f.OK, f.Fix = false, "without it, replay runs only the kernel libraries in --kernels; --trust runs all"
	}
}

// uprobes records a small program in each way that the kernel may have, and opens what another process maps.
func (d *Diagnosis) uprobes(m *api.Model) {
	const needs = "attach, record --probe ebpf"
	trials := uprobe.Try(m, true)
	var works []string
	oneByOne := uprobe.OneByOne()
	for _, t := range trials {
		if t.Err == nil {
			works = append(works, fmt.Sprintf("by %s, %s a launch", t.Kind, human.Duration(int64(t.CostNS+0.5))))
		}
	}
	var lacking []string
	for _, f := range uprobe.Features() {
		if !f.Supported() {
			lacking = append(lacking, fmt.Sprintf("%s (Linux %s)", f.Name, f.Linux))
		}
	}
	if len(works) > 0 && len(lacking) > 0 {
		works = append(works, "unsupported by this kernel: "+strings.Join(lacking, ", "))
	}
	var err error
	if len(works) == 0 {
		err = trials[len(trials)-1].Err
		if !oneByOne {
			err = trials[0].Err
		}
	}
	grant := func(f *Finding) {
		missing, all := uprobe.MissingCapabilities(oneByOne)
		if f.OK || len(missing) == 0 {
			return
		}
		f.Detail = "missing " + strings.Join(missing, " and ")
		if exe, err := os.Executable(); err == nil {
			f.Fix = fmt.Sprintf("sudo setcap %s+ep %s", strings.Join(all, ","), exe)
		}
	}
	grant(d.add(needs, "uprobes", err, strings.Join(works, "; ")))
	grant(d.add("attach", "libraries of other users' processes", uprobe.ReachesProcesses(), ""))
}

func heldAtStart() error {
	cmd := exec.Command("/bin/true")
	resume, err := host.StartStopped(cmd)
	if err != nil {
		return err
	}
	if err := resume(); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	return cmd.Wait()
}
