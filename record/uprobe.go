package record

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record/detect"
	"github.com/acltrace/acltrace/record/host"
)

// uprobeUse is how uprobes are used.
type uprobeUse struct {
	trial  uprobe.Trial
	hooked *int  // number of functions with a probe, nil for those of the model
	ended  int64 // CLOCK_MONOTONIC of the latest calls, 0 if the recording ends when it is finished
}

// runUprobes records the command by uprobes. It probes the libraries of the runtime that the program is expected to map before
// the program starts, and others when the program maps them. After an error the program has not run.
func (r *recorder) runUprobes(ctx context.Context) (*Result, error) {
	if r.o.Capture.Library != "" {
		if _, err := os.Stat(r.o.Capture.Library); err != nil {
			return nil, err
		}
	}
	o, err := r.uprobeOptions()
	if err != nil {
		return nil, err
	}
	list, removeList, err := tempKernelList()
	if err != nil {
		return nil, err
	}
	defer removeList()
	env, err := r.kernels.list(r.o.Model, r.target.env, list)
	if err != nil {
		return nil, err
	}
	cmd := r.target.command(&r.o, env)
	resume, err := host.StartStopped(cmd)
	if err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	r.target.root = pid
	fail := func(err error) (*Result, error) {
		_ = cmd.Process.Kill()
		_ = resume()
		_, _ = cmd.Process.Wait()
		return nil, err
	}
	o.PIDs = []int{pid}
	u, err := uprobe.Load(r.o.Model, o)
	if err != nil {
		return fail(err)
	}
	defer u.Close()
	stopFollowing, err := r.follow(u, []int{pid})
	if err != nil {
		return fail(err)
	}
	defer stopFollowing()
	if err := resume(); err != nil {
		return nil, err
	}
	if err := r.dropRights(); err != nil {
		return fail(err)
	}
	defer forwardSignals(cmd.Process)()
	r.file.unnamed = r.file.named(r.target.env, pid, false)
	r.rows.Hooks.ThreadName = u.ThreadName
	reading, stop := context.WithCancel(context.Background())
	read := make(chan error, 1)
	go func() { read <- u.Run(reading, r.rows) }()
	_ = cmd.Wait()
	r.leftBehind(u)
	r.leaving()
	stop()
	res := &Result{}
	res.ExitCode, res.Signal = exitStatus(cmd.ProcessState)
	res.Incomplete = errors.Join(<-read, r.programEnded(cmd, res), r.rows.Finish())
	if r.o.Capture.Library != "" {
		r.rows.Processes.Libraries[r.o.Capture.Library] = true
	}
	r.finishUprobes(res, u)
	return res, nil
}

// programEnded records how the started program ended. Nothing else reports the ends of processes to a recording by uprobes.
func (r *recorder) programEnded(cmd *exec.Cmd, res *Result) error {
	e := &probe.End{PID: cmd.Process.Pid, Args: cmd.Args, Seen: probe.Now(), Clean: res.Signal == 0, Code: res.ExitCode, Signal: res.Signal}
	if res.Signal != 0 {
		e.Code = probe.NoCode
	}
	return r.rows.Ended(e)
}

// leftBehind lists processes that outlive the started program: the recording ends with that program.
func (r *recorder) leftBehind(u *uprobe.Probes) {
	for _, pid := range host.UsingRuntime(r.o.Model, u.Living()) {
		if host.AnyAlive([]int{pid}) {
			exe, _ := os.Readlink(host.ProcFile(pid, "exe"))
			r.unseen.add(format.Unhooked{PID: pid, Exe: exe, Reason: "it outlives the started program, and its later calls are not recorded", Cause: format.Outlived})
		}
	}
}

// leaving reports that the end takes a while. Kernels that detach uprobes one by one wait for all processors each time.
func (r *recorder) leaving() {
	if r.uprobes.trial.OneByOne && r.o.Waiting != nil {
		r.o.Waiting("recording has ended; the kernel removes the probes one by one, which may take minutes")
	}
}

// uprobeOptions tries the kinds of uprobes that this kernel may have, and returns options for the best one.
func (r *recorder) uprobeOptions() (*uprobe.Options, error) {
	trials := uprobe.Try(r.o.Model, false)
	best := trials[len(trials)-1]
	if best.Err != nil {
		var errs []error
		for _, t := range trials {
			errs = append(errs, fmt.Errorf("%s: %w", t.Kind, t.Err))
		}
		if err := errors.Join(errs...); !errors.Is(err, uprobe.ErrNotPermitted) {
			return nil, err
		}
		return nil, errors.Join(append(errs, errors.New("acltrace doctor prints the command that grants them"))...)
	}
	r.uprobes.trial = best
	flushed := time.Now()
	o := &uprobe.Options{OneByOne: best.OneByOne, RingBytes: r.o.Limits.RingBytes, PayloadLimit: r.o.Capture.Payload.limit(), NoOperators: r.o.Capture.Operators == NoOperators, Meanwhile: func() error { return r.flush(&flushed) }}
	return o, nil
}

