package record

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/record/rows"
	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/record/watch"
)

// runShim records the command by the shim. After an error the program has not run.
func (r *recorder) runShim(ctx context.Context) (*Result, error) {
	s, err := ring.Create(r.o.Model, r.ringOptions())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r.left = rescue(r.o.Model, filepath.Dir(s.Dir()))
	if err := os.WriteFile(filepath.Join(s.Dir(), variablesFile), []byte(variables(r.o.Model)), 0o600); err != nil {
		return nil, err
	}
	shim, err := inject.InstallShim(s.Dir(), r.o.Model)
	if err != nil {
		return nil, err
	}
	defer shim.Close()
	inherited, outer := inject.TakeOver(r.target.env)
	env, err := r.shimEnvironment(s, shim, inherited)
	if err != nil {
		return nil, err
	}
	r.meta.Coverage.Binder = r.o.Capture.Bind
	if err := r.begin(s); err != nil {
		return nil, err
	}
	cmd := r.target.command(&r.o, env)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer forwardSignals(cmd.Process)()
	defer preferOOM()()
	r.target.root = cmd.Process.Pid
	r.rows.Processes.Command = rows.Command{PID: cmd.Process.Pid, Path: cmd.Path, Env: cmd.Env}
	r.file.unnamed = r.file.named(r.target.env, r.target.root, r.flight != nil)
	inject.LeaveNote(outer, cmd.Process.Pid, r.target.path, r.file.name)
	w := watch.Start(r.o.Model, cmd.Process.Pid, shim.Path, s.Dir())
	defer heartbeat(s)()
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	looked := time.Time{}
	incomplete := r.drain(s, func() bool {
		select {
		case <-exited:
		default:
			return false
		}
		if s.Alive() || time.Since(looked) < 50*time.Millisecond {
			return false
		}
		looked = time.Now()
		return deserted(r.o.Model, s)
	})
	r.control.close()
	if incomplete != nil {
		s.Off()
		<-exited
	}
	res := &Result{Incomplete: incomplete, Salvaged: r.left.salvaged, Left: r.left.sessions}
	res.ExitCode, res.Signal = exitStatus(cmd.ProcessState)
	r.learn(res, s)
	res.Unhooked = append(append(inject.Notes(s.Dir()), w.End()...), r.unseen.all()...)
	if res.NoShim = w.WithoutShim(); len(res.NoShim) == 0 && host.GainsRights(r.target.path) != "" {
		res.NoShim = []format.Unhooked{{Exe: r.target.path, Reason: watch.GainedRights}}
	}
	r.finish(res)
	if r.unsealed {
		s.Keep()
		res.Left = append(res.Left, Left{Session: s.Dir(), Err: res.Incomplete})
	}
	return res, nil
}

// shimEnvironment returns the environment in which a program loads the shim.
func (r *recorder) shimEnvironment(s *ring.Session, shim *inject.ShimFolder, env []string) ([]string, error) {
	env = inject.Prepend(env, "LD_PRELOAD", shim.Path, ":")
	env = inject.Prepend(env, "ASAN_OPTIONS", inject.LinkOrder, ":")
	env = append(env, "ACLTRACE_SESSION="+s.Dir())
	env, err := r.kernels.list(r.o.Model, env, filepath.Join(s.Dir(), kernelList))
	if err != nil {
		return nil, err
	}
	if name := tools[r.o.Capture.Marks]; name != "" {
		path, err := shim.Decoy(name)
		if err != nil {
			return nil, err
		}
		env = inject.Append(env, "LD_PRELOAD", path, ":")
	}
	if r.o.Capture.Bind == "audit" {
		if env, err = shim.Audited(r.target.path, env); err != nil {
			return nil, &OptionError{Conflict: AuditImpossible, Err: err}
		}
	}
	return env, nil
}

// begin prepares the session before any process writes to it.
func (r *recorder) begin(s *ring.Session) error {
	if r.o.Command != nil {
		if output, err := filepath.Abs(r.file.name); err == nil {
			me := session.Note{PID: os.Getpid(), Output: output, Begun: r.meta.StartMono, Ring: r.flight != nil, UUID: r.meta.UUID}
			_ = os.WriteFile(filepath.Join(s.Dir(), session.NoteFile), me.Bytes(), 0o600)
		}
	}
	r.rows.Hooks.ThreadName, r.rows.Hooks.Joined = s.ThreadName, r.joined
	if r.flight != nil {
		if err := r.flight.Open(s); err != nil {
			return err
		}
	}
	r.window.since = r.now()
	switch {
	case r.shared.succeeds: // keep the state that the previous collector has set
	case r.o.Capture.Armed:
		s.Pause(0)
	default:
		s.Resume()
	}
	r.limit(s) // a trace without calls may exceed the limit already
	if only, waiting := s.Paused(); waiting && only == 0 {
		r.window.waiting = max(r.now(), 1)
		r.rows.Lacks = format.Detached
	}
	if r.o.Steps.Range != nil {
		r.steps = newStepFilter(&r.o, r.rows, &r.meta)
		r.rows.Hooks.Keep, r.order = r.steps.keep, newOrder(r.rows)
	}
	if err := r.listen(s); err != nil && r.o.Capture.Armed {
		return err
	}
	return nil
}

