package otelexport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// dialTimeout bounds the look whether anybody listens.
const dialTimeout = 3 * time.Second

// check looks whether anybody listens, because the client would try a wrong endpoint for a minute.
func (t *target) check(ctx context.Context) error {
	if p, err := http.ProxyFromEnvironment(&http.Request{URL: t.url}); err != nil || p != nil {
		return nil // only the proxy knows
	}
	port := t.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.url.Scheme]
	}
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(t.url.Hostname(), port))
	if err != nil {
		return fmt.Errorf("no OTLP receiver at %s: %w; start a collector or a Jaeger there, name the endpoint of another, or write the spans to a file", t.url, err)
	}
	return c.Close()
}

// Pauses between the repetitions of a request, where the receiver names none.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 5 * time.Second
)

// inFlight is how many requests wait for an answer at a time: while a receiver decodes one, the next are on their way. A
// collector collects garbage when what it has allocated is as much as what it holds, so that it does so less often where
// it holds more requests.
const inFlight = 6

// A sender hands batches to a receiver, several at a time.
type sender struct {
	client   otlptrace.Client
	ctx      context.Context
	cancel   context.CancelFunc
	work     chan *batch
	free     chan *batch // has room for all
	wg       sync.WaitGroup
	from     *State // what was taken before, until all of it is behind
	skipped  uint32 // sum of its requests
	progress func(done, total int)
	save     func(*State)
	saved    time.Time
	total    int // calls

	mu    sync.Mutex
	res   *Result
	state State
	calls int
	err   error // the first one
}

func dial(ctx context.Context, t *target, x *exporter) (*sender, error) {
	if err := traces.check(); err != nil {
		return nil, err
	}
	limit, err := traces.timeout()
	if err != nil {
		return nil, err
	}
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	s := &sender{work: make(chan *batch), free: make(chan *batch, inFlight+1), res: &x.res, total: int(x.w.Calls), progress: x.o.Progress, save: x.o.Save, saved: time.Now()}
	s.client = t.spans(limit)
	if err := s.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.url, err)
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	for range inFlight {
		s.free <- &batch{}
		s.wg.Go(s.worker)
	}
	return s, nil
}

// spans returns a client for spans, which has not been started. A request may take so long with its repetitions.
func (t *target) spans(limit time.Duration) otlptrace.Client {
	if t.protocol != HTTP {
		return otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(t.url.String()), otlptracegrpc.WithTimeout(limit),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	}
	o := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(t.url.String()), otlptracehttp.WithTimeout(limit),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit})}
	if plain, ok := http.DefaultTransport.(*http.Transport); ok && t.url.Scheme == "http" { // without TLS, which the client configures in its own
		plain = plain.Clone()
		plain.MaxIdleConnsPerHost = inFlight // the client's keeps two connections, and makes a new one for each third request
		o = append(o, otlptracehttp.WithHTTPClient(&http.Client{Transport: plain, Timeout: limit}))
	}
	return otlptracehttp.NewClient(o...)
}

