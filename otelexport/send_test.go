package otelexport

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// receiver is an OTLP receiver whose answers a test chooses.
type receiver struct {
	coltracepb.UnimplementedTraceServiceServer
	answer func(ctx context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) // to request n, from 0

	mu       sync.Mutex
	requests int
	seen     map[string]int // how often a span came, by trace and id
	spans    int
	header   string         // of the last request, "x-test"
	marked   map[string]int // requests by that header
	packed   string         // how the last request was compressed
}

func (r *receiver) Export(ctx context.Context, q *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return r.take(ctx, q, strings.Join(md.Get("x-test"), ","))
}

func (r *receiver) take(ctx context.Context, q *coltracepb.ExportTraceServiceRequest, header string) (*coltracepb.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	n := r.requests
	r.requests++
	r.header = header
	if r.marked == nil {
		r.marked = map[string]int{}
	}
	r.marked[header]++
	r.mu.Unlock()
	resp, err := r.answer(ctx, n)
	if err == nil {
		r.mu.Lock()
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				r.spans += len(ss.Spans)
				for _, s := range ss.Spans {
					if r.seen != nil {
						r.seen[string(s.TraceId)+string(s.SpanId)]++
					}
				}
			}
		}
		r.mu.Unlock()
	}
	return resp, err
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	packed := req.Header.Get("Content-Encoding")
	r.mu.Lock()
	r.packed = packed
	r.mu.Unlock()
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
func (r *receiver) serve(t testing.TB, protocol string) *Options { return r.serveTLS(t, protocol, nil) }

// serveTLS is serve with a configuration of TLS, nil for none.
func (r *receiver) serveTLS(t testing.TB, protocol string, c *tls.Config) *Options {
	t.Helper()
	if protocol == HTTP {
		s := httptest.NewUnstartedServer(r)
		s.TLS = c
		if c == nil {
			s.Start()
		} else {
			s.StartTLS()
		}
		t.Cleanup(s.Close)
		return &Options{Endpoint: s.URL, Protocol: HTTP}
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
	return &Options{Endpoint: scheme + l.Addr().String(), Protocol: GRPC}
}

// The receiver is also what gRPC tells how requests come.
func (r *receiver) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (r *receiver) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (r *receiver) HandleConn(context.Context, stats.ConnStats)                       {}
func (r *receiver) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		r.packed = h.Compression
	}
}

func takes(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

func partially(rejected int64, message string) *coltracepb.ExportTraceServiceResponse {
	return &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: message}}
}

func each(t *testing.T, f func(t *testing.T, protocol string)) {
	for _, p := range []string{GRPC, HTTP} {
		t.Run(p[:4], func(t *testing.T) { f(t, p) })
	}
}