// follow probes the libraries of some processes. If Capture.Library is set, it probes that file only. Otherwise it probes the
// libraries of the runtime and those with marks: those that the processes map, those that their loaders would find, and those that any process maps later.
func (r *recorder) follow(u *uprobe.Probes, pids []int) (stop func(), err error) {
	if r.o.Capture.Library != "" {
		path, err := filepath.EvalSymlinks(r.o.Capture.Library)
		if err != nil {
			return nil, err
		}
		return func() {}, u.Add(path)
	}
	// From here on no library is missed, but a probe may come late.
	stop, err = u.Follow(func(m uprobe.Mapped, wait time.Duration, err error) {
		exe, _ := os.Readlink(host.ProcFile(m.PID, "exe"))
		what := "calls"
		if r.o.Model.OfMarks(filepath.Base(m.Path)) {
			what = "marks"
		}
		l := format.Unhooked{PID: m.PID, Exe: exe, Reason: fmt.Sprintf("%s was found late: %s in its first %s may be missing", m.Path, what, human.Duration(wait.Nanoseconds()))}
		if err != nil {
			l.Reason = fmt.Sprintf("%s was loaded and can't be probed: %v", m.Path, err)
		}
		r.unseen.add(l)
	})
	if err != nil {
		return nil, err
	}
	var first error
	for _, pid := range pids {
		libs, err := uprobe.FindLibraries(r.o.Model, pid)
		if err != nil && len(pids) == 1 && host.Exists(host.ProcFile(pid, "maps")) { // one process among many may hide its maps
			first = err
		}
		marked, _ := uprobe.FindMarked(r.o.Model, pid)
		for _, lib := range slices.Concat(libs, marked, uprobe.SearchLibraries(r.o.Model, pid, r.folders(pid))) {
			if err := u.Add(lib); err != nil && !errors.Is(err, uprobe.ErrNoFunction) && first == nil {
				first = err
			}
		}
	}
	if u.Libraries() == 0 && first != nil {
		stop()
		return nil, first
	}
	return stop, nil
}

// folders returns the folders that the loader of a process searches for libraries: LD_LIBRARY_PATH, the program's run path, and
// the usual ones.
func (r *recorder) folders(pid int) []string {
	var dirs []string
	add := func(list, origin string) {
		for _, d := range filepath.SplitList(list) {
			if len(dirs) >= detect.MaxFolders {
				return
			}
			d = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(d)
			if !filepath.IsAbs(d) {
				cwd, _ := host.Cwd(pid)
				d = filepath.Join(cwd, d)
			}
			if !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	add(host.Variable(pid, "LD_LIBRARY_PATH"), "")
	exe, _ := os.Readlink(host.ProcFile(pid, "exe"))
	for _, list := range runpaths(host.ProcFile(pid, "exe")) {
		add(list, filepath.Dir(exe))
	}
	return append(dirs, "/lib64", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64", "/lib/"+multiarch, "/usr/lib/"+multiarch)
}

var multiarch = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]

// runpaths returns the run paths of a program.
func runpaths(path string) (lists []string) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		lists = append(lists, f.Strings(tag)...)
	}
	return lists
}

// finishUprobes closes the trace of a recording by uprobes.
func (r *recorder) finishUprobes(res *Result, u *uprobe.Probes) {
	r.uprobes.ended = u.Ended()
	res.Unhooked = append(res.Unhooked, r.unseen.all()...)
	hooked, refused := u.Hooked()
	r.uprobes.hooked = &hooked
	for _, file := range slices.Sorted(maps.Keys(refused)) {
		res.Unhooked = append(res.Unhooked, format.Unhooked{Exe: withinRoot(file), Reason: refusedReason(refused[file]), Cause: format.NoUprobe})
	}
	for _, path := range u.Operators() {
		r.rows.Processes.Libraries[path] = true
	}
	r.meta.Coverage.Endless, res.PassedBy = u.Endless(), u.Below()
	r.meta.Tracer.CostNS, r.meta.Coverage.Binder = r.uprobes.trial.CostNS, r.uprobes.trial.Kind
	r.meta.Replayable = false // uprobes don't query the runtime
	r.finish(res)
}

// withinRoot strips /proc/PID/root from a path.
func withinRoot(path string) string {
	if _, name, ok := strings.Cut(path, "/root/"); ok && strings.HasPrefix(path, "/proc/") {
		return "/" + name
	}
	return path
}

// refusedReason lists the functions of a library that have no probe.
func refusedReason(functions []string) string {
	const most = 5
	list := strings.Join(functions[:min(most, len(functions))], ", ")
	if n := len(functions) - most; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%d functions begin with a LOCK or segment prefix, where the kernel allows no uprobe (%s)", len(functions), list)
}

// dropRights drops capabilities that are not needed any more, if Capture.DropRights is set.
func (r *recorder) dropRights() error {
	if !r.o.Capture.DropRights {
		return nil
	}
	if err := uprobe.DropCapabilities(r.uprobes.trial.OneByOne); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
