package otelexport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/otelexport/internal/spans"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Long runs of small kernels become one span with their count and total, so that no trace has more spans than the limit.
// Slow kernels, errors and unfinished calls keep their spans. Nothing is counted twice or left out.
func TestRunsOfSmallKernelsAreFolded(t *testing.T) {
	s := newProgram(t, "small", "other", "slow")
	at, device, slow := int64(1000), int64(1000), 0
	for i := range 3_000 {
		switch {
		case i%500 == 250:
			s.launch(at, "slow", testtrace.StreamA, device, device+90_000)
			device += 90_000
			slow++
		case i%700 == 300:
			s.Call(0, at, at+10, "aclrtLaunchKernel", testtrace.A(s.kernels["small"], 8, testtrace.DeviceB, 64, testtrace.StreamA), testtrace.Fails(107017))
		default:
			name, stream := "small", uint64(testtrace.StreamA)
			if i > 2_000 && i%2 == 0 {
				name, stream = "other", testtrace.StreamB
			}
			s.launch(at, name, stream, device, device+100)
			device += 100
		}
		at += 20
	}
	s.Call(0, at, device+50, "aclrtSynchronizeDevice", nil)
	s.Call(0, device+100, device+101, "aclrtSynchronizeDevice", nil, testtrace.Hangs)
	tl := s.Load()
	for _, layout := range []string{Nested, Lanes} {
		for _, limit := range []int{100, 1_000} {
			all, res := written(t, tl, &Options{Layout: layout, MaxSpans: limit, NoSteps: true})
			if res.Traces != 1 || len(all) > limit || len(all) < limit*2/3 {
				t.Errorf("%s: %d spans in %d traces, at most %d", layout, len(all), res.Traces, limit)
			}
			byID := oteltest.ByID(t, all)
			var calls, host, tasks, ns, errors, slowSeen, unfinished int64
			for _, s := range all {
				count, folded := s.Attrs["acl.count"].(int64)
				switch task := s.Attrs["acl.call"] == nil; {
				case s.Attrs["acl.part"] != nil:
					if s.Attrs["acl.folded"] == nil || s.Attrs["acl.calls"] != int64(len(tl.Calls)) {
						t.Errorf("root %+v", s)
					}
				case folded && task:
					tasks += count
					ns += s.Attrs["acl.device_ns"].(int64)
					p := byID[oteltest.Launch(s)]
					if p.Attrs["acl.count"] == nil || !strings.Contains(s.Name, fmt.Sprint(count)) || !strings.HasSuffix(s.Name, " us") && !strings.HasSuffix(s.Name, " ms") && !strings.HasSuffix(s.Name, " ns") {
						t.Errorf("%+v of %+v", s, p)
					}
				case folded:
					calls += count
					host += s.Attrs["acl.total_ns"].(int64)
					if first, last := s.Attrs["acl.call"].(int64), s.Attrs["acl.last_call"].(int64); last-first+1 != count || !strings.Contains(s.Name, fmt.Sprint(count)) {
						t.Errorf("%+v", s)
					}
				case task && s.Attrs["acl.kernel"] != nil:
					tasks++
					ns += s.Attrs["acl.device_ns"].(int64)
					if s.Name == "slow" {
						slowSeen++
					}
				case !task:
					calls++
					host += s.End - s.Start
					if s.Status == "Error" {
						errors++
					}
					if s.Attrs["acl.unfinished"] == true {
						unfinished++
					}
				}
			}
			var wantHost, wantNS int64
			for i := range tl.Calls {
				wantHost += max(tl.Calls[i].End, tl.Calls[i].Start) - tl.Calls[i].Start
			}
			for i := range tl.Tasks {
				wantNS += tl.Tasks[i].To - tl.Tasks[i].From
			}
			last := &tl.Calls[len(tl.Calls)-1]
			wantHost += tl.End - last.Start - (max(last.End, last.Start) - last.Start) // it never returned
			if calls != int64(len(tl.Calls)) || tasks != int64(len(tl.Tasks)) || ns != wantNS || host != wantHost {
				t.Errorf("%s %d: %d calls for %d ns, %d tasks for %d ns; want %d for %d, %d for %d", layout, limit, calls, host, tasks, ns, len(tl.Calls), wantHost, len(tl.Tasks), wantNS)
			}
			if errors != 5 || slowSeen != int64(slow) || unfinished != 1 {
				t.Errorf("%s %d: %d errors, %d slow kernels, %d unfinished calls", layout, limit, errors, slowSeen, unfinished)
			}
		}
	}
}

