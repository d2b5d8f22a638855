package otelexport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// jaeger is a running Jaeger with memory storage that only this machine reaches.
type jaeger struct{ grpc, http, query string }

const jaegerConfig = `
service:
  extensions: [jaeger_storage, jaeger_query, healthcheckv2]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
  telemetry:
    metrics: {level: none}
    logs: {level: warn}
extensions:
  healthcheckv2: {use_v2: true, http: {endpoint: %[1]s}}
  jaeger_storage: {backends: {memory: {memory: {max_traces: 10000}}}}
  jaeger_query:
    storage: {traces: memory}
    http: {endpoint: %[2]s}
    grpc: {endpoint: %[3]s}
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %[4]s}
      http: {endpoint: %[5]s}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
`

func startJaeger(t *testing.T) *jaeger {
	t.Helper()
	s := start(t, "jaeger", "ACLTRACE_JAEGER", jaegerConfig, 5, func(s *server) bool {
		resp, err := http.Get("http://" + s.ports[0] + "/status")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return &jaeger{grpc: "http://" + s.ports[3], http: "http://" + s.ports[4], query: "http://" + s.ports[1]}
}

// trace returns the spans of a trace as the query service has them, to the nanosecond.
func (j *jaeger) trace(t *testing.T, id string) []flat {
	t.Helper()
	body := get(t, j.query+"/api/v3/traces/"+id)
	var spans []flat
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		var answer struct{ Result, Error json.RawMessage }
		if err := d.Decode(&answer); err == io.EOF {
			return spans
		} else if err != nil || answer.Error != nil {
			t.Fatalf("trace %s: %v %s", id, err, answer.Error)
		}
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(answer.Result)
		if err != nil {
			t.Fatalf("trace %s: %v", id, err)
		}
		spans = append(spans, flatten(td)...)
	}
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v, %.300s", url, resp.Status, err, body)
	}
	return body
}

// What a real Jaeger has of a recording is what Write says of it, to the nanosecond.
func TestJaeger(t *testing.T) {
	j := startJaeger(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*testenv.Patience)
	defer cancel()
	for name, tl := range withProfiles(t, map[string]*timeline.Timeline{"small": testtrace.Small(t), "long": testtrace.Long(t, 6_000)}) {
		for _, o := range []Options{
			{Layout: Lanes, Protocol: GRPC, Endpoint: j.grpc},
			{Layout: Nested, Protocol: HTTP, Endpoint: j.http},
			{Layout: Lanes, Protocol: HTTP, Endpoint: j.http, MaxSpans: 7_000}, // another limit, so other traces
		} {
			t.Run(fmt.Sprintf("%s %s %s", name, o.Layout, o.Protocol[:4]), func(t *testing.T) {
				want, _ := written(t, tl, &Options{Layout: o.Layout, MaxSpans: o.MaxSpans})
				res, err := send(ctx, tl, &o)
				if err != nil {
					t.Fatal(err)
				}
				if res.Spans != len(want) || res.FirstTraceID != want[0].Trace || res.Rejected != 0 {
					t.Errorf("%+v, want %d spans in %s", res, len(want), want[0].Trace)
				}
				traces := map[string]bool{}
				for _, s := range want {
					traces[s.Trace] = true
				}
				var got []flat
				for id := range traces {
					got = append(got, j.trace(t, id)...)
				}
				if len(traces) != res.Traces || name == "long" && res.Traces != 2 {
					t.Errorf("%d traces", len(traces))
				}
				for i := range want {
					want[i].Schema = "" // Jaeger does not keep it
					if want[i].Start == want[i].End {
						want[i].End++ // and has no moments: it warns of them
					}
				}
				for i := range got {
					if strings.HasPrefix(name, "profile ") {
						delete(got[i].Attrs, "@jaeger@warnings") // of those, and of tasks that begin before their calls by the device's clock
					}
				}
				if sent, stored := byID(t, want), byID(t, got); !reflect.DeepEqual(sent, stored) {
					t.Errorf("Jaeger has other spans (-sent +stored):\n%.3000s", cmp.Diff(sent, stored))
				}
			})
		}
	}

	// A task under its launch is no part of the critical path, as the package says.
	_, nested := written(t, testtrace.Small(t), &Options{Layout: Nested})
	var ui struct {
		Data []struct {
			Spans []struct {
				OperationName string
				References    []struct{ RefType string }
			}
		}
	}
	if err := json.Unmarshal(get(t, j.query+"/api/traces/"+nested.FirstTraceID), &ui); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, s := range ui.Data[0].Spans {
		for _, r := range s.References {
			kinds[r.RefType+" "+s.OperationName]++
		}
	}
	if kinds["FOLLOWS_FROM copy HtoD"] != 1 || kinds["CHILD_OF copy HtoD"] != 0 || kinds["CHILD_OF aclrtMalloc"] != 2 {
		t.Errorf("references as the screen has them: %v", kinds)
	}

	var services struct{ Data []string }
	if err := json.Unmarshal(get(t, j.query+"/api/services"), &services); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"train", "loader", "npu:3"} {
		found := false
		for _, have := range services.Data {
			found = found || have == s
		}
		if !found {
			t.Errorf("Jaeger lists the services %v, without %s", services.Data, s)
		}
	}
}