// take is the sink of an exporter.
func (s *sender) take(b *batch) (*batch, error) {
	if s.from != nil {
		if s.from.has(b.number) {
			s.skipped ^= b.sum()
			s.res.Before += b.spans
			b.reset()
			return b, nil
		}
		if s.from.before(b.number) {
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
		b.reset()
		s.free <- b
	}
}

// took notes that the receiver has taken a batch.
func (s *sender) took(b *batch, rejected int, message string) {
	s.res.Requests++
	s.res.Spans += b.spans
	s.res.Rejected += rejected
	s.res.Message = cmp.Or(message, s.res.Message)
	s.state.add(b.number, b.sum(), rejected)
	s.calls = max(s.calls, b.calls)
	if s.progress != nil {
		s.progress(s.calls, max(s.total, s.calls))
	}
	if s.save != nil && time.Since(s.saved) > time.Second {
		s.save(&s.state)
		s.saved = time.Now()
	}
}

// upload hands over one batch and returns what the receiver did not take of it.
func (s *sender) upload(b *batch) (rejected int, message string, err error) {
	err = s.client.UploadTraces(s.ctx, b.messages())
	if p, ok := partial(err); ok {
		return int(min(max(p.rejected, 0), int64(b.spans))), p.message, nil
	}
	if err == nil {
		return 0, "", nil
	}
	refused := func(code codes.Code, http string) bool {
		return status.Code(err) == code || strings.Contains(err.Error(), ": "+http+" ")
	}
	switch {
	case refused(codes.ResourceExhausted, "413"):
		err = fmt.Errorf("%w; the receiver is full or takes no request as large as %d bytes, which its configuration can change (of a collector: max_recv_msg_size_mib, max_request_body_size)", err, b.bytes)
	case refused(codes.Unauthenticated, "401"), refused(codes.PermissionDenied, "403"):
		err = fmt.Errorf("%w; OTEL_EXPORTER_OTLP_HEADERS can carry what the receiver wants to see", err)
	}
	return 0, "", err
}

// close waits for what is on its way and returns the first error.
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

type partialSuccess struct {
	rejected int64
	message  string
}

// partial finds the answer that a request was taken in part, if that is all that was wrong. Both clients make an error of it whose type
// is their own, so that its fields can only be had by name.
func partial(err error) (p partialSuccess, ok bool) {
	if err == nil {
		return p, false
	}
	if u, many := err.(interface{ Unwrap() []error }); many {
		for _, e := range u.Unwrap() {
			if p, ok = partial(e); !ok {
				return p, false
			}
		}
		return p, ok
	}
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Struct {
		return p, false
	}
	n, msg := v.FieldByName("RejectedItems"), v.FieldByName("ErrorMessage")
	if !n.IsValid() || !n.CanInt() || !msg.IsValid() || msg.Kind() != reflect.String {
		return p, false
	}
	return partialSuccess{n.Int(), cmp.Or(msg.String(), "no reason given")}, true
}

// A State is how far an export has come: which of its requests the receiver has taken. The same trace with the same options becomes
// the same requests.
type State struct {
	Export   string `json:"export"`   // what was exported, how and to where
	Requests int    `json:"requests"` // all before this one were taken
	Later    []int  `json:"later"`    // and these
	Sum      uint32 `json:"sum"`      // of what they held
	Rejected int    `json:"rejected"` // spans that the receiver did not take of them
}

// ErrOtherExport says that an export can't go on where another one ended.
var ErrOtherExport = errors.New("the interrupted export was another one")

func (s *State) has(request int) bool {
	return request < s.Requests || slices.Contains(s.Later, request)
}

// before reports whether all that was taken comes before a request.
func (s *State) before(request int) bool {
	return request >= s.Requests && (len(s.Later) == 0 || request > slices.Max(s.Later))
}

func (s *State) add(request int, sum uint32, rejected int) {
	s.Later = append(s.Later, request)
	for slices.Contains(s.Later, s.Requests) {
		s.Later = slices.DeleteFunc(s.Later, func(n int) bool { return n == s.Requests })
		s.Requests++
	}
	s.Sum ^= sum
	s.Rejected += rejected
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is a checksum of a sealed batch.
func (b *batch) sum() uint32 {
	sum := uint32(b.number)
	for i := range b.groups {
		sum = crc32.Update(sum, castagnoli, b.groups[i].message())
	}
	return sum
}

// resume goes on where an export has ended.
func (s *sender) resume(from *State, export string) error {
	s.state.Export = export
	if from == nil {
		return nil
	}
	if from.Export != export {
		return fmt.Errorf("%w: it was %s; this is %s", ErrOtherExport, from.Export, export)
	}
	s.from, s.state = from, *from
	s.state.Later = slices.Clone(from.Later)
	s.res.Rejected = from.Rejected
	return nil
}

// same checks, behind all requests that were taken before, that the same ones were made now.
func (s *sender) same() error {
	if s.from == nil || s.skipped == s.from.Sum {
		s.from = nil
		return nil
	}
	return fmt.Errorf("%w: the trace, or how acltrace makes spans of it, has changed since", ErrOtherExport)
}
