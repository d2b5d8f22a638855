package otelexport

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A sender sends batches to a receiver, several at a time.
type sender struct {
	client   otlptrace.Client
	ctx      context.Context
	cancel   context.CancelFunc
	work     chan *otlp.Batch
	free     chan *otlp.Batch // large enough for all batches
	wg       sync.WaitGroup
	from     *State // requests sent before, nil once they are all skipped
	skipped  uint32 // checksum of skipped requests
	progress func(done, total int)
	save     func(*State)
	saved    time.Time
	total    int // calls of the trace

	mu    sync.Mutex
	res   *Result
	state State
	calls int
	err   error // first error
}

func dial(ctx context.Context, t *endpoint.Target, calls int, o *Options, res *Result) (*sender, error) {
	if err := t.Check(ctx); err != nil {
		return nil, err
	}
	s := &sender{work: make(chan *otlp.Batch), free: make(chan *otlp.Batch, endpoint.InFlight+1), res: res, total: calls, progress: o.Progress, save: o.Save, saved: time.Now()}
	s.client = t.Spans(t.Timeout)
	if err := s.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.URL, err)
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	for range endpoint.InFlight {
		s.free <- &otlp.Batch{}
		s.wg.Go(s.worker)
	}
	return s, nil
}

// take is the encoder's sink.
func (s *sender) take(b *otlp.Batch) (*otlp.Batch, error) {
	if s.from != nil {
		if s.from.has(b.Number) {
			s.skipped ^= b.Sum()
			s.res.Before += b.Spans
			b.Reset()
			return b, nil
		}
		if s.from.before(b.Number) {
			if err := s.same(); err != nil {
				return nil, err
			}
		}
	}
	select {
	case s.work <- b:
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
	select {
	case next := <-s.free:
		return next, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *sender) worker() {
	for b := range s.work {
		rejected, message, err := s.upload(b)
		s.mu.Lock()
		if err != nil {
			if s.err == nil {
				s.err = err
			}
			s.cancel()
		} else {
			s.took(b, rejected, message)
		}
		s.mu.Unlock()
		b.Reset()
		s.free <- b
	}
}

// took records that the receiver accepted a batch.
func (s *sender) took(b *otlp.Batch, rejected int, message string) {
	s.res.Requests++
	s.res.Spans += b.Spans
	s.res.Rejected += rejected
	s.res.Message = cmp.Or(message, s.res.Message)
	s.state.add(b.Number, b.Sum(), rejected)
	s.calls = max(s.calls, b.Calls)
	if s.progress != nil {
		s.progress(s.calls, max(s.total, s.calls))
	}
	if s.save != nil && time.Since(s.saved) > time.Second {
		s.save(&s.state)
		s.saved = time.Now()
	}
}

// upload sends one batch and returns the number of rejected spans.
func (s *sender) upload(b *otlp.Batch) (rejected int, message string, err error) {
	err = s.client.UploadTraces(s.ctx, b.Messages())
	if p, ok := endpoint.Partial(err); ok {
		return int(min(max(p.Rejected, 0), int64(b.Spans))), p.Message, nil
	}
	if err == nil {
		return 0, "", nil
	}
	refused := func(code codes.Code, http string) bool {
		return status.Code(err) == code || strings.Contains(err.Error(), ": "+http+" ")
	}
	switch {
	case refused(codes.ResourceExhausted, "413"):
		err = fmt.Errorf("%w; the receiver is full or takes no request as large as %d bytes, which its configuration can change (of a collector: max_recv_msg_size_mib, max_request_body_size)", err, b.Bytes)
	case refused(codes.Unauthenticated, "401"), refused(codes.PermissionDenied, "403"):
		err = fmt.Errorf("%w; OTEL_EXPORTER_OTLP_HEADERS can carry what the receiver wants to see", err)
	}
	return 0, "", err
}

// close waits for requests in flight and returns the first error.
func (s *sender) close(failed bool) error {
	if failed {
		s.cancel()
	}
	close(s.work)
	s.wg.Wait()
	s.cancel()
	_ = s.client.Stop(context.Background())
	return s.err
}
