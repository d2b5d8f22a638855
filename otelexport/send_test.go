package otelexport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func each(t *testing.T, f func(t *testing.T, protocol string)) {
	for _, p := range []string{GRPC, HTTP} {
		t.Run(p[:4], func(t *testing.T) { f(t, p) })
	}
}

func TestPartialSuccess(t *testing.T) {
	tl := testtrace.Long(t, 18_000)
	each(t, func(t *testing.T, protocol string) {
		r := &oteltest.Receiver{Answer: func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			if n == 1 {
				return partialSuccess(3, "too old"), nil
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		o := serve(t, r, protocol)
		o.MaxSpans = -1
		res, err := send(t.Context(), tl, o)
		var rejected *RejectedError
		if !errors.As(err, &rejected) {
			t.Fatalf("error %v is no RejectedError", err)
		}
		if rejected.Rejected != 3 || rejected.Message != "too old" || res.Rejected != 3 || res.Spans != r.Spans || res.Requests != r.Requests || r.Requests < 3 {
			t.Errorf("%+v, %+v; the receiver has seen %d spans in %d requests", rejected, res, r.Spans, r.Requests)
		}
		if !strings.HasPrefix(err.Error(), o.Endpoint) || !strings.Contains(err.Error(), "rejected 3 of ") || !strings.HasSuffix(err.Error(), " spans: too old") {
			t.Error(err)
		}
	})
}

// Requests may be accepted in any order. The state has all before the first missing one, and what the receiver rejected.
func TestStateOfRequestsOutOfOrder(t *testing.T) {
	s := State{}
	for i, request := range []int{1, 3, 0, 2} {
		s.add(request, 1<<request, request)
		want := []State{{Later: []int{1}, Sum: 2, Rejected: 1}, {Later: []int{1, 3}, Sum: 10, Rejected: 4}, {Requests: 2, Later: []int{3}, Sum: 11, Rejected: 4}, {Requests: 4, Sum: 15, Rejected: 6}}[i]
		if s.Requests != want.Requests || !slices.Equal(s.Later, want.Later) || s.Sum != want.Sum || s.Rejected != want.Rejected {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
}

// A partial success that rejects no span is a warning.
func TestPartialSuccessIsAWarning(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		r := &oteltest.Receiver{Answer: func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
			return partialSuccess(0, "upgrade soon"), nil
		}}
		res, err := send(t.Context(), testtrace.Small(t), serve(t, r, protocol))
		if err != nil || res.Message != "upgrade soon" || res.Rejected != 0 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestBusyReceiverIsAskedAgain(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		r := &oteltest.Receiver{Answer: func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			if n == 0 {
				return nil, status.Error(codes.Unavailable, "busy")
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		res, err := send(t.Context(), testtrace.Small(t), serve(t, r, protocol))
		if err != nil || r.Requests != 2 || r.Spans != res.Spans {
			t.Errorf("%v after %d requests, %d of %d spans", err, r.Requests, r.Spans, res.Spans)
		}
	})
}

// A receiver with a full queue names a time to retry: RetryInfo over gRPC, 429 and Retry-After over HTTP.
func TestFullQueue(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		const pause = time.Second
		var asked [2]time.Time
		r := &oteltest.Receiver{Answer: func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
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
		res, err := send(t.Context(), testtrace.Small(t), serve(t, r, protocol))
		if err != nil || r.Requests != 2 || r.Spans != res.Spans || res.Spans == 0 {
			t.Errorf("%v after %d requests, %d of %d spans", err, r.Requests, r.Spans, res.Spans)
		}
		if d := asked[1].Sub(asked[0]); d < pause {
			t.Errorf("asked again after %s, before the receiver's %s", d, pause)
		}
	})
}

// A refused request ends the export with the receiver's message and the progress so far.
func TestReceiverThatRefuses(t *testing.T) {
	for _, c := range []struct {
		code codes.Code
		want string
	}{
		{codes.ResourceExhausted, "the receiver is full or takes no request as large as"},
		{codes.Unauthenticated, "OTEL_EXPORTER_OTLP_HEADERS"},
	} {
		each(t, func(t *testing.T, protocol string) {
			r := &oteltest.Receiver{Answer: func(context.Context, int) (*coltracepb.ExportTraceServiceResponse, error) {
				return nil, status.Error(c.code, "not here")
			}}
			res, err := send(t.Context(), testtrace.Small(t), serve(t, r, protocol))
			if err == nil || res.Spans != 0 || r.Requests != 1 {
				t.Fatalf("%+v, %v after %d requests", res, err, r.Requests)
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
		r := &oteltest.Receiver{Answer: func(_ context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			if n > 0 {
				cancel()
				return nil, status.Error(codes.Unavailable, "dying")
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		o := serve(t, r, protocol)
		o.MaxSpans = -1
		res, err := send(ctx, tl, o)
		if !errors.Is(err, context.Canceled) || res.Spans > r.Spans || res.Requests > 1 {
			t.Fatalf("%+v, %v; %d spans came", res, err, r.Spans)
		}
		if !strings.Contains(err.Error(), "spans were handed over") {
			t.Error(err)
		}
	})
}

func TestRefusedEndpoint(t *testing.T) {
	// A bound port without a listener.
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
	url := fmt.Sprintf("http://127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	each(t, func(t *testing.T, protocol string) {
		start := time.Now()
		_, err := send(t.Context(), testtrace.Small(t), &Options{Endpoint: url, Protocol: protocol})
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(start) >= endpoint.Patience { // no retries
			t.Fatalf("%v after %s", err, time.Since(start))
		}
		if s := err.Error(); !strings.HasPrefix(s, "no OTLP receiver at "+url) || !strings.Contains(s, "start a collector") || strings.Contains(s, "\n") {
			t.Error(s)
		}
	})
}

func TestSlowEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	each(t, func(t *testing.T, protocol string) {
		r := &oteltest.Receiver{Answer: func(ctx context.Context, _ int) (*coltracepb.ExportTraceServiceResponse, error) {
			select {
			case <-ctx.Done():
			case <-time.After(testenv.Patience):
				t.Error("the receiver is waited for for ever")
			}
			return nil, status.Error(codes.Unavailable, "late")
		}}
		o := serve(t, r, protocol)
		o.MaxSpans = -1
		res, err := send(t.Context(), testtrace.Small(t), o)
		if err == nil || res.Spans != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if s := err.Error(); !strings.Contains(s, o.Endpoint) || !strings.Contains(s, ": 0 spans were handed over, those of 0 of 19 calls: ") {
			t.Error(s)
		}
	})
}

// An interrupted export resumes where it stopped, and repeated spans have the same ids.
func TestInterruptedExportResumes(t *testing.T) {
	tl := testtrace.Long(t, 40_000)
	want, whole := written(t, tl, &Options{MaxSpans: -1})
	requests := 0
	sent(t, encoder(t, tl, &Options{MaxSpans: -1}), func(*otlp.Batch, []byte) { requests++ })
	each(t, func(t *testing.T, protocol string) {
		ctx, cancel := context.WithCancel(t.Context())
		var hold atomic.Bool
		accepted := make(chan struct{}) // closed when the first answer has come
		var first sync.Once
		r := &oteltest.Receiver{Seen: map[string]int{}, Answer: func(asked context.Context, n int) (*coltracepb.ExportTraceServiceResponse, error) {
			if n == 4 {
				<-accepted
				cancel()
				hold.Store(true) // for requests in flight
			} else if hold.Load() {
				<-asked.Done()
				return nil, asked.Err()
			}
			return &coltracepb.ExportTraceServiceResponse{}, nil
		}}
		o := serve(t, r, protocol)
		o.MaxSpans = -1
		var kept []byte
		o.Save = func(s *State) { kept, _ = json.Marshal(s) }
		o.Progress = func(int, int) { first.Do(func() { close(accepted) }) }
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
		// Other options or another trace cannot resume it.
		o.Resume = state()
		o.MaxSpans = 5_000
		if _, err := send(t.Context(), tl, o); !errors.Is(err, ErrOtherExport) {
			t.Errorf("with another limit: %v", err)
		}
		o.MaxSpans = -1
		if _, err := send(t.Context(), testtrace.Small(t), o); !errors.Is(err, ErrOtherExport) {
			t.Errorf("another trace: %v", err)
		}
		if _, err := send(t.Context(), testtrace.Long(t, 6_000), o); !errors.Is(err, ErrOtherExport) {
			t.Errorf("the trace has lost calls: %v", err)
		}
		// A checksum mismatch is also found while requests are in flight.
		o.Resume = state()
		other := 1
		if slices.Equal(o.Resume.Later, []int{1}) { // this one alone was accepted
			other = 2
		}
		o.Resume.Requests, o.Resume.Later = 0, []int{other}
		hold.Store(true)
		if _, err := send(t.Context(), tl, o); !errors.Is(err, ErrOtherExport) {
			t.Errorf("another export, with a request on its way: %v", err)
		}
		hold.Store(false)
		// Canceled requests of the first export may still arrive. The second export marks its own.
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-test=again")
		o.Resume = state()
		again, err := send(t.Context(), tl, o)
		r.Mu.Lock()
		defer r.Mu.Unlock()
		if err != nil || again.Before != res.Spans || again.Spans != whole.Spans-res.Spans || r.Marked["again"] != requests-res.Requests {
			t.Errorf("%+v, %v: %d requests of %d, it began with %+v of %+v", again, err, r.Marked["again"], requests, res, whole)
		}
		if len(r.Seen) != len(want) {
			t.Errorf("%d spans came, want %d", len(r.Seen), len(want))
		}
	})
}

// BenchmarkSend sends to a receiver in this process that only decodes.
func BenchmarkSend(b *testing.B) {
	tl := testtrace.Long(b, 25_000)
	for _, protocol := range []string{GRPC, HTTP} {
		b.Run(protocol[:4], func(b *testing.B) {
			r := &oteltest.Receiver{Answer: accept}
			o := serve(b, r, protocol)
			o.NoSteps, o.MaxSpans = true, -1
			spans, began := 0, testenv.CPUTime()
			for b.Loop() {
				res, err := send(b.Context(), tl, o)
				if err != nil {
					b.Fatal(err)
				}
				spans += res.Spans
			}
			oteltest.Report(b, spans, began)
		})
	}
}
