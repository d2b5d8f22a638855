package record

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/timeline"
)

// Calls while recording is off may change the meaning of later calls. Memory that was allocated meanwhile is known as pinned, a
// result that was awaited meanwhile is not captured later, and an argument list that was begun again has no old buffers.
func TestUnseenPaused(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	dir := t.TempDir()
	out := filepath.Join(dir, "p.aclt")
	program := testenv.CompileC(t, "unseen", []string{"testdata/unseen.c"})
	switched := make(chan error, 1)
	go func() {
		switched <- func() error {
			mine, err := ownSession()
			if err != nil {
				return err
			}
			for i, do := range []session.Action{session.ActStart, session.ActStop, session.ActStart, session.ActStop} {
				err := between(filepath.Join(dir, fmt.Sprint(i)), func() error {
					_, err := session.Ask(mine, &session.Request{Do: do})
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	res, err := Run(context.Background(), &Options{Model: acl.Model, Output: out, Sim: true, Capture: Capture{Calls: Calls{Armed: true}, Replayable: true},
		Command: []string{program, dir, "paused", testenv.Built(t, "lib/aclsim_kernels.o")}})
	if err != nil || res.ExitCode != 0 || res.Lost != 0 {
		t.Fatalf("%v: %+v", err, res)
	}
	if err := <-switched; err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Meta().Replayable {
		t.Error("a trace that lacks calls is said to be replayable")
	}
	tl, err := timeline.Load(r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tl.Tasks {
		if tl.Tasks[i].Pageable() {
			t.Errorf("call %d is said to copy from or to pageable memory, of which the trace knows nothing", tl.Tasks[i].Call)
		}
	}
	all, err := r.DataByCall(nil, func(d *format.Data) bool { return d.Param != api.MemoryParam })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		name := r.Schema().FuncName(c.Func)
		if name != "aclrtMemcpyAsync" && name != "aclrtLaunchKernelWithConfig" {
			continue
		}
		data := all[c.Index]
		if len(data) == 0 {
			got = append(got, "nothing")
		}
		for _, d := range data {
			if d.Status == format.Missing {
				got = append(got, d.Reason.String())
				continue
			}
			b := content(t, r, &d)
			if !bytes.Equal(b, bytes.Repeat(b[:1], len(b))) {
				t.Errorf("call %d: not of one letter", c.Index)
			}
			got = append(got, string(b[:1]))
		}
	}
	if want := []string{"A", "B", format.Detached.String(), "nothing", "D", format.Detached.String()}; !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
}

// A stream that is destroyed returns its events, and their times are records beside the call's own.
func TestStreamLeft(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	out := filepath.Join(t.TempDir(), "l.aclt")
	program := testenv.CompileC(t, "unseen", []string{"testdata/unseen.c"})
	res, err := Run(t.Context(), &Options{Model: acl.Model, Output: out, Sim: true, Capture: Capture{Calls: Calls{DeviceTime: 1}}, Command: []string{program, ".", "left", "early"}})
	if err != nil || res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 {
		t.Fatalf("%v: %+v", err, res)
	}
	r, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if f := acl.Model.Func(api.ID(c.Func)); !f.HostCallback {
			names = append(names, f.Name)
		}
	}
	want := []string{"aclInit", "aclrtSetDevice", "aclrtCreateStream", "aclrtMalloc", "aclrtMallocHost", "aclrtMemset", "aclrtMemcpyAsync", "aclrtLaunchHostFunc", "aclrtDestroyStream", "aclrtGetDevice"}
	if said := r.Meta().DeviceTime; !slices.Equal(names, want) || said == nil || said.Measured != 1 {
		t.Errorf("calls %q, times %+v", names, said)
	}
}

// Each result in the trace is the copied data, with recording switched off and on at any time, and with losses.
func TestUnseenToggled(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	program := testenv.CompileC(t, "toggle", []string{"testdata/toggle.c"}, "-lpthread")
	for name, o := range map[string]Options{"block": {Capture: Capture{Replayable: true}}, "drop": {Capture: Capture{Payload: Full}, Limits: Limits{Buffers: Buffers{RingBytes: 64 << 10}}}} {
		t.Run(name, func(t *testing.T) {
			end := filepath.Join(t.TempDir(), "end")
			o.Model, o.Output, o.Sim, o.Capture.Armed, o.Command = acl.Model, filepath.Join(t.TempDir(), "t.aclt"), true, true, []string{program, end}
			o.Capture.DeviceTime = 3
			var toggling sync.WaitGroup
			toggling.Go(func() {
				defer func() { _ = os.WriteFile(end, nil, 0o600) }()
				mine, err := ownSession()
				if err != nil {
					t.Error(err)
					return
				}
				for i := range 16 {
					_, _ = session.Ask(mine, &session.Request{Do: []session.Action{session.ActStart, session.ActStop}[i%2]}) // a busy recorder may not answer
					time.Sleep(20 * time.Millisecond)
				}
				// On any machine, some results come before the end.
				before := int64(-1)
				testenv.Await(func() bool {
					st, err := session.Ask(mine, &session.Request{Do: session.ActStart})
					if err == nil && before < 0 {
						before = int64(st.Calls)
					}
					return err == nil && int64(st.Calls) >= before+2000
				})
			})
			res, err := Run(context.Background(), &o)
			toggling.Wait()
			if err != nil || res.ExitCode != 0 {
				t.Fatalf("%v: %+v", err, res)
			}
			r, err := format.Open(o.Output, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			of := map[uint64][]format.Data{} // by call
			for d, err := range r.Data(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if d.Status == format.Whole && d.Len == 256 {
					k := *d
					k.Bytes = bytes.Clone(d.Bytes)
					of[d.Call] = append(of[d.Call], k)
				}
			}
			results := 0
			last := map[uint32]uint64{} // latest value copied to the device, by thread
			for c, err := range r.Calls(nil) {
				if err != nil {
					t.Fatal(err)
				}
				name := r.Schema().FuncName(c.Func)
				if name != "aclrtMemcpy" && name != "aclrtMemcpyAsync" {
					continue
				}
				for _, d := range of[c.Index] {
					b := content(t, r, &d)
					n := binary.LittleEndian.Uint64(b)
					if d.Dir == format.DirIn {
						last[c.Thread] = n
						continue
					}
					results++
					// The copy to the device may not be recorded.
					if was, ok := last[c.Thread]; !bytes.Equal(b, bytes.Repeat(b[:8], len(b)/8)) || n>>48 < 1 || n>>48 > 4 || ok && n < was {
						t.Errorf("call %d: %x, behind a copy of %x", c.Index, b, was)
					}
				}
			}
			if results == 0 {
				t.Errorf("no result of %d calls", res.Calls)
			}
		})
	}
}

// content returns the bytes of a payload in the trace.
func content(t *testing.T, r *format.Reader, d *format.Data) []byte {
	t.Helper()
	if d.Bytes != nil {
		return d.Bytes
	}
	b, err := r.Blob(d.Blob)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// between runs do while testdata/unseen.c waits at a step.
func between(step string, do func() error) error {
	if !testenv.Await(func() bool { _, err := os.Stat(step); return err == nil }) {
		return fmt.Errorf("the program does not reach %s", step)
	}
	if err := do(); err != nil {
		return err
	}
	return os.WriteFile(step+"go", nil, 0o600)
}

// The same with lost calls: a lost wait drops the pending results, which are not captured later from reused memory.
func TestUnseenLost(t *testing.T) {
	s, err := ring.Create(acl.Model, &ring.Options{Buffers: ring.Buffers{RingBytes: 64 << 10}, PayloadLimit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir := t.TempDir()
	cmd := exec.Command(testenv.CompileC(t, "unseen", []string{"testdata/unseen.c"}), dir, "lost")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testenv.Built(t, "lib/libacltrace.so"), "LD_LIBRARY_PATH="+filepath.Dir(testenv.Built(t, "lib/libascendcl.so")), "ACLTRACE_SESSION="+s.Dir())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := results{}
	err = between(filepath.Join(dir, "0"), func() error {
		_, err := s.Drain(&n)
		return err
	})
	if err != nil {
		t.Error(err)
		cmd.Process.Kill()
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(&n); err != nil {
		t.Fatal(err)
	}
	if n.lost < 1000 || !slices.Equal(n.got, []string{fmt.Sprint(probe.Overwritten), "C"}) {
		t.Errorf("%d calls lost, results %q", n.lost, n.got)
	}
}

// A thread may wait for a result of another thread's call that the recorder has not read yet: the other thread is newer than the
// recorder's last look at the rings, or has taken over a ring.
func TestResultOfNewThread(t *testing.T) {
	s, err := ring.Create(acl.Model, &ring.Options{Buffers: ring.Buffers{Block: true}, PayloadLimit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir := t.TempDir()
	cmd := exec.Command(testenv.CompileC(t, "newer", []string{"testdata/newer.c"}), dir)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testenv.Built(t, "lib/libacltrace.so"), "LD_LIBRARY_PATH="+filepath.Dir(testenv.Built(t, "lib/libascendcl.so")), "ACLTRACE_SESSION="+s.Dir())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := newer{t: t, calls: map[[2]uint64]string{}}
	there := func(step int) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, strconv.Itoa(step))); return err == nil }
	}
	goOn := func(step int) error { return os.WriteFile(filepath.Join(dir, strconv.Itoa(step)+"go"), nil, 0o600) }
	for step := 0; step < 4 && err == nil; step += 2 {
		// While the recorder handles the call before the step, the program runs up to the next step.
		testenv.Wait(t, "the program at its step", there(step))
		n.at = func() error {
			err := goOn(step)
			testenv.Wait(t, "the program behind its step", there(step+1))
			return err
		}
		for load := ring.Pressed; load != ring.Idle && err == nil; { // read everything before the next thread begins
			load, err = s.Drain(&n)
		}
		if n.at != nil {
			err = errors.New("the call before the step is not handed on")
		}
		err = errors.Join(err, goOn(step+1))
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(&n); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range n.payloads {
		got = append(got, n.calls[p.of]+" "+p.letter)
	}
	if !slices.Equal(got, []string{"aclrtMemcpyAsync A", "aclrtMemcpyAsync B"}) {
		t.Errorf("results %q", got)
	}
}

// newer collects calls by thread and number, and results.
type newer struct {
	t        *testing.T
	at       func() error // called once, at a call to aclrtGetDevice
	calls    map[[2]uint64]string
	payloads []newResult
}

type newResult struct {
	of     [2]uint64
	letter string
}

func (n *newer) Process(*probe.Process) error   { return nil }
func (n *newer) TaskTime(*probe.TaskTime) error { return nil }

func (n *newer) Gap(g *probe.Gap) error {
	n.t.Errorf("%+v", g)
	return nil
}

func (n *newer) Call(c *probe.Call) error {
	name := acl.Model.Func(c.Func).Name
	n.calls[[2]uint64{uint64(c.TID), c.Seq}] = name
	if at := n.at; name == "aclrtGetDevice" && at != nil {
		n.at = nil
		return at()
	}
	return nil
}

func (n *newer) Payload(p *probe.Payload) error {
	if p.Dir == probe.Out && p.Missing == probe.Present {
		n.payloads = append(n.payloads, newResult{[2]uint64{uint64(p.TID), p.Seq}, string(p.Bytes[:1])})
	}
	return nil
}

// results collects the results of copies that a session reports.
type results struct {
	probe.Sink
	got  []string
	lost uint64
}

func (n *results) Process(*probe.Process) error { return nil }
func (n *results) Call(*probe.Call) error       { return nil }

func (n *results) Gap(g *probe.Gap) error {
	n.lost += g.Calls
	return nil
}

func (n *results) Payload(p *probe.Payload) error {
	switch {
	case p.Dir != probe.Out:
	case p.Missing != probe.Present:
		n.got = append(n.got, fmt.Sprint(p.Missing))
	default:
		n.got = append(n.got, string(p.Bytes[:1]))
	}
	return nil
}
