package live

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestRequestsOfThePage compiles the code in docs/reference/metrics.md that passes on the spans of requests, and finds them in
// the output of a recording.
func TestRequestsOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n```c\n")
	code, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !ended {
		t.Fatal("docs/reference/metrics.md has no code for requests")
	}
	dir := t.TempDir()
	header := "#include <stdint.h>\ntypedef uint64_t mstxRangeId;\nmstxRangeId mstxRangeStartA(const char *message, aclrtStream stream);\nvoid mstxRangeEnd(mstxRangeId id);\n"
	for name, text := range map[string]string{"request.c": code + "\n", "mstx/ms_tools_ext.h": header} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source := []string{"testdata/requests.c"}
	lib := testenv.CompileC(t, "libms_tools_ext.so", source, "-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libms_tools_ext.so")
	program := testenv.CompileC(t, "requests", source, "-I"+dir, `-DSNIPPET="`+filepath.Join(dir, "request.c")+`"`, lib, "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib))

	var mu sync.Mutex
	got := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q coltracepb.ExportTraceServiceRequest
		if b, err := io.ReadAll(r.Body); err != nil || proto.Unmarshal(b, &q) != nil {
			t.Errorf("%v: %d bytes", err, len(b))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					got[fmt.Sprintf("%s %x %x", s.Name, s.TraceId, s.ParentSpanId)]++
				}
			}
		}
	}))
	defer receiver.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	was := farewell
	farewell = testenv.Patience
	defer func() { farewell = was }()
	l, err := New(&Options{Model: acl.Model, Spans: true, Endpoint: receiver.URL, Protocol: endpoint.HTTP})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	testenv.Built(t, "lib/libacltrace.so")
	res, err := record.Run(context.Background(), &record.Options{Model: acl.Model, Output: filepath.Join(dir, "t.aclt"), Command: []string{program}, Sim: true, Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Follower: l})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	if out, err := l.Result(); err != nil || out.Sent != 3 {
		t.Errorf("%v: %+v", err, out)
	}
	for i := 1; i <= 3; i++ {
		if want := fmt.Sprintf("request 0af7651916cd43dd8448eb211c80319%d b7ad6b716920333%[1]d", i); got[want] != 1 {
			t.Errorf("no span %q: %v", want, got)
		}
	}
}
