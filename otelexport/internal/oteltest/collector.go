package oteltest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
)

// With rotation the file exporter writes each line at once. Otherwise it buffers 4 KiB. The buffer is lost if an
// interrupt arrives after the collector is ready but before the signal handlers are installed.
const collectorConfig = `
receivers:
  otlp: {protocols: {grpc: {endpoint: "%%[1]s"}, http: {endpoint: "%%[2]s"}}}
exporters:
  nop: {}
  file: {path: %[1]q, rotation: {max_megabytes: 4096}}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [%[2]s]}
    metrics: {receivers: [otlp], exporters: [%[2]s]}
  telemetry:
    metrics: {level: none}
    logs: {level: info}
`

// StartCollector runs a collector whose exporter is "file" or "nop". url has the endpoint of each protocol.
func StartCollector(t testing.TB, exporter string) (s *Server, url map[string]string, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "spans.jsonl")
	s = start(t, "collector", "ACLTRACE_COLLECTOR", fmt.Sprintf(collectorConfig, file, exporter), 2)
	return s, map[string]string{endpoint.GRPC: "http://" + s.ports[0], endpoint.HTTP: "http://" + s.ports[1]}, file
}
