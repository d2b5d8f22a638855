package spans

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"

// served is a trace with a thread that serves requests, as ranges whose names have a parent. Tasks of one end after it. Requests that are not sampled, marks and
// ranges without an end are none.
func served(t *testing.T) *timeline.Timeline {
	b := testtrace.New(t)
	const heap, out = 0x55550000, 0x7ffe0000
	returns := func(v uint64) testtrace.Mod {
		return func(_ *api.Func, c *format.Call) { c.Ret = v }
	}
	b.Call(0, 10, 20, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 100, 110, "aclrtCreateStream", testtrace.A(out), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 120, 130, "aclrtMalloc", testtrace.A(out, 4096, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	for i, name := range []string{"first traceparent=" + parent + "01", "traceparent=" + parent + "00", "inner, traceparent=" + strings.Replace(parent, "b7", "c8", 1) + "01", "later traceparent=" + parent + "01 of 2"} {
		at := int64(1000 + 1000*i)
		b.Call(0, at, at+10, "mstxRangeStartA", testtrace.A(heap, 0), testtrace.Text("message", name), returns(uint64(10+i)))
		b.Call(0, at+100, at+150, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 4096, uint64(i), 64, testtrace.StreamA))
		b.Call(1, at+120, at+130, "aclrtSetDevice", testtrace.A(0))
		if i != 0 {
			b.Call(0, at+200, at+250, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		b.Call(0, at+800, at+810, "mstxRangeEnd", testtrace.A(uint64(10+i)))
	}
	b.Call(0, 9000, 9010, "mstxMarkA", testtrace.A(heap, 0), testtrace.Text("message", "traceparent="+parent+"01"))
	b.Call(0, 9100, 9110, "mstxRangeStartA", testtrace.A(heap, 0), testtrace.Text("message", "traceparent="+parent+"01"), returns(30))
	b.Call(0, 9200, 9250, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	return b.Load()
}

// decoded returns the spans in batches.
func decoded(t *testing.T, batches ...*otlp.Batch) (all []oteltest.Span) {
	t.Helper()
	for _, b := range batches {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b.Request(nil))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, oteltest.Flatten(td)...)
	}
	return all
}

// A range with a sampled parent is a request: its calls are spans of that parent too.
func TestRequestsJoinTheirParent(t *testing.T) {
	tl := served(t)
	x, err := New(tl.Reader, tl.Model, &Options{NoSteps: true})
	if err != nil {
		t.Fatal(err)
	}
	var batches []*otlp.Batch
	if err := x.Run(func(b *otlp.Batch) (*otlp.Batch, error) {
		batches = append(batches, b)
		return &otlp.Batch{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	res := x.Result()
	testenv.Golden(t, "spans.txtar", "requests", fmt.Sprintf("%d calls in %d traces\n%s", res.Calls, res.Traces, oteltest.Text(decoded(t, batches...))))
}

// units encodes the steps of a trace and its requests as units, as a recording in progress does.
func units(t *testing.T, tl *timeline.Timeline, o *Options, change func(*Unit)) string {
	t.Helper()
	rs, err := otlp.NewResources(tl.Reader, tl.Model, "")
	if err != nil {
		t.Fatal(err)
	}
	x, err := NewLive(rs, tl.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	w := timeline.NewWalk(tl.Reader, tl.Model, nil)
	if err := w.FindSteps(); err != nil {
		t.Fatal(err)
	}
	x.Follow(w)
	x.Inherit()
	for _, th := range append(slices.Clone(tl.Reader.Threads()), format.Thread{}) {
		x.AddThread(&th)
	}
	var calls []Call
	var all []Unit
	tasks := map[int]*timeline.Task{}
	var named *timeline.Range
	err = w.Run(&timeline.Visitor{Lane: x.Lane, Call: func(c *timeline.HostCall, k *timeline.Task) error {
		of := Call{HostCall: *c, Named: named, Facts: x.Observe(c, k)}
		named, of.Raw = nil, nil
		if k != nil {
			of.Task = &timeline.Task{}
			*of.Task = *k
			tasks[k.Index] = of.Task
		}
		calls = append(calls, of)
		return nil
	}, Task: func(k *timeline.Task) error {
		*tasks[k.Index] = *k
		return nil
	}, Range: func(r *timeline.Range) error {
		at := *r
		named = &at
		if from, _, ok := otlp.ParentIn(r.Name); ok && !r.Mark && !r.Open {
			all = append(all, Unit{Request: from, Why: "request", Step: step.Step{From: r.From, To: r.To, Name: "request"}})
		}
		return nil
	}, Step: func(s *step.Step) error {
		all = append(all, Unit{Why: "sampled", Step: *s})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, u := range all {
		for _, c := range calls {
			if c.Start >= u.Step.From && c.Start < u.Step.To {
				u.Calls = append(u.Calls, c)
			}
		}
		if change != nil {
			change(&u)
		}
		batches, last, err := x.Unit(&u)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("unit of %d calls, trace %x\n%s", len(u.Calls), last, oteltest.Text(decoded(t, batches...)))
	}
	return text
}

// Steps and requests of a recording in progress are traces of their own, apart from requests, which join their parent's trace. The trace that the
// recording itself joined takes units until it has MaxSpans.
func TestUnitsAreTracesOfTheirOwn(t *testing.T) {
	steps := testtrace.Steps(t, 4, 3, func(step, launch int) int64 { return int64(1000 + 100*step + 10*launch) })
	testenv.Golden(t, "spans.txtar", "units of steps", units(t, steps, nil, nil))
	testenv.Golden(t, "spans.txtar", "units of requests", units(t, served(t), &Options{Layout: Lanes}, nil))
	testenv.Golden(t, "spans.txtar", "units without calls", units(t, steps, nil, func(u *Unit) { u.Calls = nil }))
	joined := testtrace.Steps(t, 8, 30, func(int, int) int64 { return 1000 })
	joined.Reader.Meta().Env = map[string]string{"TRACEPARENT": parent + "01"}
	in, of := 0, 0
	for _, l := range strings.Split(units(t, joined, &Options{MaxSpans: MinSpans}, nil), "\n") {
		if _, trace, ok := strings.Cut(l, " calls, trace "); ok {
			of++
			if strings.HasPrefix(parent, "00-"+trace) {
				in++
			}
		}
	}
	if in != 2 || of != 8 { // a step has 62 spans
		t.Errorf("%d of %d units are in the trace of the recording, want 2 of 8", in, of)
	}
}

// Options with impossible values are refused.
func TestOptionsAreChecked(t *testing.T) {
	tl := testtrace.Small(t)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Layout: "rows"}, `layout "rows": want nested or lanes`}, {Options{Brackets: "latest"}, `brackets "latest": want earliest or none`},
		{Options{MaxSpans: MinSpans - 1}, "99 spans in a trace are too few: at least 100 are needed"}, {Options{MaxBytes: MinBytes - 1}, "65535 bytes in a trace are too few: at least 65536 are needed"},
		{Options{MaxSpans: MinSpans, MaxBytes: MinBytes, Layout: Lanes, Brackets: BracketsNone}, ""}, {Options{MaxSpans: -1}, ""},
	} {
		if _, err := New(tl.Reader, tl.Model, &c.o); fmt.Sprint(err) != c.want && (err != nil || c.want != "") {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
}

// A sink's error ends the encoding.
func TestSinkFails(t *testing.T) {
	full := errors.New("full")
	for _, tl := range []*timeline.Timeline{testtrace.Rich(t), testtrace.Steps(t, 4, 3, func(int, int) int64 { return 1000 }), served(t)} {
		for _, after := range []int{0, 1, 3} {
			x, err := New(tl.Reader, tl.Model, &Options{Batch: 2})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			err = x.Run(func(b *otlp.Batch) (*otlp.Batch, error) {
				if n++; n > after {
					return b, full
				}
				b.Reset()
				return b, nil
			})
			if !errors.Is(err, full) || n != after+1 {
				t.Errorf("%v after %d batches, want an error after %d", err, n, after+1)
			}
		}
	}
}

// busy is a trace with more spans than fit: ranges, failed calls, tasks that were measured and others.
func busy(t *testing.T) *timeline.Timeline {
	b := testtrace.New(t)
	const heap, out = 0x55550000, 0x7ffe0000
	value := func(v uint64) testtrace.Mod { return func(_ *api.Func, c *format.Call) { c.Ret = v } }
	measured := func(from, to int64) testtrace.Mod {
		return func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(from)}, format.Out{Param: api.TaskEndParam, Value: uint64(to)})
		}
	}
	b.Call(0, 10, 20, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 100, 110, "aclrtCreateStream", testtrace.A(out), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 112, 114, "aclrtBinaryGetFunction", testtrace.A(0x6600, out, out), testtrace.Text("kernelName", "mlp"), testtrace.Outs("funcHandle", testtrace.Function))
	b.Call(0, 120, 130, "aclrtMalloc", testtrace.A(out, 4096, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	for i := range uint64(60) {
		at := int64(1000 + 1000*i)
		name := "batch " + string(rune('a'+i/20))
		if i%5 == 0 {
			b.Call(0, at, at+10, "mstxRangeStartA", testtrace.A(heap, 0), testtrace.Text("message", name), value(100+i))
		}
		b.Call(0, at+100, at+150, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA), measured(at+160, at+200+int64(7*i%90)))
		b.Call(0, at+160, at+170, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, testtrace.StreamA), measured(at+300, at+310+int64(i%7)))
		if i%17 == 3 {
			b.Call(0, at+180, at+190, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 4096, i, 64, testtrace.StreamA), testtrace.Fails(107000))
		}
		b.Call(0, at+200, at+250, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 4096, i, 64, testtrace.StreamA))
		if i%3 == 0 {
			b.Call(0, at+300, at+400+int64(i), "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		if i%5 == 4 {
			b.Call(0, at+800, at+810, "mstxRangeEnd", testtrace.A(100+i-4))
		}
	}
	b.Call(0, 70_000, 70_010, "aclrtSynchronizeDevice", nil)
	return b.Load()
}
