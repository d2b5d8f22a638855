package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record/detect"
	"github.com/acltrace/acltrace/record/host"
)

// AttachOptions are the parameters of Attach. Exactly one of PID, Comm, Cgroup and All selects the processes.
type AttachOptions struct {
	Options        // Capture has a Library if the process maps several
	PID     int    // a process, and its future children
	Comm    string // present and future processes with this name
	Cgroup  string // folder of a control group: processes in it and below
	All     bool   // every process that uses the runtime
	Sample  bool   // skip calls while the recorder is too slow, more of them the later it is
}

// uprobes adds the selection of processes to the options of the probes.
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
	return detect.OfProcesses(models, o.Capture.Library, o.PID, pids)
}

// usersBelow returns the nearest descendants of a process that map a library of the runtime, such as those of a shell or a launcher.
func usersBelow(m *api.Model, pid int) (pids []string) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(child)
			if libs, err := uprobe.FindLibraries(m, n); err == nil && len(libs) > 0 {
				pids = append(pids, child)
			} else {
				pids = append(pids, usersBelow(m, n)...)
			}
		}
	}
	return pids
}

// untilGone returns a context that ends with a process, 0 for none.
func untilGone(ctx context.Context, pid int) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		for pid == 0 || host.AnyAlive([]int{pid}) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		stop()
	}()
	return ctx, stop
}

// Attach records running processes until the process PID ends, or ctx. It removes its probes at the end.
func Attach(ctx context.Context, o *AttachOptions) (*Result, error) {
	r := &recorder{o: o.Options}
	r.o.Capture.Probe = "ebpf"
	r.o.defaults()
	if err := r.o.check(); err != nil {
		return nil, err
	}
	uo, err := r.uprobeOptions()
	if err != nil {
		return nil, err
	}
	o.uprobes(uo)
	if o.PID != 0 {
		if st := procstat.Read(o.PID); !st.Exists() && !st.Unreadable {
			return nil, fmt.Errorf("process %d: %w", o.PID, syscall.ESRCH)
		}
		r.o.Command = host.Argv(o.PID)
		if libs, err := uprobe.FindLibraries(o.Model, o.PID); err != nil {
			return nil, err
		} else if len(libs) == 0 && o.Capture.Library == "" {
			if pids := usersBelow(o.Model, o.PID); len(pids) > 0 {
				return nil, fmt.Errorf("process %d does not use the runtime, but its descendant %s does: attach to that", o.PID, strings.Join(pids, ", "))
			}
			return nil, &OptionError{Conflict: LibraryUnknown, Value: fmt.Sprintf("process %d maps no library of the runtime (%s)", o.PID, strings.Join(o.Model.Libraries(), ", "))}
		}
		r.target.env = host.Environ(o.PID)
	}
	r.start = probe.Now() // the first calls may arrive from now on
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
	asleep := host.NewAsleep(o.Model, pids) // calls that begin later are recorded
	if err := r.create(r.target.env); err != nil {
		return nil, err
	}
	if o.PID != 0 {
		if err := r.file.named(r.target.env, o.PID, false); err != nil {
			return nil, err
		}
		r.rows.Processes.Look(o.PID)
	}
	if err := r.dropRights(); err != nil {
		return nil, err
	}
	if o.Limits.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Limits.For)
		defer cancel()
	}
	timed := ctx // ends by the time or by a signal
	ctx, stop := untilGone(ctx, o.PID)
	defer stop()
	defer context.AfterFunc(ctx, r.leaving)()
	res := &Result{}
	r.rows.Hooks.ThreadName = u.ThreadName
	res.Incomplete = errors.Join(u.Run(ctx, r.rows), r.rows.Finish())
	switch {
	case errors.Is(timed.Err(), context.DeadlineExceeded):
		res.Stop = Time
	case timed.Err() != nil:
		res.Stop = Asked
	}
	switch {
	case o.PID == 0:
		r.meta.Ended = "unknown: the recorder was attached to running programs"
	case host.AnyAlive([]int{o.PID}):
		r.meta.Ended = "not during the recording: the program was still running"
	default:
		r.meta.Ended = "during the recording, with an exit code that only its parent knows"
	}
	res.Asleep = asleep.Still()
	r.meta.Coverage.Asleep = res.Asleep
	r.finishUprobes(res, u)
	return res, nil
}