// now returns the time on the clock of the trace.
func (r *recorder) now() int64 { return probe.Now() - r.meta.StartMono }

// heartbeat shows programs that the recorder is alive, until the returned function is called. Programs wait for a recorder
// only while it has a heartbeat: a recorder that is stopped or killed costs data, never the job.
func heartbeat(s *ring.Session) (end func()) {
	stop := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		for {
			s.Heartbeat()
			select {
			case <-time.After(100 * time.Millisecond):
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		beats.Wait()
	}
}

// preferOOM makes the kernel kill this process, rather than the program, if memory runs out, until the returned function is
// called.
func preferOOM() (restore func()) {
	const file = "/proc/self/oom_score_adj"
	was, err := os.ReadFile(file)
	if err != nil || os.WriteFile(file, []byte("1000"), 0) != nil {
		return func() {}
	}
	return func() { _ = os.WriteFile(file, was, 0) }
}

// ringOptions returns the options of the session.
func (r *recorder) ringOptions() *ring.Options {
	so := &ring.Options{Calls: r.o.Capture.Calls, Buffers: r.o.Limits.Buffers, PayloadLimit: r.o.Capture.Payload.limit()}
	if clock := r.o.Model.Simulator.Clock; r.o.Sim && clock != "" && slices.Contains(r.target.env, clock+"=virtual") {
		// Calls have times of the simulator's clock.
		so.VirtualFrom = r.meta.StartMono
	} else {
		r.meta.Tracer.GapNS = probe.GapNS
	}
	if r.o.Capture.NoSmall {
		so.PayloadLeast = SmallestCopy
	}
	if r.o.Capture.Replayable && r.o.Model.KeepsVisible() {
		so.VisibleLimit = VisibleLimit
	}
	return so
}

// deserted reports whether no process of a session is left. A descendant that has not made its first call is found by its
// environment. A single scan of the processes may miss one that is forked meanwhile, so that there are two.
func deserted(m *api.Model, s *ring.Session) bool {
	for range 2 {
		if host.AnyAlive(host.UsingRuntime(m, host.Mentioning(s.Dir()))) {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

// learn takes over what a session reports at its end.
func (r *recorder) learn(res *Result, s *ring.Session) {
	r.meta.Tracer.CostNS, r.meta.Tracer.ClockJumps = s.Cost(), s.ClockJumps()
	res.PassedBy = s.PassedBy()
	refused := s.Refused()
	for why, n := range refused {
		if res.Refused += n; n > refused[res.Ringless.Why] || n == refused[res.Ringless.Why] && why < res.Ringless.Why {
			res.Ringless.Why = why
		}
	}
	if pid := s.Stranger(); pid != 0 {
		r.unseen.add(format.Unhooked{PID: pid, Reason: "its shim is from another build of acltrace, and records nothing: use the recorder's build"})
	}
	if o := s.ShutOut(); o.Count > 0 {
		r.unseen.add(format.Unhooked{PID: o.PID, Exe: o.Exe, Reason: fmt.Sprintf("it filters system calls (seccomp): %d threads and children are not recorded", o.Count)})
	}
	for _, d := range s.Damage() {
		r.unseen.damaged = true
		of := "later threads and processes"
		if d.TID != 0 {
			of = fmt.Sprintf("later calls of thread %d", d.TID)
		} else {
			_ = r.rows.Missing(format.Gap{Thread: format.NoThread, From: r.rows.Last, To: max(r.rows.Last, r.now()), Reason: format.RecorderLost})
		}
		r.unseen.add(format.Unhooked{PID: d.PID, Exe: d.Exe, Reason: fmt.Sprintf("%s: %s are not recorded", d.What, of)})
	}
	if r.o.Capture.DeviceTime != 0 {
		d, n := r.rows.DeviceTime(), s.Untimed()
		d.Every, d.GapNS = r.o.Capture.DeviceTime, r.o.Capture.DeviceTimeGap.Nanoseconds()
		d.PoolExhausted, d.Captured, d.Lost, d.Refused = n[probe.UntimedPool], n[probe.UntimedCapture], n[probe.UntimedLost], n[probe.UntimedFailed]
		r.meta.DeviceTime = &d
	}
}
