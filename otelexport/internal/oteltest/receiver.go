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

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP receiver whose answers a test chooses.
type Receiver struct {
	coltracepb.UnimplementedTraceServiceServer
	Answer func(ctx context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) // to request n, from 0

	Mu       sync.Mutex
	Requests int
	Seen     map[string]int // how often a span came, by trace and id
	Spans    int
	Header   string         // of the last request, "x-test"
	Marked   map[string]int // requests by that header
	Packed   string         // how the last request was compressed
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

// serve starts the receiver and returns the options to reach it.
func (r *Receiver) Serve(t testing.TB, protocol string) string {
	return r.ServeTLS(t, protocol, nil)
}

// serveTLS is serve with a configuration of TLS, nil for none.
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

// The receiver is also what gRPC tells how requests come.
func (r *Receiver) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (r *Receiver) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (r *Receiver) HandleConn(context.Context, stats.ConnStats)                       {}
func (r *Receiver) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		r.Packed = h.Compression
	}
}

func Takes(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

func Partially(rejected int64, message string) *coltracepb.ExportTraceServiceResponse {
	return &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: message}}
}
