package otelexport

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/story"
)

const collectorConfig = `
receivers:
  otlp: {protocols: {grpc: {endpoint: "%%[1]s"}, http: {endpoint: "%%[2]s"}}}
exporters:
  nop: {}
  file: {path: %[1]q}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [%[2]s]}
    metrics: {receivers: [otlp], exporters: [%[2]s]}
  telemetry:
    metrics: {level: none}
    logs: {level: warn}
`

// startCollector runs a collector that keeps what it gets in a file, or forgets it.
func startCollector(t testing.TB, exporter string) (s *server, endpoint map[string]string, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "spans.jsonl")
	s = start(t, "collector", "ACLTRACE_COLLECTOR", fmt.Sprintf(collectorConfig, file, exporter), 2)
	for _, p := range s.ports {
		s.await(t, func() bool {
			c, err := net.Dial("tcp", p)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	return s, map[string]string{GRPC: "http://" + s.ports[0], HTTP: "http://" + s.ports[1]}, file
}

// withProfiles adds imported profiles.
func withProfiles(t *testing.T, to map[string]*timeline.Timeline) map[string]*timeline.Timeline {
	t.Helper()
	for name, r := range story.Profiles(t) {
		tl, err := timeline.Load(r, acl.Model)
		if err != nil {
			t.Fatal(err)
		}
		to["profile "+name] = tl
	}
	return to
}

// What a real collector has taken, and written by its file exporter, is the timeline's: every id, nanosecond, attribute and link.
func TestCollector(t *testing.T) {
	for name, tl := range withProfiles(t, map[string]*timeline.Timeline{"small": story.Small(t), "long": story.Long(t, 6_000), "steps": story.Steps(t, 5, 20, func(s, l int) int64 { return 100 + int64(s*l%7) })}) {
		for _, layout := range []string{Lanes, Nested} {
			for _, protocol := range []string{GRPC, HTTP} {
				for _, compression := range []string{"none", "gzip"} {
					if compression == "gzip" && (name != "small" || layout != Lanes) {
						continue
					}
					t.Run(fmt.Sprintf("%s %s %s %s", name, layout, protocol[:4], compression), func(t *testing.T) {
						t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
						s, endpoint, file := startCollector(t, "file")
						want, _ := written(t, tl, &Options{Layout: layout})
						res, err := send(t.Context(), tl, &Options{Layout: layout, Endpoint: endpoint[protocol], Protocol: protocol})
						if err != nil || res.Spans != len(want) {
							t.Fatalf("%+v, %v, want %d spans", res, err, len(want))
						}
						s.stop()
						lines, err := os.ReadFile(file)
						if err != nil {
							t.Fatal(err)
						}
						got := parse(t, lines)
						if a, b := byID(t, want), byID(t, got); !reflect.DeepEqual(a, b) {
							t.Errorf("the collector has other spans (-sent +kept):\n%.3000s", cmp.Diff(a, b))
						}
						if name == "small" || name == "long" {
							verify(t, tl, got, layout, DefaultMaxSpans)
						}
					})
				}
			}
		}
	}
}

// A real collector has taken all spans of ten million calls. It forgets them.
func TestSoakCollector(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("ACLTRACE_SOAK is not set: `make soak` does")
	}
	_, endpoint, _ := startCollector(t, "nop")
	r := story.Decoding(t, 10_000_000, true)
	tasks := 0
	w, err := timeline.NewWalk(r, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(&timeline.Visitor{Task: func(*timeline.Task) error { tasks++; return nil }}); err != nil {
		t.Fatal(err)
	}
	res, err := Send(t.Context(), r, acl.Model, &Options{Endpoint: endpoint[GRPC], Protocol: GRPC})
	if err != nil || res.Rejected > 0 || res.Spans < int(w.Calls)+tasks {
		t.Errorf("%+v, %v, want %d calls and %d tasks", res, err, w.Calls, tasks)
	}
}

// BenchmarkCollector sends to a real collector on this machine that forgets what it gets.
func BenchmarkCollector(b *testing.B) {
	_, endpoint, _ := startCollector(b, "nop")
	tl := story.Long(b, 100_000)
	for _, protocol := range []string{GRPC, HTTP} {
		b.Run(protocol[:4], func(b *testing.B) {
			spans, began := 0, processor()
			for b.Loop() {
				res, err := send(b.Context(), tl, &Options{Endpoint: endpoint[protocol], Protocol: protocol, NoSteps: true})
				if err != nil {
					b.Fatal(err)
				}
				spans += res.Spans
			}
			report(b, spans, began)
		})
	}
}
