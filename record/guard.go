package record

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/internal/statedir"
	"github.com/acltrace/acltrace/probe"
)

// A program that crashes within its first minute while it is recorded runs its next start without: it may have been the
// recording. Where it crashes then too, it was not, and the start after that is recorded again. A guard keeps this
// between starts, in one file for each program.
//
// A nil guard refuses nothing. What it can't write it does without.
type guard struct {
	path  string
	entry guardEntry
	began time.Time
	why   string
	clear *time.Timer
}

type guardEntry struct {
	Program string    `json:"program"`
	Version string    `json:"version"` // of acltrace, which a crash says nothing of when it is another
	At      time.Time `json:"at"`
	Crashed string    `json:"crashed,omitempty"` // how it ended; empty: it has begun, and nobody has seen it for a minute
	// Recorder is the process that records it, and Boot the machine's start, so that a recorder that was killed along
	// with the program is known.
	Recorder int    `json:"recorder_pid"`
	Boot     string `json:"boot_id"`
}

// guarded is how long after its start the crash of a program is laid to the recording.
const guarded = time.Minute

// stateDir is the folder for how programs have ended and which kernel libraries were loaded.
func stateDir(o *Options) string {
	if o.State != "" {
		return o.State
	}
	return statedir.Path()
}

func newGuard(o *Options, path string) *guard {
	if o.NoGuard || o.Probe != "shim" {
		return nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	program := path
	for _, arg := range o.Command[1:] {
		if !strings.HasPrefix(arg, "-") {
			program += " " + arg // the script of an interpreter
			break
		}
	}
	h := fnv.New64a()
	h.Write([]byte(program))
	g := &guard{path: filepath.Join(stateDir(o), fmt.Sprintf("guard-%016x.json", h.Sum64()))}
	b, err := os.ReadFile(g.path)
	var last guardEntry
	boot := bootID()
	switch {
	case err != nil || json.Unmarshal(b, &last) != nil || last.Version != o.Version:
	case last.Crashed != "":
		g.why = fmt.Sprintf("%s was started without recording, since it %s while it was recorded at %s; --no-guard records it all the same, and removing %s ends this",
			program, last.Crashed, last.At.Format(time.DateTime), g.path)
	case last.Boot == boot && !exists(procFile(last.Recorder, "stat")):
		g.why = fmt.Sprintf("%s is started without recording for once, since its start at %s was killed within %v together with its recorder; --no-guard records it all the same, and removing %s ends this",
			program, last.At.Format(time.DateTime), guarded, g.path)
	}
	g.entry = guardEntry{Program: program, Version: o.Version, At: time.Now().Round(time.Second), Recorder: os.Getpid(), Boot: boot}
	g.began = time.Now()
	return g
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// refuses says why the program is not to be recorded, "" where it is.
func (g *guard) refuses() string {
	if g == nil {
		return ""
	}
	return g.why
}

// begin notes that the program starts, until a minute is over.
func (g *guard) begin() {
	if g == nil {
		return
	}
	g.write()
	g.clear = time.AfterFunc(guarded, g.remove)
}

func (g *guard) write() {
	b, err := json.Marshal(&g.entry)
	if err == nil && os.MkdirAll(filepath.Dir(g.path), 0o700) == nil {
		_ = os.WriteFile(g.path, b, 0o600)
	}
}

// forget takes back begin, where the program was not run.
func (g *guard) forget() {
	if g != nil && g.clear.Stop() {
		g.remove()
	}
}

func (g *guard) remove() { _ = os.Remove(g.path) }

// ended notes how the program has ended, and says what that means for its next start, "" for nothing.
func (g *guard) ended(res *Result, ends []probe.End) string {
	if g == nil {
		return ""
	}
	early := time.Since(g.began) < guarded
	if g.why != "" {
		switch {
		case early && res.ExitCode != 0:
			g.remove()
			return "it ended with an error without recording as well: its next start is recorded again"
		case strings.Contains(g.why, "for once"):
			g.remove()
		}
		return ""
	}
	if g.clear != nil && g.clear.Stop() {
		g.remove()
	}
	how := ""
	switch crash := crashed(res); {
	case crash != "" && early:
		how = crash
	case crash == "" && res.Signal == 0 && res.ExitCode != 0:
		// The first process to end tells why the others were ended.
		for _, e := range ends {
			if e.Lived < guarded {
				if !e.Clean {
					how = fmt.Sprintf("had process %d (%s) end without an exit %v after its first call", e.PID, e.Exe, e.Lived.Round(time.Second/10))
				}
				break
			}
		}
	}
	if how == "" {
		return ""
	}
	g.entry.Crashed = how
	g.write()
	return fmt.Sprintf("it %s within %v: its next start is not recorded, unless --no-guard is given or %s is removed", how, guarded, g.path)
}

// crashed says how a program has crashed, "" where it has not: nobody else sends these signals.
func crashed(res *Result) string {
	signal := syscall.Signal(res.Signal)
	if res.Signal == 0 && res.ExitCode > 128 {
		signal = syscall.Signal(res.ExitCode - 128) // as a shell tells it
	}
	switch signal {
	case syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE, syscall.SIGABRT, syscall.SIGTRAP, syscall.SIGSYS:
		return fmt.Sprintf("crashed by signal %d (%v)", int(signal), signal)
	}
	return ""
}
