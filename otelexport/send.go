package otelexport

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"reflect"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
)

const (
	defaultEndpoint     = "http://localhost:4317"
	defaultHTTPEndpoint = "http://localhost:4318"
	tracesPath          = "/v1/traces"
)

// sender hands batches to a receiver.
type sender struct {
	client   otlptrace.Client
	endpoint string
	protocol string
}

// target is where the spans go.
type target struct {
	url      *url.URL
	protocol string
}

// resolve finds out where the spans go, by the options, else by the environment.
func resolve(o *Options) (*target, error) {
	protocol := cmp.Or(o.Protocol, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	if protocol != "" && protocol != GRPC && protocol != HTTP {
		return nil, fmt.Errorf("protocol %q is neither %s nor %s", protocol, GRPC, HTTP)
	}
	endpoint, origin, exact := o.Endpoint, "endpoint", false
	if endpoint == "" {
		origin, exact = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", true
		endpoint = os.Getenv(origin)
	}
	if endpoint == "" {
		origin, exact = "OTEL_EXPORTER_OTLP_ENDPOINT", false
		endpoint = os.Getenv(origin)
	}
	if endpoint == "" {
		endpoint = defaultEndpoint
		if protocol == HTTP {
			endpoint = defaultHTTPEndpoint
		}
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s %q is no URL with http:// or https:// in front of the host", origin, endpoint)
	}
	if protocol == "" {
		protocol = GRPC
		if u.Port() == "4318" || strings.Trim(u.Path, "/") != "" {
			protocol = HTTP
		}
	}
	if protocol == HTTP && !exact && !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = path.Join("/", u.Path, tracesPath)
	}
	return &target{u, protocol}, nil
}

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

func dial(ctx context.Context, o *Options) (*sender, error) {
	t, err := resolve(o)
	if err != nil {
		return nil, err
	}
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	const first, longest, limit = 250 * time.Millisecond, 5 * time.Second, time.Minute
	var c otlptrace.Client
	if t.protocol == HTTP {
		c = otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(t.url.String()),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: first, MaxInterval: longest, MaxElapsedTime: limit}))
	} else {
		c = otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(t.url.String()),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: first, MaxInterval: longest, MaxElapsedTime: limit}))
	}
	if err := c.Start(ctx); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.url, err)
	}
	return &sender{client: c, endpoint: t.url.String(), protocol: t.protocol}, nil
}

func (s *sender) close() { _ = s.client.Stop(context.Background()) }

// send hands over one batch and counts in r what the receiver did not take of it.
func (s *sender) send(ctx context.Context, b *batch, r *Result) error {
	err := s.client.UploadTraces(ctx, b.messages())
	if p, ok := partial(err); ok {
		r.Rejected += int(min(max(p.rejected, 0), int64(b.spans)))
		r.Message = p.message
		return nil
	}
	return err
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
