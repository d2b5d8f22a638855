package otelexport

import (
	"os"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
)

// Attributes and metrics of a CUDA program were named acl.*.
func TestNamespaceIsTheRuntime(t *testing.T) {
	b := testtrace.NewOf(t, cuda.Model)
	b.Call(0, 100, 200, "cuMemAlloc_v2", testtrace.A(0x7000, 1<<20), testtrace.Outs("dptr", testtrace.DeviceA))
	b.Call(0, 300, 400, "cuMemcpyHtoDAsync_v2", testtrace.A(testtrace.DeviceA, testtrace.HostA, 4096, testtrace.StreamA))
	b.Call(0, 450, 460, "cuStreamSynchronize", testtrace.A(testtrace.StreamA))
	b.Call(0, 500, 510, "cuStreamSynchronize", testtrace.A(testtrace.StreamA), testtrace.Fails(700))
	b.Gap(format.Gap{Thread: 0, From: 600, To: 700, Calls: 3})
	b.Call(0, 800, 900, "cuCtxSynchronize", nil, testtrace.Hangs)
	tl := b.Load()
	s, url, file := oteltest.StartCollector(t, "file")
	if _, err := send(t.Context(), tl, &Options{Endpoint: url[GRPC], Protocol: GRPC}); err != nil {
		t.Fatal(err)
	}
	if _, err := SendMetrics(t.Context(), tl.Reader, tl.Model, &Options{Endpoint: url[GRPC], Protocol: GRPC}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"cuda.call"`, `"cuda.stream"`, `"cuda.lost"`, `"cuda.simulated"`, `"cuda.calls"`, `"cuda.copy.io"`, `"cuda.direction"`, `"cuda.reason"`} {
		if !strings.Contains(string(lines), key) {
			t.Errorf("no %s", key)
		}
	}
	if i := strings.Index(string(lines), `"acl`); i >= 0 {
		t.Errorf("an AscendCL key: %.60s", lines[i:])
	}
}
