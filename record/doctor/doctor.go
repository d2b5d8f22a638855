// Package doctor tries each thing that the commands need on this machine, and examines how a program would be recorded.
//
// The doctor command calls Diagnose. It never starts the program that it examines.
package doctor

import (
	"bytes"
	"errors"
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

// Check is something that Diagnose tries.
type Check string

// The checks.
const (
	Shim           Check = "shim"
	Rings          Check = "rings"           // shared memory for them
	LoadCode       Check = "load code"       // from the session's folder
	LoadShim       Check = "load shim"       // into a program
	Audit          Check = "audit"           // programs
	Clock          Check = "clock"           // of records
	UnmappedMemory Check = "unmapped memory" // reading it
	Simulator      Check = "simulator"
	Player         Check = "player"
	Sandbox        Check = "sandbox"       // of the player
	Uprobes        Check = "uprobes"       // of this kernel
	OtherProcesses Check = "processes"     // of other users
	HeldAtStart    Check = "held at start" // a program
	Program        Check = "program"       // Finding.Subject
	Library        Check = "library"       // Finding.Subject
	Operators      Check = "operators"     // of Finding.Subject, the library that has their boundaries
)

// Finding is the result of one check.
type Finding struct {
	Check   Check
	Subject string // program or library, "" for the machine
	OK      bool
	Err     error  // why the check failed; nil if Notes say why
	Notes   []Note // facts, in order
	Fix     string // command that grants missing rights
}

// A Note is a fact. Kind says which words follow or replace the text in a message, because this package names no flags.
type Note struct {
	Kind NoteKind
	Text string
	Path string // file with runtime functions, for LinkedIn and OnlyAsLibrary
}

// NoteKind is the kind of a Note.
type NoteKind int

// The kinds.
const (
	Fact          NoteKind = iota
	RingRoom               // memory of a thread's ring, which an option sets
	FullPayload            // Text is memory that recording all payloads needs
	NoSandbox              // the player's sandbox lacks a layer
	NoRuntime              // the loader finds no runtime library
	LinkedIn               // runtime functions are linked into the program
	OnlyAsLibrary          // a file with runtime functions is not a program that can be recorded
)

func (f *Finding) note(kind NoteKind, format string, args ...any) {
	f.Notes = append(f.Notes, Note{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// LibraryFinding is a runtime library that a program would load, with the functions that would be recorded.
type LibraryFinding struct {
	Path     string   `json:"path"`      // path of the file
	Linked   bool     `json:"linked"`    // the program is linked to it; otherwise it finds it by name
	Exported int      `json:"exported"`  // number of exported functions
	Hooked   int      `json:"hooked"`    // number of functions recorded with their arguments
	Counted  []string `json:"counted"`   // functions counted by name
	PassedBy []string `json:"passed_by"` // functions that are not seen
}

// Diagnosis is the result of Diagnose.
type Diagnosis struct {
	Findings  []Finding
	Libraries []LibraryFinding
}

// OK reports whether everything works.
func (d *Diagnosis) OK() bool {
	return !slices.ContainsFunc(d.Findings, func(f Finding) bool { return !f.OK })
}

func (d *Diagnosis) add(c Check, subject string, err error, facts ...string) *Finding {
	f := Finding{Check: c, Subject: subject, OK: err == nil, Err: err}
	for _, text := range facts {
		if text != "" && err == nil {
			f.note(Fact, "%s", text)
		}
	}
	d.Findings = append(d.Findings, f)
	return &d.Findings[len(d.Findings)-1]
}

// Diagnose checks this machine for all commands. Given a command, it also examines how that program would be recorded.
func Diagnose(m *api.Model, command []string) *Diagnosis {
	d := &Diagnosis{}
	d.shim(m, command)
	d.add(Clock, "", nil, ring.Clock())
	d.add(UnmappedMemory, "", ring.ReadsOwnMemory())
	sim, err := artifacts.SimulatorDir(m)
	d.add(Simulator, "", err, sim)
	d.player()
	d.uprobes(m)
	d.add(HeldAtStart, "", heldAtStart())
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
	if d.add(Shim, "", err); err != nil {
		return
	}
	s, err := ring.Create(m, &ring.Options{PayloadLimit: math.MaxUint64})
	f := d.add(Rings, "", err)
	if err != nil {
		return
	}
	defer s.Close()
	mem := s.Memory()
	free, err := host.FreeSpace(s.Dir())
	if err == nil {
		f.note(Fact, "%s free in %s", human.Bytes(free), filepath.Dir(s.Dir()))
	}
	f.note(RingRoom, "a thread needs %s, room for %s threads", human.Bytes(mem.Ring), human.Count(mem.Limit/mem.Ring))
	if err == nil && mem.Left < free {
		f.note(Fact, "the memory cgroup has %s left", human.Bytes(mem.Left))
	}
	f.OK = mem.Limit >= mem.Ring
	if mem.Arena > 0 {
		f.note(FullPayload, "%s", human.Bytes(mem.Arena))
	}
	shim, err := inject.InstallShim(s.Dir(), m)
	if err != nil {
		d.add(LoadCode, "", err)
		return
	}
	defer shim.Close()
	cmd := exec.Command("/bin/true")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+shim.Path, "ACLTRACE_SESSION="+s.Dir())
	if out, e := cmd.CombinedOutput(); e != nil || len(out) > 0 {
		err = fmt.Errorf("%s: %v %s", cmd.Path, e, bytes.TrimSpace(out))
	}
	d.add(LoadShim, "", err, filepath.Dir(filepath.Dir(shim.Path)))
	program := cmd.Path
	if len(command) > 0 {
		if path, err := host.FindProgram(command[0]); err == nil && host.CheckExecutable(path) == nil {
			if program, err = host.ScriptProgram(path); err != nil {
				program = path
			}
		}
	}
	_, err = shim.Audited(program, inject.Prepend(os.Environ(), "LD_PRELOAD", shim.Path, ":"))
	d.add(Audit, "", err, program)
}

// player starts the player, which enters its sandbox.
func (d *Diagnosis) player() {
	box, err := sandbox.Try()
	if d.add(Player, "", err); err != nil {
		return
	}
	f := d.add(Sandbox, "", nil, box.String())
	if !box.Whole() {
		f.OK = false
		f.note(NoSandbox, "")
	}
}

// uprobes records a small program in each way that the kernel may have, and opens what another process maps.
func (d *Diagnosis) uprobes(m *api.Model) {
	oneByOne := uprobe.OneByOne()
	works, err := ways(uprobe.Try(m, true), uprobe.Features(), oneByOne)
	missing, all := uprobe.MissingCapabilities(oneByOne)
	d.add(Uprobes, "", err, works...).grant(missing, all)
	d.add(OtherProcesses, "", uprobe.ReachesProcesses()).grant(missing, all)
}

// ways returns the ways to attach uprobes that work, and what this kernel lacks; the error of its best way if none works.
func ways(trials []uprobe.Trial, features []*uprobe.Feature, oneByOne bool) (works []string, err error) {
	for _, t := range trials {
		if t.Err == nil {
			works = append(works, fmt.Sprintf("by %s, %s a launch", t.Kind, human.Duration(int64(t.CostNS+0.5))))
		}
	}
	if len(works) == 0 {
		best := slices.IndexFunc(trials, func(t uprobe.Trial) bool { return t.OneByOne == oneByOne })
		return nil, trials[best].Err
	}
	var lacking []string
	for _, f := range features {
		if !f.Supported() {
			lacking = append(lacking, fmt.Sprintf("%s (Linux %s)", f.Name, f.Linux))
		}
	}
	if len(lacking) > 0 {
		works = append(works, "unsupported by this kernel: "+strings.Join(lacking, ", "))
	}
	return works, nil
}

// grant names the missing rights as the cause of a failed check, and the command that grants all of them.
func (f *Finding) grant(missing, all []string) {
	if f.OK || len(missing) == 0 {
		return
	}
	f.Err = errors.New("missing " + strings.Join(missing, " and "))
	if exe, err := os.Executable(); err == nil {
		f.Fix = fmt.Sprintf("sudo setcap %s+ep %s", strings.Join(all, ","), exe)
	}
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
