package live

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/spans"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// With --sample-steps and --slow-step, the slow steps that are sent are those that were slow in the trace, with their calls. Times come from the calls alone, and not from the machine.
func TestSlowStepsAreTheSlowOnes(t *testing.T) {
	const steps, limit = 160, 200 * time.Millisecond
	slow := map[int]int64{104: 250e6, 117: 201e6, 118: 300e6, 142: 700e6} // the last one is sampled, too
	near := map[int]int64{109: 199e6, 133: 150e6}                         // slow, but not enough
	s := testtrace.NewSequence(t)
	s.Stream(testtrace.StreamA)
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x7700, 0x10, 0x20), testtrace.Text("kernelName", "k"), testtrace.Outs("funcHandle", testtrace.Function))
	var from [steps + 1]int64 // ends of the waits before them
	for step := range steps {
		from[step] = s.Now + 10
		s.Then("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA))
		for i := range 4 {
			if i == 2 {
				s.Now += slow[step] + near[step]
			}
			s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, uint64(1+i), testtrace.DeviceA, 0, testtrace.StreamA))
		}
		s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	}
	from[steps] = s.Now + 10
	tl := s.Load()

	receiver := &oteltest.Receiver{Keep: true, Answer: func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
		return &coltracepb.ExportTraceServiceResponse{}, nil
	}}
	l, err := New(&Options{Model: acl.Model, Spans: true, Every: 10, Slow: limit, Layout: spans.Nested, Endpoint: receiver.Serve(t, endpoint.HTTP), Protocol: endpoint.HTTP})
	if err != nil {
		t.Fatal(err)
	}
	l.Begin(tl.Reader.Meta())
	for _, p := range tl.Reader.Processes() {
		l.Process(&p)
	}
	for _, th := range tl.Reader.Threads() {
		l.Thread(&th)
	}
	for c, err := range tl.Reader.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		l.Call(c.Clone(), false)
		l.Drained(c.End)
	}
	l.End(s.Now + 20)
	out, err := l.Result()
	if err != nil || out.Dropped+out.Unsent > 0 || out.Sent != out.Chosen {
		t.Fatalf("%v %+v", err, out)
	}
	first, seen, sampled := -1, map[int]bool{}, 0
	all := receiver.Kept
	for _, root := range all {
		if root.Attrs["acl.part"] == nil {
			continue
		}
		step := slices.Index(from[:], root.Start-tl.Reader.Meta().StartWall)
		if step < 0 || root.End-tl.Reader.Meta().StartWall != from[step+1] {
			t.Errorf("%+v is no step", root)
			continue
		}
		n := int(root.Attrs["acl.step"].(int64))
		if first < 0 {
			first = step - n
		}
		if step-n != first {
			t.Errorf("step %d has number %d, the first one is %d", step, n, first)
		}
		launches := 0
		for _, x := range all {
			if x.Trace == root.Trace && x.Attrs["code.function.name"] == "aclrtLaunchKernel" {
				launches++
			}
		}
		if launches != 4 {
			t.Errorf("step %d has %d launches", step, launches)
		}
		switch why := root.Attrs["acl.sampled"]; {
		case why == "slow" && slow[step] > 0:
			seen[step] = true
		case why == "sampled" && n%10 == 0 && slow[step] == 0:
			sampled++
		default:
			t.Errorf("step %d, number %d, is %v", step, n, why)
		}
	}
	if len(seen) != len(slow) || sampled < 5 {
		t.Errorf("slow steps %v, %d sampled; %+v", seen, sampled, out)
	}
}
