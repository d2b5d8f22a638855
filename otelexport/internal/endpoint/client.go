package endpoint

import (
	"cmp"
	"context"
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

// dialTimeout bounds the look whether anybody listens.
const dialTimeout = 3 * time.Second

// check looks whether anybody listens, because the client would try a wrong endpoint for a minute.
func (t *Target) Check(ctx context.Context) error {
	if p, err := http.ProxyFromEnvironment(&http.Request{URL: t.Url}); err != nil || p != nil {
		return nil // only the proxy knows
	}
	port := t.Url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.Url.Scheme]
	}
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(t.Url.Hostname(), port))
	if err != nil {
		return fmt.Errorf("no OTLP receiver at %s: %w; start a collector or a Jaeger there, name the endpoint of another, or write the spans to a file", t.Url, err)
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
const InFlight = 6

// spans returns a client for spans, which has not been started. A request may take so long with its repetitions.
func (t *Target) Spans(limit time.Duration) otlptrace.Client {
	if t.Protocol != HTTP {
		return otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(t.Url.String()), otlptracegrpc.WithTimeout(limit),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	}
	o := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(t.Url.String()), otlptracehttp.WithTimeout(limit),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit})}
	if plain, ok := http.DefaultTransport.(*http.Transport); ok && t.Url.Scheme == "http" { // without TLS, which the client configures in its own
		plain = plain.Clone()
		plain.MaxIdleConnsPerHost = InFlight // the client's keeps two connections, and makes a new one for each third request
		o = append(o, otlptracehttp.WithHTTPClient(&http.Client{Transport: plain, Timeout: limit}))
	}
	return otlptracehttp.NewClient(o...)
}

// metrics connects to a receiver of metrics.
func (t *Target) Metrics(ctx context.Context, limit time.Duration, retry bool) (e sdkmetric.Exporter, err error) {
	if t.Protocol == HTTP {
		e, err = otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(t.Url.String()), otlpmetrichttp.WithTimeout(limit),
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: retry, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	} else {
		e, err = otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(t.Url.String()), otlpmetricgrpc.WithTimeout(limit),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: retry, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.Url, err)
	}
	return e, nil
}

type partialSuccess struct {
	Rejected int64
	Message  string
}

// partial finds the answer that a request was taken in part, if that is all that was wrong. Both clients make an error of it whose type
// is their own, so that its fields can only be had by name.
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
