package otelexport

import (
	"fmt"
	"net"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/timeline"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// withProfiles adds imported profiles.
func withProfiles(t *testing.T, to map[string]*timeline.Timeline) map[string]*timeline.Timeline {
	t.Helper()
	for name, r := range testtrace.Profiles(t) {
		tl, err := timeline.Load(r, acl.Model)
		if err != nil {
			t.Fatal(err)
		}
		to["profile "+name] = tl
	}
	return to
}

// A real collector receives every id, nanosecond, attribute and link of the timeline, and writes them to a file.
func TestCollectorReceivesTheTimeline(t *testing.T) {
	for name, tl := range withProfiles(t, map[string]*timeline.Timeline{"small": testtrace.Small(t), "long": testtrace.Long(t, 6_000), "steps": testtrace.Steps(t, 5, 20, func(s, l int) int64 { return 100 + int64(s*l%7) })}) {
		for _, layout := range []string{Lanes, Nested} {
			for _, protocol := range []string{GRPC, HTTP} {
				for _, compression := range []string{"none", "gzip"} {
					if compression == "gzip" && (name != "small" || layout != Lanes) {
						continue
					}
					t.Run(fmt.Sprintf("%s %s %s %s", name, layout, protocol[:4], compression), func(t *testing.T) {
						t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
						s, url, file := oteltest.StartCollector(t, "file")
						want, _ := written(t, tl, &Options{Layout: layout, MaxSpans: -1})
						res, err := send(t.Context(), tl, &Options{Layout: layout, MaxSpans: -1, Endpoint: url[protocol], Protocol: protocol})
						if err != nil || res.Spans != len(want) {
							t.Fatalf("%+v, %v, want %d spans", res, err, len(want))
						}
						s.Stop()
						lines, err := os.ReadFile(file)
						if err != nil {
							t.Fatal(err)
						}
						got := oteltest.Parse(t, lines)
						if a, b := oteltest.ByID(t, want), oteltest.ByID(t, got); !reflect.DeepEqual(a, b) {
							t.Errorf("the collector has other spans (-sent +kept):\n%.3000s", cmp.Diff(a, b))
						}
						if name == "small" || name == "long" {
							verify(t, tl, got, layout)
						}
					})
				}
			}
		}
	}
}

// A real collector accepts all spans of ten million calls, and discards them.
func TestSoakCollector(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("ACLTRACE_SOAK is not set: `make soak` does")
	}
	_, url, _ := oteltest.StartCollector(t, "nop")
	r := testtrace.Decoding(t, 10_000_000, true)
	tasks := 0
	w := timeline.NewWalk(r, acl.Model, nil)
	if err := w.FindSteps(); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(&timeline.Visitor{Task: func(*timeline.Task) error { tasks++; return nil }}); err != nil {
		t.Fatal(err)
	}
	res, err := Send(t.Context(), r, acl.Model, &Options{Endpoint: url[GRPC], Protocol: GRPC, MaxSpans: -1})
	if err != nil || res.Rejected > 0 || res.Spans < int(w.Calls)+tasks {
		t.Errorf("%+v, %v, want %d calls and %d tasks", res, err, w.Calls, tasks)
	}
}

// BenchmarkCollector sends to a real collector that discards, with default and reduced garbage collection. As a
// yardstick, it also sends to a server that does not decode requests.
func BenchmarkCollector(b *testing.B) {
	tl := testtrace.Long(b, 1_000_000)
	to := func(b *testing.B, endpoint, protocol string, theirs func() time.Duration) {
		send := func() int {
			res, err := send(b.Context(), tl, &Options{Endpoint: endpoint, Protocol: protocol, NoSteps: true, MaxSpans: -1})
			if err != nil {
				b.Fatal(err)
			}
			return res.Spans
		}
		send()
		spans, began, theirsBegan := 0, testenv.CPUTime(), theirs()
		for b.ResetTimer(); b.Loop(); {
			spans += send()
		}
		oteltest.Report(b, spans, began)
		b.ReportMetric(float64((theirs()-theirsBegan).Nanoseconds())/float64(spans), "receiver-ns/span")
	}
	b.Run("sink", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := grpc.NewServer(grpc.ForceServerCodecV2(unread{}), grpc.MaxRecvMsgSize(1<<30), grpc.UnknownServiceHandler(func(_ any, st grpc.ServerStream) error {
			var m mem.BufferSlice
			if err := st.RecvMsg(&m); err != nil {
				return err
			}
			return st.SendMsg(&mem.BufferSlice{})
		}))
		go s.Serve(l)
		defer s.Stop()
		to(b, "http://"+l.Addr().String(), GRPC, func() time.Duration { return 0 })
	})
	for _, gc := range []string{"", "400"} {
		b.Setenv("GOGC", gc) // of the collector
		s, url, _ := oteltest.StartCollector(b, "nop")
		for _, protocol := range []string{GRPC, HTTP} {
			b.Run(protocol[:4]+gc, func(b *testing.B) {
				to(b, url[protocol], protocol, func() time.Duration { return time.Duration(procstat.Read(s.Cmd.Process.Pid).CPU) })
			})
		}
	}
}

// unread passes messages through undecoded.
type unread struct{}

func (unread) Marshal(v any) (mem.BufferSlice, error) { return *v.(*mem.BufferSlice), nil }
func (unread) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*mem.BufferSlice) = nil
	return nil
}
func (unread) Name() string { return "proto" }
