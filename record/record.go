// Package record records the runtime calls of a program into a trace.
//
// Run starts a program with a probe, drains the probe while the program runs, and writes the trace, which is complete however
// the program ends. Attach records programs that run already, by eBPF. Collect drains a session that Install has made for
// programs in other containers. Salvage makes a trace of what a killed recorder has left. The commands record, attach, env,
// collect and recover of acltrace call them, once per process.
//
// A recorder is one recording. Package rows builds the rows of its trace, package flight keeps a ring of the newest calls, and
// package session answers requests while it records. Nothing here interprets calls beyond what the model declares of their
// parameters, and nothing here changes what the program does.
package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/flight"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/record/rows"
	"github.com/acltrace/acltrace/sim/model"
)

// ErrStart is wrapped by errors that occurred before the program was started.
var ErrStart = errors.New("recording could not start")

// Run records one command. If the error wraps ErrStart, the program was not run.
func Run(ctx context.Context, o *Options) (*Result, error) {
	r, err := prepare(o)
	if err == nil {
		err = r.create(r.target.env)
	}
	var res *Result
	if err == nil {
		res, err = r.run(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	return res, nil
}

// recorder is one recording.
type recorder struct {
	o      Options
	target target
	meta   format.Meta
	rows   *rows.Builder
	file   traceFile
	flight *flight.Flight // nil if everything is recorded
	steps  *stepFilter    // nil if all steps are recorded
	order  *order         // nil if all steps are recorded

	window  window
	kernels kernelNotes
	unseen  unseen
	left    leftovers
	shared  sharedSession // of Collect
	uprobes uprobeUse     // of eBPF

	control control
	start   int64  // CLOCK_MONOTONIC at time 0 of the trace, 0 for the time of create
	ending  string // reason for the last seal of a ring, "" to derive it from the exit of the program
	// unsealed says that the session keeps the content of the ring, since it could not be sealed.
	unsealed bool
	// saidUntimed says that Options.Waiting knows of tasks that are not measured.
	saidUntimed bool
}

// target is the program that is recorded, or the first process of a session.
type target struct {
	path string // "" if the program was started elsewhere
	env  []string
	root int         // PID of the started program, 0 if it was started elsewhere
	ends []probe.End // of processes that have ended
	code int         // exit code of a program that was started elsewhere
}

func prepare(opts *Options) (*recorder, error) {
	r := &recorder{o: *opts}
	o := &r.o
	o.defaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	var err error
	if r.target.path, err = host.FindProgram(o.Command[0]); err != nil {
		return nil, err
	}
	if err := host.CheckExecutable(r.target.path); err != nil && (o.Capture.Probe == "shim" || !strings.Contains(err.Error(), "statically")) {
		return nil, err
	}
	r.target.env = slices.Clone(o.Env)
	if o.Sim {
		dir, err := artifacts.SimulatorDir(o.Model)
		if err != nil {
			return nil, err
		}
		r.target.env = inject.Simulate(o.Model, r.target.env, dir)
	}
	return r, nil
}

// create creates the trace and its Builder. env is the environment of the program.
func (r *recorder) create(env []string) error {
	o := &r.o
	r.begun(env)
	if err := r.file.prepare(o, env); err != nil {
		return err
	}
	w, err := format.Create(r.file.at, &r.meta, schema.Of(o.Model), &format.WriterOptions{BlobFile: r.file.blobs})
	if err == nil {
		r.file.made, err = os.Stat(r.file.at)
	}
	if err != nil {
		r.file.leave()
		return err
	}
	if o.Ring != nil {
		// The file has proved that the name can be written. The name stays free until there is a ring to seal.
		r.file.leave()
		if err := errors.Join(w.Abort(), os.Remove(r.file.at)); err != nil {
			return err
		}
		w = nil
	}
	r.rows = rows.New(&rows.Options{
		Model: o.Model, Meta: &r.meta, HashOnly: o.Capture.Payload == Hash, Visible: o.Capture.Replayable && o.Capture.Probe == "shim" && o.Model.KeepsVisible(),
		MaxSize: r.file.maxSize, Follower: o.Follower, Undrained: o.Capture.Probe == "ebpf", Now: probe.Now,
	}, w)
	if o.Ring != nil {
		r.flight = flight.New(*o.Ring, r.flightRecording())
	}
	return nil
}

func (r *recorder) flightRecording() flight.Recording {
	return flight.Recording{
		Model: r.o.Model, Meta: &r.meta, Rows: r.rows, Overwrite: r.o.Overwrite, Describe: r.describe, Prune: r.file.prune,
		Output: func() string { return r.file.name },
	}
}

// begun sets the meta data that is known when a recording begins.
func (r *recorder) begun(env []string) {
	o := &r.o
	name, _ := os.Hostname()
	now, mono := time.Now().UnixNano(), probe.Now()
	if r.start != 0 {
		now, mono = now-(mono-r.start), r.start
	}
	r.meta = format.Meta{
		Host: name, Argv: o.Command, Env: recordedEnv(o.Model, env, "."), CapturedBy: o.Capture.Probe, API: o.Model.Name, Simulated: o.Sim,
		StartWall: now, StartMono: mono, Payloads: format.Payloads{PayloadLevel: string(o.Capture.Payload), Policy: policyName(o.Limits.Block), Replayable: o.Capture.Replayable},
		Tracer: format.Tracer{Version: o.Version, Stacks: min(o.Capture.Stacks, ring.MostFrames), Operators: o.operators(), Marks: string(o.Capture.Marks)}, Derivation: format.Derivation{Window: o.window(r.target.path != "")},
	}
	r.meta.Device.Runtime, r.meta.Device.DriverVersion = host.RuntimeVersions(&o.Model.Installed, env)
}

func policyName(block bool) string {
	if block {
		return "block"
	}
	return "drop"
}

// variablesFile has the names of the environment variables that programs report, in the folder of a session.
const variablesFile = "variables"

func variables(m *api.Model) string {
	return strings.Join(slices.Concat(m.Environment, format.RankVariables), "\n")
}

// recordedEnv returns the variables that describe how the program ran. The model lists their names and prefixes.
func recordedEnv(am *api.Model, env []string, cwd string) map[string]string {
	m := host.Recorded(am, env)
	// Store the content of a cost model: a replay opens no file that a trace names.
	if name := am.Simulator.Model; m[name] != "" {
		setting := m[name]
		if inside := filepath.Join(cwd, setting); !filepath.IsAbs(setting) && host.Exists(inside) {
			setting = inside
		}
		if content, err := model.Content(setting); err == nil {
			m[name] = content
		}
	}
	return m
}

func (r *recorder) run(ctx context.Context) (res *Result, err error) {
	if r.o.Capture.Probe == "ebpf" {
		res, err = r.runUprobes(ctx)
	} else {
		res, err = r.runShim(ctx)
	}
	if err != nil && r.flight == nil { // nothing was recorded: remove the files
		r.rows.Writer().Abort()
		r.file.remove()
	}
	return res, err
}

// joined takes the command and the environment of a program that was started elsewhere from its first process.
func (r *recorder) joined(p *probe.Process) {
	if r.o.Command == nil && r.meta.Argv == nil {
		r.meta.Argv = p.Argv
		cwd, _ := host.Cwd(p.Local)
		r.meta.Env = recordedEnv(r.o.Model, p.Variables, cwd)
		r.target.env = p.Variables
		r.file.unnamed = r.file.named(p.Variables, p.PID, r.flight != nil)
	}
}

func (t *target) command(o *Options, env []string) *exec.Cmd {
	cmd := exec.Command(t.path, o.Command[1:]...)
	cmd.Args[0] = o.Command[0]
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if o.Stdin != nil {
		cmd.Stdin = o.Stdin
	}
	if o.Stdout != nil {
		cmd.Stdout = o.Stdout
	}
	if o.Stderr != nil {
		cmd.Stderr = o.Stderr
	}
	return cmd
}

// exitStatus returns the exit code as a shell reports it, and the signal that ended the program, 0 for none.
func exitStatus(state *os.ProcessState) (code, signal int) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), int(ws.Signal())
	}
	return state.ExitCode(), 0
}

// RunSimulated runs a command on the simulator, without recording, and returns its exit code.
func RunSimulated(m *api.Model, command []string, stdout, stderr *os.File) (int, error) {
	dir, err := artifacts.SimulatorDir(m)
	if err != nil {
		return 0, err
	}
	path, err := host.FindProgram(command[0])
	if err != nil {
		return 0, err
	}
	t := target{path: path}
	cmd := t.command(&Options{Command: command, Stdout: stdout, Stderr: stderr}, inject.Simulate(m, os.Environ(), dir))
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer forwardSignals(cmd.Process)()
	_ = cmd.Wait()
	code, _ := exitStatus(cmd.ProcessState)
	return code, nil
}