// A folded range keeps its name.
func TestFoldedRanges(t *testing.T) {
	s := newProgram(t, "k")
	at := int64(100)
	for i := range 40 {
		s.begin(at, uint64(i+1), fmt.Sprintf("layer %d", i))
		s.launch(at+2, "k", testtrace.StreamA, at+3, at+5)
		s.launch(at+13, "k", testtrace.StreamB, at+14, at+15)
		s.end(at+25, uint64(i+1))
		s.Call(0, at+30, at+1_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		at += 1_100
	}
	all, _ := written(t, s.Load(), &Options{MaxSpans: 190, NoSteps: true})
	ranges := 0
	for _, s := range all {
		if strings.HasPrefix(s.Name, "layer ") && strings.HasSuffix(s.Name, ": 4 calls, 26 ns") && s.Attrs["acl.count"] == int64(4) {
			ranges++
		}
	}
	if len(all) > 190 || ranges < 30 {
		t.Errorf("%d spans, %d folded ranges", len(all), ranges)
	}
}

// Errors beyond the limit are folded and counted.
func TestFoldedErrors(t *testing.T) {
	s := newProgram(t, "k")
	for i := range int64(600) {
		var mods []testtrace.Mod
		if i%3 > 0 {
			mods = append(mods, testtrace.Fails(107017))
		}
		s.Call(0, 100+20*i, 110+20*i, "aclrtFree", testtrace.A(1), mods...)
	}
	all, _ := written(t, s.Load(), &Options{MaxSpans: 100, NoSteps: true})
	single, folded := 0, 0
	for _, s := range all {
		n := 0
		switch {
		case s.Attrs["error.type"] != nil:
			single++
		case s.Status != "Error":
		default:
			if _, err := fmt.Sscanf(s.Message, "%d failed call", &n); err != nil || s.Attrs["acl.count"] == nil {
				t.Errorf("%+v", s)
			}
			folded += n
		}
	}
	if len(all) > 100 || single == 0 || single+folded != 400 {
		t.Errorf("%d spans, %d errors and %d folded ones", len(all), single, folded)
	}
}

// A trace stays within its limit of bytes, names included.
func TestTracesAreWithinBytes(t *testing.T) {
	tl := testtrace.Long(t, 6_000)
	for _, layout := range []string{Lanes, Nested} {
		for _, limit := range []int{spans.MinBytes, 200_000} {
			size := 0
			sent(t, encoder(t, tl, &Options{Layout: layout, MaxBytes: limit}), func(_ *otlp.Batch, wire []byte) {
				var q coltracepb.ExportTraceServiceRequest
				if err := proto.Unmarshal(wire, &q); err != nil {
					t.Fatal(err)
				}
				for _, rs := range q.ResourceSpans {
					for _, s := range rs.ScopeSpans[0].Spans {
						size += otlp.LenBytes(proto.Size(s))
					}
				}
			})
			if size > limit || size < limit/4 {
				t.Errorf("%s: a trace of %d bytes, at most %d", layout, size, limit)
			}
		}
	}
}

// Without a limit every call has its spans. A recording of more than 131,072 calls becomes several traces.
func TestLongRecordingIsCut(t *testing.T) {
	tl := testtrace.Long(t, 6_000)
	for _, layout := range []string{Lanes, Nested} {
		all, res := written(t, tl, &Options{Layout: layout, MaxSpans: -1})
		verify(t, tl, all, layout)
		if res.Traces != 1 {
			t.Errorf("%d traces", res.Traces)
		}
	}
	const calls = 140_000
	x, err := spans.New(testtrace.Decoding(t, calls, true), tl.Model, (&Options{NoSteps: true}).spans())
	if err != nil {
		t.Fatal(err)
	}
	count, roots := int64(0), 0
	for _, s := range sent(t, x, nil) {
		if s.Attrs["acl.part"] != nil {
			roots++
			count += s.Attrs["acl.calls"].(int64)
			if want := []string{"recording", "recording (continued)"}[s.Attrs["acl.part"].(int64)-1]; s.Name != want || s.Attrs["acl.cut"] != true {
				t.Errorf("root %+v", s)
			}
		}
	}
	if count != calls || roots != 2 {
		t.Errorf("%d calls in %d traces", count, roots)
	}
}
