package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// dialTimeout limits Check's connection attempt.
const dialTimeout = 3 * time.Second

// Check connects to the target and closes the connection. Without it, the client would retry a wrong endpoint for a
// minute.
func (t *Target) Check(ctx context.Context) error {
	if err := t.Reach(ctx); err != nil {
		return fmt.Errorf("no OTLP receiver at %s: %w: start a collector or a Jaeger there", t.URL, err)
	}
	return nil
}

// Reach is Check without advice in the error.
func (t *Target) Reach(ctx context.Context) error {
	if p, err := http.ProxyFromEnvironment(&http.Request{URL: t.URL}); err != nil || p != nil {
		return nil // only the proxy knows
	}
	port := t.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.URL.Scheme]
	}
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(t.URL.Hostname(), port))
	if err != nil {
		return err
	}
	return c.Close()
}

// Pauses between retries if the receiver names none.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 5 * time.Second
)

// InFlight is an export's number of concurrent requests: while a receiver decodes one, the next arrive. A collector
// that holds more live requests also collects garbage less often.
const InFlight = 6

// Spans returns a client for spans, not started yet. limit includes retries.
func (t *Target) Spans(limit time.Duration) otlptrace.Client {
	if t.Protocol != HTTP {
		return otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(t.URL.String()), otlptracegrpc.WithTimeout(limit),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	}
	o := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(t.URL.String()), otlptracehttp.WithTimeout(limit),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit})}
	if plain, ok := http.DefaultTransport.(*http.Transport); ok && t.URL.Scheme == "http" { // a TLS client needs the transport that otlptracehttp configures
		plain = plain.Clone()
		plain.MaxIdleConnsPerHost = InFlight // the default, two, makes a new connection for every third request
		o = append(o, otlptracehttp.WithHTTPClient(&http.Client{Transport: plain, Timeout: limit}))
	}
	return otlptracehttp.NewClient(o...)
}

// Metrics connects to a metrics receiver.
func (t *Target) Metrics(ctx context.Context, limit time.Duration, retry bool) (e sdkmetric.Exporter, err error) {
	if t.Protocol == HTTP {
		e, err = otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(t.URL.String()), otlpmetrichttp.WithTimeout(limit),
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: retry, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	} else {
		e, err = otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(t.URL.String()), otlpmetricgrpc.WithTimeout(limit),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: retry, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.URL, err)
	}
	return e, nil
}

// Try sends an empty request to a receiver of spans, without retries. The error has the receiver's words.
func (t *Target) Try(ctx context.Context) error {
	if err := t.Reach(ctx); err != nil {
		return err
	}
	limit := dialTimeout
	if at, ok := ctx.Deadline(); ok {
		limit = time.Until(at)
	}
	c := t.Spans(limit)
	err := c.Start(ctx)
	if err == nil {
		err = c.UploadTraces(ctx, nil)
	}
	return errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
}

type partialSuccess struct {
	Rejected int64
	Message  string
}

// Partial returns the partial success in an error, if err holds nothing else. Both clients return it as an unexported
// error type, so its fields are read by name.
func Partial(err error) (p partialSuccess, ok bool) {
	if err == nil {
		return p, false
	}
	if u, many := err.(interface{ Unwrap() []error }); many {
		for _, e := range u.Unwrap() {
			if p, ok = Partial(e); !ok {
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
