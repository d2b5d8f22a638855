package recording

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/standing"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/session"
)

// Each property of a result, alone and in several, has a golden text, with and without --quiet.
func TestTextOfEachResult(t *testing.T) {
	died := func(signals ...int) (all []record.Died) {
		for i, s := range signals {
			d := record.Died{PID: 100 + i, Command: "job", Signal: s}
			for k := range i {
				d.Last = append(d.Last, fmt.Sprintf("call %d", k))
			}
			all = append(all, d)
		}
		return all
	}
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("kernel%d", i))
		}
		return all
	}
	asleep := func(n int) (all []format.Asleep) {
		for i := range n {
			all = append(all, format.Asleep{PID: 7, TID: 8 + i, Name: "worker"})
		}
		return all
	}
	unhooked := func(n int) (all []format.Unhooked) {
		for i := range n {
			all = append(all, format.Unhooked{PID: 7 + i, Exe: "/bin/x", Reason: "its environment was cleared"})
		}
		return all
	}
	set := func(changes ...func(o *record.Options, r *record.Result)) func(*record.Options, *record.Result) {
		return func(o *record.Options, r *record.Result) {
			r.Calls, r.Processes, r.File.Bytes = 1000, 1, 4096
			for _, change := range changes {
				change(o, r)
			}
		}
	}
	type options = record.Options
	type result = record.Result
	none := func(o *options, r *result) { r.Calls, r.Processes = 0, 0 }
	command := func(o *options, r *result) { o.Command = []string{"job"} }
	var all strings.Builder
	for _, c := range []struct {
		name   string
		change func(*options, *result)
	}{
		{"all is well", set(command)},
		{"attached", set()},
		{"one call", set(func(o *options, r *result) { r.Calls = 1 })},
		{"code 3", set(command, func(o *options, r *result) { r.ExitCode = 3 })},
		{"signal", set(command, func(o *options, r *result) { r.ExitCode, r.Signal = 139, 11 })},
		{"asked to end in a call", set(command, func(o *options, r *result) { r.ExitCode, r.Signal, r.Unfinished = 130, 2, 1 })},
		{"asked to end", set(command, func(o *options, r *result) { r.ExitCode, r.Signal, r.Apart = 130, 2, record.Apart{Marks: 7} })},
		{"for", set(func(o *options, r *result) { r.Stop, o.Limits.For = record.Time, 3*time.Second })},
		{"steps", set(func(o *options, r *result) {
			r.Stop, o.Steps.Range = record.Selected, &record.StepRange{First: 2, Last: 9}
		})},
		{"size", set(func(o *options, r *result) { r.Stop = record.Size })},
		{"asked", set(func(o *options, r *result) { r.Stop = record.Asked })},
		{"failed", set(func(o *options, r *result) { r.Stop, r.Incomplete = record.Failed, errors.New("the disk is full") })},
		{"failed calls", set(func(o *options, r *result) { r.Failed, r.Unfinished, r.Cut = 1, 5, 2 })},
		{"cut only", set(func(o *options, r *result) { r.Unfinished, r.Cut = 1, 1 })},
		{"lost", set(func(o *options, r *result) { r.Lost, r.Nested, r.Ringless.Calls = 10, 3, 2 })},
		{"one lost", set(func(o *options, r *result) { r.Lost = 1 })},
		{"nested only", set(func(o *options, r *result) { r.Lost, r.Nested = 1, 1 })},
		{"unwritten", set(func(o *options, r *result) { r.Unwritten = 1 })},
		{"blobs", set(func(o *options, r *result) { r.File.BlobFile, r.File.BlobBytes = "x.blobs", 1<<20 })},
		{"older kept", set(func(o *options, r *result) { r.File.OlderKept = true })},
		{"moved", set(func(o *options, r *result) { r.File.Moved = []string{"a.aclt", "b.aclt"} })},
		{"missing", set(func(o *options, r *result) { r.File.Missing = "it was removed" })},
		{"one died", set(func(o *options, r *result) { r.Died = died(11) })},
		{"six died", set(func(o *options, r *result) { r.Died = died(11, 6, 15, 9, 11, 11, 11) })},
		{"five died", set(func(o *options, r *result) { r.Died = died(11, 6, 9, 11, 11) })},
		{"asked to end", set(func(o *options, r *result) { r.Died = died(15) })},
		{"three asleep", set(func(o *options, r *result) { r.Asleep = asleep(3) })},
		{"four asleep", set(func(o *options, r *result) { r.Asleep = asleep(4) })},
		{"one kernel", set(func(o *options, r *result) {
			r.Kernels = record.KernelResult{Unexecuted: names(1), Crashed: names(1), NotComputed: names(1), Forgotten: errors.New("no folder")}
		})},
		{"five kernels", set(func(o *options, r *result) {
			r.Kernels = record.KernelResult{Unexecuted: names(5), Crashed: names(5), NotComputed: names(5)}
		})},
		{"six kernels", set(func(o *options, r *result) {
			r.Kernels = record.KernelResult{Unexecuted: names(6), Crashed: names(6), NotComputed: names(6)}
		})},
		{"passed by", set(func(o *options, r *result) { r.PassedBy = map[string]uint64{acl.Model.Declared[0]: 1} })},
		{"asked for", set(func(o *options, r *result) { r.PassedBy = map[string]uint64{"aclGone": 9} })},
		{"beneath", set(func(o *options, r *result) {
			r.PassedBy = map[string]uint64{"drvMemAlloc": 9, "halMemcpy": 9, "hrtMalloc": 9}
		})},
		{"ten unhooked", set(func(o *options, r *result) { r.Unhooked = unhooked(10) })},
		{"eleven unhooked", set(func(o *options, r *result) { r.Unhooked = unhooked(11) })},
		{"one rank", set(func(o *options, r *result) {
			r.Ranks = []record.RankFile{{Rank: 0, Output: "0.aclt", Calls: 5, Bytes: 6}}
		})},
		{"two ranks", set(func(o *options, r *result) {
			r.Ranks = []record.RankFile{{Rank: 0, Output: "0.aclt", Calls: 5, Bytes: 6}, {Rank: 1, Output: "1.aclt", Calls: 1, Bytes: 2048}}
		})},
		{"sealed", set(func(o *options, r *result) { r.Sealed, r.File.Look = []string{"1.aclt", "2.aclt"}, 1 })},
		{"look beyond", set(func(o *options, r *result) { r.Sealed, r.File.Look = []string{"1.aclt", "2.aclt"}, 5 })},
		{"look before", set(func(o *options, r *result) { r.Sealed, r.File.Look = []string{"1.aclt", "2.aclt"}, -1 })},
		{"six sealed", set(func(o *options, r *result) { r.Sealed = names(6) })},
		{"salvaged", set(func(o *options, r *result) { r.Salvaged = []string{"old.aclt"} })},
		{"left", set(func(o *options, r *result) {
			r.Left = []record.Left{{Session: "/dev/shm/acltrace-1", Err: errors.New("no room")}}
		})},
		{"missed", set(func(o *options, r *result) {
			r.Missed = &record.MissedSteps{Wanted: record.StepRange{First: 10, Last: 20}, Made: 1, By: "waits"}
		})},
		{"filtered threads", set(func(o *options, r *result) { r.Lost, r.Ringless.Calls = 1, 1 })},
		{"no call", set(none)},
		{"no call by eBPF", set(none, func(o *options, r *result) { o.Capture.Probe = "ebpf" })},
		{"no call, armed", set(none, func(o *options, r *result) { o.Capture.Armed = true })},
		{"no call, code 127", set(none, func(o *options, r *result) { r.ExitCode = 127 })},
		{"no call, code 127, simulated", set(none, func(o *options, r *result) { r.ExitCode, o.Sim = 127, true })},
		{"no call, asleep", set(none, func(o *options, r *result) { r.Asleep = asleep(4) })},
		{"no call, older kept", set(none, func(o *options, r *result) { r.File.OlderKept = true })},
		{"no call, no shim", set(none, func(o *options, r *result) { r.NoShim = unhooked(2) })},
		{"no call, a process", set(none, func(o *options, r *result) { r.Processes = 1 })},
		{"no call, unwritten", set(none, func(o *options, r *result) { r.Unwritten = 2 })},
		{"no call, no space", set(none, func(o *options, r *result) { r.Unwritten, r.Incomplete = 2, syscall.ENOSPC })},
		{"no room", set(none, func(o *options, r *result) { r.File.NoRoom = 512 })},
		{"no room on the disk", set(none, func(o *options, r *result) { r.File.NoRoom, r.File.DiskFull = 512, true })},
	} {
		o, r := &record.Options{Model: acl.Model, Capture: record.Capture{Probe: "shim"}}, &record.Result{Output: "x.aclt"}
		c.change(o, r)
		fmt.Fprintf(&all, "== %s\n", c.name)
		Text(&all, o, r, false)
		var quiet strings.Builder
		if Text(&quiet, o, r, true); quiet.Len() > 0 {
			fmt.Fprintf(&all, "quiet:\n%s", &quiet)
		}
	}
	for why := ring.RefusedMemory; why <= ring.RefusedFiles; why++ {
		fmt.Fprintf(&all, "== refused %d\n", why)
		Text(&all, &record.Options{Model: acl.Model}, &record.Result{Output: "x.aclt", Calls: 5, Refused: 2, Lost: 4, Ringless: record.Ringless{Calls: 4, Why: why}}, false)
	}
	testenv.Golden(t, "texts.txtar", "results", all.String())
}

