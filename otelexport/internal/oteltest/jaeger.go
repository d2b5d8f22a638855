package oteltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// A Jaeger is a running Jaeger with in-memory storage on localhost.
type Jaeger struct{ GRPC, HTTP, Query string }

const jaegerConfig = `
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
  telemetry:
    metrics: {level: none}
    logs: {level: info}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 10000}}}}
  jaeger_query:
    storage: {traces: memory}
    http: {endpoint: %[1]s}
    grpc: {endpoint: %[2]s}
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %[3]s}
      http: {endpoint: %[4]s}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
`

// StartJaeger runs a Jaeger without web pages.
func StartJaeger(t *testing.T) *Jaeger {
	t.Helper()
	return startJaeger(t, jaegerConfig)
}

// StartJaegerWithPages runs a Jaeger with the web pages in a folder.
func StartJaegerWithPages(t *testing.T, folder string) *Jaeger {
	t.Helper()
	return startJaeger(t, strings.Replace(jaegerConfig, "    storage: {traces: memory}\n", fmt.Sprintf("    storage: {traces: memory}\n    ui: {assets_path: %q}\n", folder), 1))
}

func startJaeger(t *testing.T, config string) *Jaeger {
	t.Helper()
	s := start(t, "jaeger", "ACLTRACE_JAEGER", config, 4)
	return &Jaeger{GRPC: "http://" + s.ports[2], HTTP: "http://" + s.ports[3], Query: "http://" + s.ports[0]}
}

// Spans returns the spans of a trace from the query service, with nanoseconds.
func (j *Jaeger) Spans(t *testing.T, id string) []Span {
	t.Helper()
	body := Get(t, j.Query+"/api/v3/traces/"+id)
	var spans []Span
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
		spans = append(spans, Flatten(td)...)
	}
}

func Get(t *testing.T, url string) []byte {
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
