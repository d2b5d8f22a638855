package record

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record/detect"
	"github.com/acltrace/acltrace/record/host"
)

// runUprobes records a command by uprobes on the libraries of the runtime that it will map, as far as they can be foreseen, and on
// others as it maps them.
func (r *recorder) runUprobes(ctx context.Context) (*Result, error) {
	if r.o.Library != "" {
		if _, err := os.Stat(r.o.Library); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStart, err)
		}
	}
	o, err := r.uprobeOptions()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	list, removeList, err := listFile()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	defer removeList()
	env, err := r.listKernels(r.env, list)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	cmd := r.command(ctx, env)
	resume, err := host.StartStopped(cmd)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	pid := cmd.Process.Pid
	fail := func(err error) (*Result, error) {
		_ = cmd.Process.Kill()
		_ = resume()
		_, _ = cmd.Process.Wait()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
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
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := r.dropRights(); err != nil {
		return fail(err)
	}
	defer forwardSignals(cmd.Process)()
	r.unnamed = r.named(pid)
	reading, stop := context.WithCancel(context.Background())
	read := make(chan error, 1)
	go func() { read <- u.Run(reading, r.b) }()
	_ = cmd.Wait()
	r.leftBehind(u)
	r.leaving()
	stop()
	res := r.result(cmd.ProcessState)
	res.Incomplete = errors.Join(<-read, r.b.finish())
	if r.o.Library != "" {
		r.b.libraries[r.o.Library] = true
	}
	return r.finishUprobes(res, u)
}

// leftBehind says of which processes the recording does not see the end, which is when the program that was started ends.
func (r *recorder) leftBehind(u *uprobe.Probes) {
	for _, pid := range host.UsingRuntime(r.o.Model, u.Living()) {
		if host.AnyAlive([]int{pid}) {
			exe, _ := os.Readlink(host.ProcFile(pid, "exe"))
			r.late.Lock()
			r.unseen = append(r.unseen, format.Unhooked{PID: pid, Exe: exe, Reason: "it runs on behind the program that was started: what it calls from then on is not recorded; acltrace attach does so"})
			r.late.Unlock()
		}
	}
}

// leaving says that the end takes a while: kernels that take uprobes one by one wait for all processors each time.
func (r *recorder) leaving() {
	if r.uprobes.OneByOne && r.o.Waiting != nil {
		r.o.Waiting("nothing is recorded any more; the kernel takes the probes away one by one, which may take minutes")
	}
}

// uprobeOptions tries how uprobes work here, and says how to use them.
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
		return nil, errors.Join(append(errs, errors.New("acltrace doctor names the command that grants it"))...)
	}
	r.uprobes = best
	flushed := time.Now()
	o := &uprobe.Options{OneByOne: best.OneByOne, RingBytes: r.o.RingBytes, Meanwhile: func() error { return r.flush(&flushed) }}
	switch r.o.Payload {
	case Small:
		o.PayloadLimit = SmallLimit
	case Full, Hash:
		o.PayloadLimit = ^uint64(0)
	}
	return o, nil
}

