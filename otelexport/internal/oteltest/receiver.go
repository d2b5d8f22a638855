package oteltest

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"

	"go.opentelemetry.io/collector/pdata/ptrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Receiver is an OTLP receiver with answers chosen by a test.
type Receiver struct {
	coltracepb.UnimplementedTraceServiceServer
	Answer func(ctx context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) // answer to request n, from 0

	Mu       sync.Mutex
	Requests int
	Seen     map[string]int // times that each span arrived, by trace and id
	Spans    int
	Header   string         // "x-test" of the last request
	Marked   map[string]int // requests by that header
	Packed   string         // compression of the last request
	Keep     bool           // keep the spans
	Kept     []Span
}

func (r *Receiver) Export(ctx context.Context, q *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return r.take(ctx, q, strings.Join(md.Get("x-test"), ","))
}

func (r *Receiver) take(ctx context.Context, q *coltracepb.ExportTraceServiceRequest, header string) (*coltracepb.ExportTraceServiceResponse, error) {
	r.Mu.Lock()
	n := r.Requests
	r.Requests++
	r.Header = header
	if r.Marked == nil {
		r.Marked = map[string]int{}
	}
	r.Marked[header]++
	r.Mu.Unlock()
	resp, err := r.Answer(ctx, n)
	if err == nil {
		r.Mu.Lock()
		if r.Keep {
			r.keep(q)
		}
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				r.Spans += len(ss.Spans)
				for _, s := range ss.Spans {
					if r.Seen != nil {
						r.Seen[string(s.TraceId)+string(s.SpanId)]++
					}
				}
			}
		}
		r.Mu.Unlock()
	}
	return resp, err
}

func (r *Receiver) keep(q *coltracepb.ExportTraceServiceRequest) {
	b, err := proto.Marshal(q)
	if err != nil {
		panic(err)
	}
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
	if err != nil {
		panic(err)
	}
	r.Kept = append(r.Kept, Flatten(td)...)
}

func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	packed := req.Header.Get("Content-Encoding")
	r.Mu.Lock()
	r.Packed = packed
	r.Mu.Unlock()
	if packed == "gzip" {
		z, err := gzip.NewReader(req.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		req.Body = z
	}
	body, _ := io.ReadAll(req.Body)
	var q coltracepb.ExportTraceServiceRequest
	if req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &q) != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	resp, err := r.take(req.Context(), &q, req.Header.Get("X-Test"))
	if s := status.Convert(err); err != nil {
		code := http.StatusServiceUnavailable
		switch {
		case len(s.Details()) > 0:
			w.Header().Set("Retry-After", "1")
			code = http.StatusTooManyRequests
		case s.Code() == codes.ResourceExhausted:
			code = http.StatusRequestEntityTooLarge
		case s.Code() == codes.Unauthenticated:
			code = http.StatusUnauthorized
		}
		w.WriteHeader(code)
		io.WriteString(w, s.Message())
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	b, _ := proto.Marshal(resp)
	w.Write(b)
}

// Serve starts the receiver and returns its endpoint.
func (r *Receiver) Serve(t testing.TB, protocol string) string {
	return r.ServeTLS(t, protocol, nil)
}

// ServeTLS is Serve with TLS, unless c is nil.
func (r *Receiver) ServeTLS(t testing.TB, protocol string, c *tls.Config) string {
	t.Helper()
	if protocol == endpoint.HTTP {
		s := httptest.NewUnstartedServer(r)
		s.TLS = c
		if c == nil {
			s.Start()
		} else {
			s.StartTLS()
		}
		t.Cleanup(s.Close)
		return s.URL
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	scheme, options := "http://", []grpc.ServerOption{grpc.StatsHandler(r)}
	if c != nil {
		scheme, options = "https://", append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	s := grpc.NewServer(options...)
	coltracepb.RegisterTraceServiceServer(s, r)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return scheme + l.Addr().String()
}

// These methods implement stats.Handler, to see the compression of gRPC requests.
func (r *Receiver) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (r *Receiver) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (r *Receiver) HandleConn(context.Context, stats.ConnStats)                       {}
func (r *Receiver) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		r.Packed = h.Compression
	}
}