func TestPartialSuccess(t *testing.T) {
	tl := testtrace.Long(t, 18_000)
	each(t, func(t *testing.T, protocol string) {
		r := &receiver{answer: func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			if n == 1 {
				return partially(3, "too old"), nil
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		o := r.serve(t, protocol)
		res, err := send(t.Context(), tl, o)
		var rejected *RejectedError
		if !errors.As(err, &rejected) {
			t.Fatalf("error %v is no RejectedError", err)
		}
		if rejected.Rejected != 3 || rejected.Message != "too old" || res.Rejected != 3 || res.Spans != r.spans || res.Requests != r.requests || r.requests < 3 {
			t.Errorf("%+v, %+v; the receiver has seen %d spans in %d requests", rejected, res, r.spans, r.requests)
		}
		if !strings.HasPrefix(err.Error(), o.Endpoint) || !strings.Contains(err.Error(), "rejected 3 of ") || !strings.HasSuffix(err.Error(), " spans: too old") {
			t.Error(err)
		}
	})
}

// A partial success that rejects nothing is a warning.
func TestWarning(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		r := &receiver{answer: func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
			return partially(0, "upgrade soon"), nil
		}}
		res, err := send(t.Context(), testtrace.Small(t), r.serve(t, protocol))
		if err != nil || res.Message != "upgrade soon" || res.Rejected != 0 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestBusyReceiverIsAskedAgain(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		r := &receiver{answer: func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			if n == 0 {
				return nil, status.Error(codes.Unavailable, "busy")
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		res, err := send(t.Context(), testtrace.Small(t), r.serve(t, protocol))
		if err != nil || r.requests != 2 || r.spans != res.Spans {
			t.Errorf("%v after %d requests, %d of %d spans", err, r.requests, r.spans, res.Spans)
		}
	})
}

// A receiver whose queue is full says when to come again: over gRPC by RetryInfo, over HTTP by 429 and Retry-After.
func TestFullQueue(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		const pause = time.Second
		var asked [2]time.Time
		r := &receiver{answer: func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			asked[min(n, 1)] = time.Now()
			if n == 0 {
				full, err := status.New(codes.ResourceExhausted, "queue is full").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(pause)})
				if err != nil {
					return nil, err
				}
				return nil, full.Err()
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		res, err := send(t.Context(), testtrace.Small(t), r.serve(t, protocol))
		if err != nil || r.requests != 2 || r.spans != res.Spans || res.Spans == 0 {
			t.Errorf("%v after %d requests, %d of %d spans", err, r.requests, r.spans, res.Spans)
		}
		if d := asked[1].Sub(asked[0]); d < pause {
			t.Errorf("asked again after %s, before the receiver's %s", d, pause)
		}
	})
}

// A receiver that will not have a request ends the export with its own words, and it says how far the export came.
func TestReceiverThatRefuses(t *testing.T) {
	for _, c := range []struct {
		code codes.Code
		want string
	}{
		{codes.ResourceExhausted, "the receiver is full or takes no request as large as"},
		{codes.Unauthenticated, "OTEL_EXPORTER_OTLP_HEADERS"},
	} {
		each(t, func(t *testing.T, protocol string) {
			r := &receiver{answer: func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
				return nil, status.Error(c.code, "not here")
			}}
			res, err := send(t.Context(), testtrace.Small(t), r.serve(t, protocol))
			if err == nil || res.Spans != 0 || r.requests != 1 {
				t.Fatalf("%+v, %v after %d requests", res, err, r.requests)
			}
			for _, want := range []string{"not here", "0 spans were handed over", c.want} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		})
	}
}

func TestReceiverThatDiesHalfWay(t *testing.T) {
	tl := testtrace.Long(t, 18_000)
	each(t, func(t *testing.T, protocol string) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &receiver{answer: func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			if n > 0 {
				cancel()
				return nil, status.Error(codes.Unavailable, "dying")
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		res, err := send(ctx, tl, r.serve(t, protocol))
		if !errors.Is(err, context.Canceled) || res.Spans > r.spans || res.Requests > 1 {
			t.Fatalf("%+v, %v; %d spans came", res, err, r.spans)
		}
		if !strings.Contains(err.Error(), "spans were handed over") {
			t.Error(err)
		}
	})
}

func TestRefusedEndpoint(t *testing.T) {
	// A port that is taken, so that nobody else takes it, and that nobody listens at.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := fmt.Sprintf("http://127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	each(t, func(t *testing.T, protocol string) {
		start := time.Now()
		_, err := send(t.Context(), testtrace.Small(t), &Options{Endpoint: endpoint, Protocol: protocol})
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(start) >= patience { // it is not asked again
			t.Fatalf("%v after %s", err, time.Since(start))
		}
		if s := err.Error(); !strings.HasPrefix(s, "no OTLP receiver at "+endpoint) || !strings.Contains(s, "start a collector") || strings.Contains(s, "\n") {
			t.Error(s)
		}
	})
}

func TestSlowEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	each(t, func(t *testing.T, protocol string) {
		r := &receiver{answer: func(ctx context.Context, _ int) (*coltracepb.ExportTraceServiceResponse, error) {
			select {
			case <-ctx.Done():
			case <-time.After(testenv.Patience):
				t.Error("the receiver is waited for for ever")
			}
			return nil, status.Error(codes.Unavailable, "late")
		}}
		o := r.serve(t, protocol)
		res, err := send(t.Context(), testtrace.Small(t), o)
		if err == nil || res.Spans != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if s := err.Error(); !strings.Contains(s, o.Endpoint) || !strings.Contains(s, ": 0 spans were handed over, those of 0 of 19 calls: ") {
			t.Error(s)
		}
	})
}

// An export that was interrupted goes on where it stopped, and what it has sent twice has the same ids.
func TestResume(t *testing.T) {
	tl := testtrace.Long(t, 40_000)
	want, whole := written(t, tl, nil)
	each(t, func(t *testing.T, protocol string) {
		ctx, cancel := context.WithCancel(t.Context())
		var hold atomic.Bool
		r := &receiver{seen: map[string]int{}, answer: func(asked context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			if n == 4 {
				cancel()
				hold.Store(true) // for those that are on their way with it
			} else if hold.Load() {
				<-asked.Done()
				return nil, asked.Err()
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		o := r.serve(t, protocol)
		var kept []byte
		o.Save = func(s *State) { kept, _ = json.Marshal(s) }
		res, err := send(ctx, tl, o)
		if !errors.Is(err, context.Canceled) || res.Spans == whole.Spans {
			t.Fatalf("%+v, %v", res, err)
		}
		state := func() *State {
			s := &State{}
			if err := json.Unmarshal(kept, s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		if s := state(); s.Requests+len(s.Later) != res.Requests {
			t.Errorf("%+v after %d requests", s, res.Requests)
		}
		hold.Store(false)
		// Not with other options, and not with another trace.
		o.Resume = state()
		o.MaxSpans = 5_000
		if _, err := send(t.Context(), tl, o); !errors.Is(err, ErrOtherExport) {
			t.Errorf("with another limit: %v", err)
		}
		o.MaxSpans = 0
		if _, err := send(t.Context(), testtrace.Small(t), o); !errors.Is(err, ErrOtherExport) {
			t.Errorf("another trace: %v", err)
		}
		if _, err := send(t.Context(), testtrace.Long(t, 6_000), o); !errors.Is(err, ErrOtherExport) {
			t.Errorf("the trace has lost calls: %v", err)
		}
		// Nor does it hide that something is on its way when it is seen.
		o.Resume = state()
		o.Resume.Requests, o.Resume.Later = 0, []int{1}
		hold.Store(true)
		if _, err := send(t.Context(), tl, o); !errors.Is(err, ErrOtherExport) {
			t.Errorf("another export, with a request on its way: %v", err)
		}
		hold.Store(false)
		// Requests of the first one that were given up may still come: those of the second have a mark.
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-test=again")
		o.Resume = state()
		again, err := send(t.Context(), tl, o)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil || again.Before != res.Spans || again.Spans != whole.Spans-res.Spans || r.marked["again"] != whole.Requests-res.Requests {
			t.Errorf("%+v, %v: %d requests, it began with %+v of %+v", again, err, r.marked["again"], res, whole)
		}
		if len(r.seen) != len(want) {
			t.Errorf("%d spans came, want %d", len(r.seen), len(want))
		}
	})
}

// BenchmarkSend sends to a receiver in this process that only decodes.
func BenchmarkSend(b *testing.B) {
	tl := testtrace.Long(b, 25_000)
	for _, protocol := range []string{GRPC, HTTP} {
		b.Run(protocol[:4], func(b *testing.B) {
			r := &receiver{answer: takes}
			o := r.serve(b, protocol)
			o.NoSteps = true
			spans, began := 0, processor()
			for b.Loop() {
				res, err := send(b.Context(), tl, o)
				if err != nil {
					b.Fatal(err)
				}
				spans += res.Spans
			}
			report(b, spans, began)
		})
	}
}