// Each state of a recording in progress has a golden text.
func TestStatusOfEachState(t *testing.T) {
	var all strings.Builder
	for _, c := range []struct {
		name   string
		change func(*session.Status)
	}{
		{"recording", func(*session.Status) {}},
		{"waiting", func(st *session.Status) { st.Recording, st.Only = false, 5 }},
		{"one process only", func(st *session.Status) { st.Only, st.Calls, st.Processes = 5, 1, []int{5} }},
		{"lost", func(st *session.Status) { st.Lost = 1 }},
		{"ring", func(st *session.Status) { st.Ring = 1 << 20 }},
		{"saved", func(st *session.Status) { st.Sealed = []string{"a.aclt", "b.aclt"} }},
		{"standing", func(st *session.Status) {
			st.Standing = []standing.Call{{PID: 7, TID: 8, Func: "aclrtSynchronizeStream", On: "stream#1", ForNS: 1_070}}
		}},
	} {
		st := &session.Status{Session: "/dev/shm/acltrace-1", Recorder: 9, Command: []string{"python", "train.py"}, Processes: []int{1, 2}, Recording: true, Calls: 8440, Output: "x.aclt", Seconds: 12.5}
		c.change(st)
		fmt.Fprintf(&all, "== %s\n", c.name)
		Status(&all, st)
	}
	testenv.Golden(t, "texts.txtar", "status", all.String())
}
