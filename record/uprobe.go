package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/probe"
)

// runUprobes records a command by uprobes on the runtime's library, which the program maps once it runs.
func (r *recorder) runUprobes(ctx context.Context) (*Result, error) {
	lib, err := r.library()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	cmd := r.command(ctx, r.env)
	resume, err := startStopped(cmd)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	u, err := probe.AttachUprobes(r.o.Model, lib, r.uprobeOptions(cmd.Process.Pid))
	if err != nil {
		_ = cmd.Process.Kill()
		_ = resume()
		_, _ = cmd.Process.Wait()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	defer u.Close()
	if err := resume(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	defer forwardSignals(cmd.Process)()
	unnamed := r.named(cmd.Process.Pid)
	reading, stop := context.WithCancel(context.Background())
	read := make(chan error, 1)
	go func() { read <- u.Run(reading, r.b) }()
	_ = cmd.Wait()
	stop()
	res := r.result(cmd.ProcessState)
	res.Incomplete = errors.Join(<-read, r.b.finish(), unnamed)
	r.b.libraries[lib] = true
	return r.finish(res)
}

func (r *recorder) uprobeOptions(pid int) *probe.UprobeOptions {
	o := &probe.UprobeOptions{PIDs: []int{pid}}
	switch r.o.Payload {
	case Small:
		o.PayloadLimit = SmallLimit
	case Full, Hash:
		o.PayloadLimit = ^uint64(0)
	}
	return o
}

// library finds the file with the runtime that the program will map, as the loader does.
func (r *recorder) library() (string, error) {
	if r.o.Library != "" {
		if _, err := os.Stat(r.o.Library); err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(r.o.Library)
	}
	libs := r.o.Model.Layers[0].Libraries
	cmd := exec.Command(r.path)
	cmd.Env = append(append([]string{}, r.env...), "LD_TRACE_LOADED_OBJECTS=1")
	out, _ := cmd.Output()
	for line := range strings.Lines(string(out)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " => ")
		path, _, _ := strings.Cut(rest, " (")
		if ok && (slices.Contains(libs, name)) && filepath.IsAbs(path) {
			return filepath.EvalSymlinks(path)
		}
	}
	if r.simDir != "" {
		return filepath.EvalSymlinks(filepath.Join(r.simDir, artifacts.Simulator))
	}
	return "", fmt.Errorf("%s is not linked to %s: name the library it will load with --library", r.o.Command[0], libs[0])
}

// AttachOptions are the parameters of Attach.
type AttachOptions struct {
	Options               // Model, Output, Payload, MaxSize, Version, and Library where the process has several
	PID     int           // required
	For     time.Duration // how long; 0 means until the process ends or ctx does
}

// Attach records a process that runs already, until it ends or ctx does. The process is left as it was.
func Attach(ctx context.Context, o *AttachOptions) (*Result, error) {
	if b, err := os.ReadFile(procFile(o.PID, "cmdline")); err != nil {
		return nil, fmt.Errorf("process %d: %w", o.PID, errors.Unwrap(err))
	} else if len(b) > 0 {
		o.Command = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	}
	libs := []string{o.Library}
	if o.Library == "" {
		var err error
		if libs, err = probe.FindLibraries(o.Model, o.PID); err != nil {
			return nil, fmt.Errorf("process %d: %w", o.PID, err)
		}
		if len(libs) == 0 {
			return nil, fmt.Errorf("process %d maps no library of the runtime (%s): name it with --library", o.PID, strings.Join(o.Model.Libraries(), ", "))
		}
	}
	r := &recorder{o: o.Options}
	r.o.Probe = "ebpf"
	if r.o.Payload == "" {
		r.o.Payload = Small
	}
	u, err := probe.AttachUprobes(o.Model, libs[0], r.uprobeOptions(o.PID))
	if err != nil {
		return nil, err
	}
	defer u.Close()
	for _, lib := range libs[1:] {
		if err := u.Add(lib); err != nil {
			return nil, err
		}
	}
	r.env = processEnv(o.PID)
	if err := r.create(r.env); err != nil {
		return nil, err
	}
	if err := r.named(o.PID); err != nil {
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
		for anyAlive([]int{o.PID}) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		stop()
	}()
	res := &Result{}
	r.b.look(o.PID)
	res.Incomplete = errors.Join(u.Run(ctx, r.b), r.b.finish())
	return r.finish(res)
}

func processEnv(pid int) []string {
	b, err := os.ReadFile(procFile(pid, "environ"))
	if err != nil {
		return nil
	}
	var env []string
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if len(v) > 0 {
			env = append(env, string(v))
		}
	}
	return env
}
