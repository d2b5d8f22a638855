package path

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	tt "github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/whatif"
	"github.com/acltrace/acltrace/sim/model"
)

// op is a call of a random program.
type op struct {
	fn         string
	args       []uint64
	mods       []tt.Mod
	start, end int64
	task       int64 // duration of its kernel, 0 for none
	from, to   int64 // of its task
}

var adviceStreams = []uint64{tt.StreamA, tt.StreamB, tt.StreamB + 0x100}

// adviceKernel is the handle of a stream's kernel.
func adviceKernel(stream, n int) uint64 { return tt.Function + uint64(10*stream+n) }

// adviceProgram is a random program of one thread: steps with kernels on three streams, events, own time and waits, which end with a wait for each
// stream, or for the device.
func adviceProgram(seed uint64) (ops []op) {
	r := rand.New(rand.NewPCG(seed, 2))
	now := int64(10_000)
	put := func(gap int64, fn string, args []uint64, mods ...tt.Mod) *op {
		now += gap
		ops = append(ops, op{fn: fn, args: args, mods: mods, start: now, end: now + 1_000})
		now += 1_000
		return &ops[len(ops)-1]
	}
	put(0, "aclrtSetDevice", tt.A(0))
	for s, h := range adviceStreams {
		put(0, "aclrtCreateStream", tt.A(0x7ffe0008), tt.Outs("stream", h))
		for n := range 2 {
			put(0, "aclrtBinaryGetFunction", tt.A(0x6600, 0x7ffe0020, 0x7ffe0018), tt.Text("kernelName", fmt.Sprintf("%c%d", 'a'+s, n)), tt.Outs("funcHandle", adviceKernel(s, n)))
		}
	}
	for _, h := range adviceStreams { // the streams get their names in the order of their first use
		put(0, "aclrtSynchronizeStream", tt.A(h))
	}
	for e := range uint64(2) {
		put(0, "aclrtCreateEvent", tt.A(0x7ffe0010), tt.Outs("event", tt.Event+e))
	}
	body := make([]int64, 4+r.IntN(12)) // each step does the same, in times of its own
	for i := range body {
		body[i] = r.Int64N(1 << 40)
	}
	wait := r.IntN(4)
	for step := range uint64(3) {
		put(r.Int64N(40_000), "mstxRangeStartA", tt.A(0x10, 0), tt.Text("message", fmt.Sprint("step ", step)), func(_ *api.Func, c *format.Call) { c.Ret = step + 1 })
		for _, b := range body {
			k := rand.New(rand.NewPCG(uint64(b), 3))
			s := k.IntN(len(adviceStreams))
			stream, event := adviceStreams[s], tt.Event+uint64(k.IntN(2))
			switch what := k.IntN(12); {
			case what < 7:
				put(r.Int64N(20_000)*int64(k.IntN(2)), "aclrtLaunchKernel", tt.A(adviceKernel(s, k.IntN(2)), 8, tt.DeviceA, 64, stream)).task = 2_000 + r.Int64N(100_000)
			case what < 9:
				put(r.Int64N(5_000), "aclrtRecordEvent", tt.A(event, stream))
			case what < 11:
				put(r.Int64N(5_000), "aclrtStreamWaitEvent", tt.A(stream, event))
			default:
				put(r.Int64N(5_000), "aclrtSynchronizeStream", tt.A(stream))
			}
		}
		for _, s := range r.Perm(len(adviceStreams)) {
			if wait > 0 {
				put(r.Int64N(10_000), "aclrtSynchronizeStream", tt.A(adviceStreams[s]))
			}
		}
		if wait == 0 {
			put(r.Int64N(10_000), "aclrtSynchronizeDevice", nil)
		}
		put(0, "mstxRangeEnd", tt.A(step+1))
	}
	return ops
}

// write writes the trace of a program, with or without times of its tasks.
func write(t *testing.T, ops []op, timed bool) string {
	t.Helper()
	b := tt.New(t)
	for i := range ops {
		o := &ops[i]
		mods := o.mods
		if timed && o.task > 0 {
			mods = append(mods[:len(mods):len(mods)], measured(o.from, o.to))
		}
		b.Call(0, o.start, o.end, o.fn, o.args, mods...)
	}
	return b.Load().Reader.Path()
}