// follow puts probes on the libraries of some processes: the one that was named, those that they map, those that lie where their
// loaders look, and those that they, or processes to come, map later.
func (r *recorder) follow(u *uprobe.Probes, pids []int) (stop func(), err error) {
	if r.o.Library != "" {
		path, err := filepath.EvalSymlinks(r.o.Library)
		if err != nil {
			return nil, err
		}
		return func() {}, u.Add(path)
	}
	// From here on nothing is missed, though it may be late.
	stop, err = u.Follow(func(m uprobe.Mapped, wait time.Duration, err error) {
		r.late.Lock()
		defer r.late.Unlock()
		exe, _ := os.Readlink(host.ProcFile(m.PID, "exe"))
		l := format.Unhooked{PID: m.PID, Exe: exe, Reason: fmt.Sprintf("%s was loaded where nobody looked for it: calls in the first %v or so may be missing", m.Path, wait.Round(time.Millisecond))}
		if err != nil {
			l.Reason = fmt.Sprintf("%s was loaded and can't be probed: %v", m.Path, err)
		}
		r.unseen = append(r.unseen, l)
	})
	if err != nil {
		return nil, err
	}
	var first error
	for _, pid := range pids {
		libs, err := uprobe.FindLibraries(r.o.Model, pid)
		if err != nil && first == nil && host.Exists(host.ProcFile(pid, "maps")) {
			first = err
		}
		for _, lib := range append(libs, uprobe.SearchLibraries(r.o.Model, pid, r.folders(pid))...) {
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

// folders are those in which the loader of a process looks for libraries: the variable that says so, the program's own list, and
// what is usual.
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

// runpaths returns the lists of folders in which a program has its libraries looked for.
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
func (r *recorder) finishUprobes(res *Result, u *uprobe.Probes) (*Result, error) {
	r.ended = u.Ended()
	r.late.Lock()
	res.Unhooked = append(res.Unhooked, r.unseen...)
	r.late.Unlock()
	hooked, refused := u.Hooked()
	r.hooked = &hooked
	for _, file := range slices.Sorted(maps.Keys(refused)) {
		res.Unhooked = append(res.Unhooked, format.Unhooked{Exe: withinRoot(file), Reason: refusedReason(refused[file])})
	}
	r.meta.Tracer.CostNS, r.meta.Coverage.Binder = r.uprobes.CostNS, r.uprobes.Kind
	r.meta.Replayable = false // what only the runtime knows is missing
	return r.finish(res)
}

// withinRoot returns a file's name as the process knows it whose root leads to the file.
func withinRoot(path string) string {
	if _, name, ok := strings.Cut(path, "/root/"); ok && strings.HasPrefix(path, "/proc/") {
		return "/" + name
	}
	return path
}

// refusedReason says which functions of a library have no probe.
func refusedReason(functions []string) string {
	const most = 5
	list := strings.Join(functions[:min(most, len(functions))], ", ")
	if n := len(functions) - most; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%d of its functions begin with a LOCK or segment prefix, on which the kernel puts no uprobe (%s): --probe shim records them", len(functions), list)
}

// AttachOptions are the parameters of Attach. One of PID, Comm, Cgroup and All says which processes are recorded.
type AttachOptions struct {
	Options               // Model, Output, Payload, MaxSize, Version, and Library where the process has several
	PID     int           // one process, and the children that it makes from now on
	Comm    string        // processes of this name, those that there are and those to come
	Cgroup  string        // folder of a control group: processes in it and below
	All     bool          // every process that uses the runtime
	Sample  bool          // leave out calls while the recorder is behind, the more the further it is
	For     time.Duration // how long; 0 means until the process ends or ctx does
}

// uprobes has probes see the processes that are to be recorded.
func (o *AttachOptions) uprobes(u *uprobe.Options) *uprobe.Options {
	u.Name, u.Cgroup, u.Sample = o.Comm, o.Cgroup, o.Sample
	if o.PID != 0 {
		u.PIDs = []int{o.PID}
	}
	return u
}

// RuntimeOf returns the model of the runtime that the processes use.
func RuntimeOf(models []*api.Model, o *AttachOptions) *api.Model {
	pids, _ := o.uprobes(&uprobe.Options{}).Processes()
	return detect.OfProcesses(models, o.Library, o.PID, pids)
}

// Attach records processes that run already, until the one that was named ends, or ctx does. They are left as they were.
func Attach(ctx context.Context, o *AttachOptions) (*Result, error) {
	r := &recorder{o: o.Options}
	r.o.Probe = "ebpf"
	if r.o.Payload == "" {
		r.o.Payload = Small
	}
	if err := checkBlobFile(&r.o); err != nil {
		return nil, err
	}
	uo, err := r.uprobeOptions()
	if err != nil {
		return nil, err
	}
	o.uprobes(uo)
	if o.PID != 0 {
		if b, err := host.ProcText(o.PID, "cmdline"); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				err = syscall.ESRCH // in the words for processes
			}
			return nil, fmt.Errorf("process %d: %w", o.PID, err)
		} else if len(b) > 0 {
			r.o.Command = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		}
		if libs, err := uprobe.FindLibraries(o.Model, o.PID); err != nil {
			return nil, fmt.Errorf("process %d: %w", o.PID, err)
		} else if len(libs) == 0 && o.Library == "" {
			return nil, fmt.Errorf("process %d maps no library of the runtime (%s): name it with --library", o.PID, strings.Join(o.Model.Libraries(), ", "))
		}
		r.env = host.Environ(o.PID)
	}
	r.start = probe.Now() // calls are seen from here on
	u, err := uprobe.Load(o.Model, uo)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	pids, err := u.Candidates()
	if err != nil {
		return nil, err
	}
	if err := u.Pause(); err != nil {
		return nil, err
	}
	stopFollowing, err := r.follow(u, pids)
	if err != nil {
		return nil, err
	}
	defer stopFollowing()
	if err := u.Resume(); err != nil {
		return nil, err
	}
	if err := r.create(r.env); err != nil {
		return nil, err
	}
	if o.PID != 0 {
		if err := r.named(o.PID); err != nil {
			return nil, err
		}
		r.b.look(o.PID)
	}
	if err := r.dropRights(); err != nil {
		return nil, err
	}
	if o.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.For)
		defer cancel()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for o.PID == 0 || host.AnyAlive([]int{o.PID}) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		stop()
	}()
	defer context.AfterFunc(ctx, r.leaving)()
	res := &Result{}
	res.Incomplete = errors.Join(u.Run(ctx, r.b), r.b.finish())
	switch {
	case o.PID == 0:
		r.meta.Ended = "not looked for: the recorder was attached to programs that ran already"
	case host.AnyAlive([]int{o.PID}):
		r.meta.Ended = "not while it was recorded: the program ran on when the recorder left it"
	default:
		r.meta.Ended = "while it was recorded; with which code, only the process knows that had started it"
	}
	return r.finishUprobes(res, u)
}

// dropRights gives up what the recorder does not need any more, where that is wished.
func (r *recorder) dropRights() error {
	if !r.o.Drop {
		return nil
	}
	if err := uprobe.DropCapabilities(r.uprobes.OneByOne); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
