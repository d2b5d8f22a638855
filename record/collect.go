package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/record/session"
)

// A shared session lies in a folder that programs and a collector both reach, as containers of a pod do by a volume in
// memory. Install makes it, with the shim beside it; programs that have Environment in theirs write into it, whether a
// collector is there or not; Collect drains it, as often and as late as it likes. The folder belongs to the job:
// nothing here removes it.

// SharedOptions say who reaches a shared session.
type SharedOptions struct {
	AnyUser bool // its files may be read and written by everybody, else by the user and the group of the folder
	Audit   bool // the audit library is there too
	// Flags are those of a recording, which whoever collects may take over: see StoredFlags.
	Flags map[string]string
}

func (o *SharedOptions) mode() os.FileMode {
	if o != nil && o.AnyUser {
		return 0o666
	}
	return 0o660
}

const (
	flagsFile  = "flags.json"
	shimSubdir = "shim"
)

// StoredFlags are those that the session in a folder was made with.
func StoredFlags(dir string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, flagsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var flags map[string]string
	if err == nil {
		err = json.Unmarshal(b, &flags)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, flagsFile), err)
	}
	return flags, nil
}

// Install makes a shared session in a folder, or brings the shim of one that is there up to date. The shim's files
// stay: they outlive whoever starts with them.
func Install(dir string, o *Options, share *SharedOptions) error {
	r := recorder{o: *o}
	r.defaults()
	if err := r.check(); err != nil {
		return err
	}
	mode := share.mode()
	dirMode := mode | mode>>2&0o111 | os.ModeSetgid // whoever may read may enter
	if err := os.MkdirAll(filepath.Join(dir, shimSubdir), 0o755); err != nil {
		return err
	}
	if share.AnyUser {
		dirMode |= os.ModeSticky
	}
	// A volume belongs to somebody else, and has its group and mode from the cluster.
	if err := os.Chmod(dir, dirMode); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	parts := map[string]string{artifacts.Shim: o.Model.Shim}
	if share.Audit {
		parts[artifacts.Audit] = artifacts.Audit
	}
	for name, part := range parts {
		b, err := artifacts.Bytes(part)
		if err == nil && name == artifacts.Shim {
			err = ring.CheckShim(b, o.Model)
		}
		if err != nil {
			return err
		}
		if err := replaceFile(filepath.Join(dir, shimSubdir, name), b, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(dir, shimSubdir), 0o755); err != nil {
		return err
	}
	if err := host.CheckMappable(filepath.Join(dir, shimSubdir, artifacts.Shim)); err != nil {
		return fmt.Errorf("programs can't load the shim from there: %w", err)
	}
	variables := strings.Join(append(append([]string{}, o.Model.Environment...), format.RankVariables...), "\n")
	for name, content := range map[string]string{"variables": variables, "symbols": o.Model.Simulator.Symbol, session.SharedMark: o.Version} {
		if err := replaceFile(filepath.Join(dir, name), []byte(content), mode&^0o022|0o600); err != nil {
			return err
		}
	}
	if share.Flags != nil {
		b, err := json.Marshal(share.Flags)
		if err = errors.Join(err, replaceFile(filepath.Join(dir, flagsFile), b, mode)); err != nil {
			return err
		}
	}
	so := r.sessionOptions()
	so.Mode = mode
	err := ring.Prepare(o.Model, dir, so)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	return err
}

// replaceFile puts a file in the place of another at once: programs may have that mapped.
func replaceFile(path string, b []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Variable is one of the environment. It goes before what the variable has where it is a list.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	List  bool   `json:"list,omitempty"`
}

// Environment is what a program must have set to write into the shared session in a folder.
func Environment(dir string, o *Options) ([]Variable, error) {
	vs := []Variable{{"LD_PRELOAD", filepath.Join(dir, shimSubdir, artifacts.Shim), true}, {Name: "ACLTRACE_SESSION", Value: dir}}
	if o.Bind == "audit" {
		vs = append(vs, Variable{"LD_AUDIT", filepath.Join(dir, shimSubdir, artifacts.Audit), true})
	}
	if o.Sim {
		sim, err := artifacts.SimulatorDir(o.Model)
		if err != nil {
			return nil, err
		}
		vs = append(vs, Variable{"LD_LIBRARY_PATH", sim, true})
	}
	return vs, nil
}

// CollectOptions are the parameters of Collect, beside those of a recording.
type CollectOptions struct {
	Options                     // Command, Sim and Bind belong to the program's side
	Dir       string            // of the shared session, required; it is made where there is none
	Share     SharedOptions     // for a session that is made
	UntilGone time.Duration     // end when no process has been there for so long, after one was; 0: never
	Wait      time.Duration     // for another collector that is about to end; 0: not at all
	NoGuard   bool              // record a program even if it crashed at its last start, soon after its first call
	Log       func(line string) // what happens meanwhile; nil where nobody asks
}

// Collect drains a shared session into a trace until ctx ends. What a collector that was killed had left is taken over:
// its ring becomes a trace, and the calls that it had taken and not written are a gap.
func Collect(ctx context.Context, c *CollectOptions) (*Result, error) {
	r := &recorder{o: c.Options, mode: c.Share.mode()}
	r.defaults()
	log := c.Log
	if log == nil {
		log = func(string) {}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	s, err := r.openShared(ctx, dir, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	output, err := filepath.Abs(r.o.Output)
	if err != nil {
		return nil, err
	}
	lost, salvaged := r.predecessor(s, dir, log)
	r.start = s.Begun()
	r.o.Output = free(outputName(output, os.Environ(), os.Getpid()))
	if r.o.BlobFile != "" {
		r.o.BlobFile = free(outputName(r.o.BlobFile, os.Environ(), os.Getpid()))
	}
	if err := r.create(os.Environ()); err != nil {
		return nil, err
	}
	r.pattern = output
	if r.o.Output != outputName(output, os.Environ(), os.Getpid()) {
		r.pattern = strings.ReplaceAll(r.o.Output, "%", "%%") // numbered, it keeps its name
	}
	me := session.Note{PID: os.Getpid(), Output: r.o.Output, Handed: s.Handed, Begun: r.meta.StartMono, Ring: r.flight != nil}
	note := func() {
		me.Output = r.o.Output
		if b, err := json.Marshal(&me); err == nil {
			_ = replaceFile(filepath.Join(dir, session.NoteFile), b, r.mode)
		}
	}
	note()
	r.meta.Coverage.Binder = "preload"
	if err := r.begin(s); err != nil {
		return nil, err
	}
	if lost > 0 {
		if err := r.b.gap(format.Gap{Thread: format.NoThread, To: 1, Calls: lost, Reason: format.Dropped}); err != nil {
			return nil, err
		}
		r.b.lost += lost
	}
	if c.NoGuard {
		for program := range s.Untraced() {
			if err := s.Untrace(program, ""); err != nil {
				return nil, err
			}
		}
	}
	for _, why := range s.Untraced() {
		log(why)
	}
	r.gone = func(ends, untraced []probe.End) { r.guard(s, ends, untraced, c.NoGuard, log) }
	defer expendable()()
	defer beat(s)()
	named := r.o.Output
	last := time.Time{} // that a process was there
	came := false
	looked := time.Time{}
	incomplete := r.drain(s, func() bool {
		if r.o.Output != named {
			named = r.o.Output
			note()
		}
		if ctx.Err() != nil {
			return true
		}
		if now := time.Now(); now.Sub(looked) > reapEvery {
			looked = now
			if s.Alive() {
				last, came = now, true
			} else if len(r.b.procs)+len(r.ends) > 0 && !came {
				last, came = now, true // it was too short to be seen
			}
		}
		return c.UntilGone > 0 && came && time.Since(last) > c.UntilGone
	})
	if r.control != nil {
		r.control.Close()
		os.Remove(filepath.Join(dir, session.Socket))
	}
	res := &Result{Incomplete: incomplete, Salvaged: salvaged}
	r.learn(res, s)
	res.Unhooked = append(inject.Notes(dir), r.unseen...)
	r.code, r.meta.Ended = seenEnd(r.ends, s.Alive())
	r.ending = "the collector was asked to end"
	if ctx.Err() == nil {
		r.ending = "the last process has ended: " + cmp.Or(r.meta.Ended, fmt.Sprintf("with exit code %d", r.code))
	}
	if res, err = r.finish(res); err == nil && res.Incomplete == nil {
		os.Remove(filepath.Join(dir, session.NoteFile))
	}
	return res, err
}

// seenEnd says how programs have ended that somebody else has started: with which code, where all have told it, and else what is known.
func seenEnd(ends []probe.End, alive bool) (code int, ended string) {
	ends = slices.DeleteFunc(slices.Clone(ends), func(e probe.End) bool { return e.Untraced || e.Replaced })
	told := true
	for _, e := range ends {
		switch {
		case !e.Clean:
			return 0, fmt.Sprintf("process %d (%s) without an exit: it has crashed, or was killed", e.PID, strings.Join(e.Args, " "))
		case e.Code == probe.NoCode:
			told = false
		case e.Code != 0 && code == 0:
			code, ended = e.Code, fmt.Sprintf("process %d (%s) with exit code %d", e.PID, strings.Join(e.Args, " "), e.Code)
		}
	}
	switch {
	case ended != "" && len(ends) > 1:
		return code, ended
	case alive:
		return code, "not while it was recorded: processes ran on when the collector left them"
	case len(ends) == 0:
		return 0, "no process has come that was recorded"
	case !told:
		return 0, "of its own will, with a code that it has not told"
	}
	return code, ""
}

// openShared takes a shared session over, or makes it.
func (r *recorder) openShared(ctx context.Context, dir string, c *CollectOptions) (*ring.Session, error) {
	so := r.sessionOptions()
	so.Mode = r.mode
	until := time.Now().Add(c.Wait)
	for {
		s, err := ring.Open(r.o.Model, dir, so)
		switch {
		case errors.Is(err, os.ErrNotExist):
			if err := Install(dir, &r.o, &c.Share); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, ring.ErrTaken) && time.Now().Before(until) && ctx.Err() == nil:
			time.Sleep(100 * time.Millisecond)
			continue
		case errors.Is(err, ring.ErrTaken):
			var other session.Note
			if b, e := os.ReadFile(filepath.Join(dir, session.NoteFile)); e == nil && json.Unmarshal(b, &other) == nil {
				err = fmt.Errorf("%w, process %d in its own container, which writes %s", err, other.PID, other.Output)
			}
		}
		return s, err
	}
}

// predecessor takes over from a collector that was killed. It returns how many calls that had taken and not written.
func (r *recorder) predecessor(s *ring.Session, dir string, log func(string)) (lost uint64, salvaged []string) {
	path := filepath.Join(dir, session.NoteFile)
	b, err := os.ReadFile(path)
	var was session.Note
	if err != nil || json.Unmarshal(b, &was) != nil {
		return 0, nil
	}
	r.succeeds = true
	taken := s.Handed - min(was.Handed, s.Handed)
	if was.Ring {
		made, err := salvageRing(r.o.Model, dir, free(was.Output), taken, nil)
		switch {
		case err != nil:
			log(fmt.Sprintf("the ring of the collector before this one, process %d, is lost: %v", was.PID, err))
			return taken, nil
		case made != "":
			log(fmt.Sprintf("the collector before this one, process %d, was killed: what its ring held is in %s", was.PID, made))
			salvaged = append(salvaged, made)
		}
		return 0, salvaged
	}
	n, err := written(was.Output)
	if err != nil {
		log(fmt.Sprintf("the collector before this one, process %d, was killed, and its trace can't be read: %v", was.PID, err))
	}
	lost = taken - min(n, taken)
	log(fmt.Sprintf("the collector before this one, process %d, was killed: its trace %s has %d calls, and %d that it had taken are lost", was.PID, was.Output, n, lost))
	return lost, nil
}

// written is how many calls a trace has, and how many it says are lost.
func written(path string) (uint64, error) {
	rd, err := format.Open(path, nil)
	if err != nil {
		return 0, err
	}
	defer rd.Close()
	counts, err := rd.Counts()
	if err != nil {
		return 0, err
	}
	n := counts.Calls
	for _, g := range rd.Gaps() {
		if g.Thread != format.NoThread {
			n += g.Calls
		}
	}
	return n, nil
}

// free is a name for a trace that no file has yet.
func free(path string) string {
	for n := 1; ; n++ {
		name := numbered(path, n)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) || n > 1e6 {
			return name
		}
	}
}