// costs writes a cost model without latencies. Kernels of these names take no time.
func costs(t *testing.T, none string) string {
	t.Helper()
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	m.Name, m.Host = "costs", model.Host{}
	if none != "" {
		k := m.Kernels[len(m.Kernels)-1]
		k.Name, k.Scale = none, 1e-12
		m.Kernels = append([]model.Kernel{k}, m.Kernels...)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "costs.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// predict returns the trace that a change would make.
func predict(t *testing.T, trace, none, pace string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "predicted.aclt")
	if _, err := whatif.Run(t.Context(), trace, acl.Model, &whatif.Options{Base: costs(t, ""), Model: costs(t, none), Pace: pace, Output: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

// advice returns the critical paths of a trace.
func advice(t *testing.T, trace string) *Summary {
	t.Helper()
	r, err := format.Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := New(r, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Paths != 3 {
		t.Fatalf("%d steps", s.Paths)
	}
	return s
}

// steps returns the durations of the steps.
func steps(t *testing.T, trace string, each func(*Path) error) (ns []int64) {
	t.Helper()
	r, err := format.Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = New(r, acl.Model, &Options{Each: func(p *Path) error {
		ns = append(ns, p.Step.To-p.Step.From)
		if each != nil {
			return each(p)
		}
		return nil
	}})
	if err != nil || len(ns) != 3 {
		t.Fatalf("%d steps, %v", len(ns), err)
	}
	return ns
}

// play sets the times of a program as a device without latencies would. The gaps between the calls stay.
func play(ops []op) {
	ends, events, before, now := map[uint64]int64{}, map[uint64]int64{}, int64(0), int64(0)
	for i := range ops {
		o := &ops[i]
		o.start, before = now+o.start-before, o.end
		o.end = o.start + 1_000
		switch o.fn {
		case "aclrtLaunchKernel":
			o.from = max(o.end, ends[o.args[4]])
			o.to = o.from + o.task
			ends[o.args[4]] = o.to
		case "aclrtRecordEvent":
			ends[o.args[1]] = max(o.end, ends[o.args[1]])
			events[o.args[0]] = ends[o.args[1]]
		case "aclrtStreamWaitEvent":
			ends[o.args[0]] = max(o.end, ends[o.args[0]], events[o.args[1]])
		case "aclrtSynchronizeStream":
			o.end = max(o.start, ends[o.args[0]])
		case "aclrtSynchronizeDevice":
			o.end = o.start
			for _, end := range ends {
				o.end = max(o.end, end)
			}
		}
		now = o.end
	}
}

// checked counts the claims that an adviceCheck has checked.
type checked struct{ exact, less, bounds, waits int }

// adviceCheck checks what the critical paths of a random program claim against the program's run in virtual time without the work of the claim.
func adviceCheck(t *testing.T, seed uint64, n *checked) {
	t.Helper()
	ops := adviceProgram(seed)
	play(ops)
	timed, untimed := write(t, ops, true), write(t, ops, false)
	was, lasted := advice(t, timed), steps(t, timed, nil)
	memo := map[[2]string][]int64{}
	saved := func(none, pace string) []int64 { // by step
		k := [2]string{none, pace}
		if memo[k] == nil {
			for i, ns := range steps(t, predict(t, timed, none, pace), nil) {
				memo[k] = append(memo[k], lasted[i]-ns)
			}
		}
		return memo[k]
	}
	const near = 100 // nanoseconds: times are rounded
	for _, e := range was.Entries {
		none, pace := "", ""
		switch e.Kind {
		case Task:
			none = e.Name
		case Own:
			pace = replay.PaceASAP
		default:
			continue
		}
		got := int64(0)
		for _, ns := range saved(none, pace) {
			got += ns
		}
		if got < -near || got > e.SavesNS+near || got < e.SavesNS-near && !e.SavesAtMost {
			t.Errorf("seed %d: without %s the steps are %d shorter, the path says %d: %+v", seed, &e, got, e.SavesNS, e)
		}
		switch {
		case e.SavesAtMost:
			n.bounds++
		case e.SavesNS < e.NS:
			n.less++
		default:
			n.exact++
		}
	}
	steps(t, untimed, func(p *Path) error {
		for _, e := range p.Entries(0) {
			if e.Kind != Wait || e.Where == "several streams" {
				continue
			}
			n.waits++
			stream := string("abc"[e.Where[len(e.Where)-1]-'1'])
			if got := saved(stream+"*", "")[p.Step.Index]; got > e.SavesNS+near {
				t.Errorf("seed %d, without times of tasks: without %s step %d is %d shorter, the path says at most %d: %+v", seed, &e, p.Step.Index, got, e.SavesNS, e)
			}
		}
		return nil
	})
}

// The critical path advised to shorten a kernel whose time changed no step.
func TestStepsSaveWhatTheirPathsSay(t *testing.T) {
	seeds := uint64(10)
	if os.Getenv("ACLTRACE_SOAK") != "" {
		seeds = 200
	}
	n := &checked{}
	for seed := range seeds {
		adviceCheck(t, seed, n)
	}
	t.Logf("%+v", *n)
	if n.exact < 5 || n.less < 5 || n.waits < 5 || n.bounds > n.exact {
		t.Errorf("the test misses claims: %+v", *n)
	}
}
