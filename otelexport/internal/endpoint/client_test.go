package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
)

// An address without a receiver is refused before anything is sent, and a receiver's refusal comes back in its own words.
func TestUnreachableReceiverIsRefused(t *testing.T) {
	for _, protocol := range []string{endpoint.GRPC, endpoint.HTTP} {
		t.Run(protocol, func(t *testing.T) {
			var refuse error
			var rejected int64
			r := &oteltest.Receiver{Answer: func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
				return &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: strings.Repeat("too old", int(rejected)/2)}}, refuse
			}}
			to, err := endpoint.Traces.Resolve(r.Serve(t, protocol), protocol)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(to.Reach(t.Context()), to.Check(t.Context()), to.Try(t.Context())); err != nil || r.Requests != 1 {
				t.Errorf("%v after %d requests", err, r.Requests)
			}
			refuse = status.Error(codes.Unauthenticated, "who are you")
			if err := to.Try(t.Context()); err == nil || protocol == endpoint.GRPC && !strings.Contains(err.Error(), "who are you") || r.Requests != 2 {
				t.Errorf("%v after %d requests", err, r.Requests)
			}
			// A part of a request is refused.
			c := to.Spans(time.Minute)
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Stop(context.WithoutCancel(t.Context())) }()
			refuse = nil
			for n, want := range map[int64]string{0: "", 1: "no reason given", 2: "too old"} {
				rejected = n
				err := c.UploadTraces(t.Context(), []*tracepb.ResourceSpans{{}})
				if p, ok := endpoint.Partial(err); ok != (n > 0) || p.Rejected != n || p.Message != want {
					t.Errorf("%d rejected: %+v, %t, %v", n, p, ok, err)
				}
			}
			// A busy receiver is asked again.
			busy, first := status.Error(codes.Unavailable, "busy"), r.Requests
			r.Answer = func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
				if n == first {
					return nil, busy
				}
				return &coltracepb.ExportTraceServiceResponse{}, nil
			}
			if err := c.UploadTraces(t.Context(), nil); err != nil || r.Requests != first+2 {
				t.Errorf("%v after %d requests", err, r.Requests-first)
			}
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	nobody, err := endpoint.Traces.Resolve("http://"+l.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("no OTLP receiver at http://%s: dial tcp %s: connect: connection refused: start a collector or a Jaeger there", l.Addr(), l.Addr())
	if err := nobody.Check(t.Context()); err == nil || err.Error() != want {
		t.Error(err)
	}
	if err := nobody.Try(t.Context()); err == nil || strings.Contains(err.Error(), "collector") {
		t.Error(err)
	}
}

// Only an error that holds partial successes alone is one.
func TestPartialSuccessAmongOtherErrors(t *testing.T) {
	type answer struct {
		error
		RejectedItems int64
		ErrorMessage  string
	}
	some := answer{nil, 3, "old"}
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"none":              {nil, false},
		"one":               {some, true},
		"two":               {errors.Join(some, answer{nil, 3, "old"}), true},
		"one and an error":  {errors.Join(some, errors.New("x")), false},
		"an error and one":  {errors.Join(errors.New("x"), some), false},
		"a pointer":         {&some, false},
		"without a message": {struct{ answer2 }{}, false},
		"text for a number": {struct {
			error
			RejectedItems, ErrorMessage string
		}{}, false},
		"a number for text": {struct {
			error
			RejectedItems, ErrorMessage int
		}{}, false},
	} {
		if p, ok := endpoint.Partial(c.err); ok != c.ok || ok && (p.Rejected != 3 || p.Message != "old") {
			t.Errorf("%s: %+v, %t", name, p, ok)
		}
	}
}

type answer2 struct {
	error
	RejectedItems int64
}

// A client for metrics is made for each protocol.
func TestMetricsClientOfEachProtocol(t *testing.T) {
	for _, protocol := range []string{endpoint.GRPC, endpoint.HTTP} {
		to, err := endpoint.Metrics.Resolve("http://localhost:4318", protocol)
		if err != nil {
			t.Fatal(err)
		}
		e, err := to.Metrics(t.Context(), time.Second, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%T", e); !strings.HasPrefix(got, map[string]string{endpoint.GRPC: "*otlpmetricgrpc.", endpoint.HTTP: "*otlpmetrichttp."}[protocol]) {
			t.Errorf("%s: %s", protocol, got)
		}
		if to.URL.Path != map[string]string{endpoint.GRPC: "", endpoint.HTTP: "/v1/metrics"}[protocol] {
			t.Errorf("%s: %s", protocol, to.URL)
		}
		_ = e.Shutdown(t.Context())
	}
}

// Values that OpenTelemetry's clients would ignore are refused, with the name of their variable.
func TestInvalidVariables(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, value, want string }{
		{"COMPRESSION", "zip", `OTEL_EXPORTER_OTLP_COMPRESSION "zip" is neither gzip nor none`},
		{"COMPRESSION", "gzip", ""},
		{"COMPRESSION", " none ", ""},
		{"TRACES_COMPRESSION", "zip", `OTEL_EXPORTER_OTLP_TRACES_COMPRESSION "zip" is neither gzip nor none`},
		{"INSECURE", "yes", `OTEL_EXPORTER_OTLP_INSECURE "yes" is neither true nor false`},
		{"INSECURE", "TRUE", ""},
		{"INSECURE", "False", ""},
		{"HEADERS", "a=b,c", `OTEL_EXPORTER_OTLP_HEADERS has "c", which is not key=value`},
		{"HEADERS", "=b", `OTEL_EXPORTER_OTLP_HEADERS has "=b", which is not key=value`},
		{"HEADERS", "a=,b=c=d", ""},
		{"CERTIFICATE", file, "OTEL_EXPORTER_OTLP_CERTIFICATE " + file + ": no certificate in it"},
		{"CERTIFICATE", file + ".gone", "OTEL_EXPORTER_OTLP_CERTIFICATE " + file + ".gone: open " + file + ".gone: no such file or directory"},
		{"CLIENT_KEY", file, "OTEL_EXPORTER_OTLP_CLIENT_KEY stands alone: CLIENT_CERTIFICATE and CLIENT_KEY go together"},
		{"CLIENT_CERTIFICATE", file, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE stands alone: CLIENT_CERTIFICATE and CLIENT_KEY go together"},
		{"TIMEOUT", "5s", `OTEL_EXPORTER_OTLP_TIMEOUT "5s" is no number of milliseconds`},
		{"TIMEOUT", "-1", `OTEL_EXPORTER_OTLP_TIMEOUT "-1" is no number of milliseconds`},
		{"TIMEOUT", "0", ""},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+c.name, c.value)
			_, err := endpoint.Traces.Resolve("http://c", "")
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", file)
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", file)
	if _, err := endpoint.Traces.Resolve("http://c", ""); err == nil || !strings.HasPrefix(err.Error(), "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE "+file+", OTEL_EXPORTER_OTLP_CLIENT_KEY "+file+": ") {
		t.Error(err)
	}
	for value, want := range map[string]time.Duration{"": time.Minute, "1500": 1500 * time.Millisecond} {
		t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "")
		t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", "")
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", value)
		if to, err := endpoint.Traces.Resolve("http://c", ""); err != nil || to.Timeout != want {
			t.Errorf("%q: %v, %v", value, to.Timeout, err)
		}
	}
}
