package live

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/meter"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"

	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	sdkresource "go.opentelemetry.io/otel/sdk/resource"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// A metricPusher sends metrics to an OTLP receiver periodically. It replaces the SDK's periodic reader, which supports
// one resource only.
type metricPusher struct {
	l               *Follower
	t               *endpoint.Target
	e               sdkmetric.Exporter
	interval, limit time.Duration
	stop, stopped   chan struct{}
}

func newMetricPusher(l *Follower) (*metricPusher, error) {
	p := &metricPusher{l: l, stop: make(chan struct{}), stopped: make(chan struct{})}
	t, err := endpoint.Metrics.Resolve(l.o.Endpoint, l.o.Protocol)
	if err != nil {
		return nil, err
	}
	if p.interval, err = milliseconds("OTEL_METRIC_EXPORT_INTERVAL", time.Minute); err != nil {
		return nil, err
	}
	if p.limit, err = milliseconds("OTEL_METRIC_EXPORT_TIMEOUT", 30*time.Second); err != nil {
		return nil, err
	}
	p.t, l.res.MetricsTo = t, t.URL.String()
	// No retries: values are cumulative, so the next push includes this one.
	p.e, err = t.Metrics(context.Background(), p.limit, false)
	return p, err
}

// try sends an empty request.
func (p *metricPusher) try(ctx context.Context) error {
	if err := p.t.Reach(ctx); err != nil {
		return err
	}
	return p.e.Export(ctx, &metricdata.ResourceMetrics{Resource: sdkresource.Empty()})
}

// milliseconds reads an environment variable.
func milliseconds(name string, otherwise time.Duration) (time.Duration, error) {
	v := strings.TrimSpace(os.Getenv(name))
	if v == "" {
		return otherwise, nil
	}
	ms, err := strconv.ParseUint(v, 10, 31)
	if err != nil || ms == 0 {
		return 0, fmt.Errorf("%s %q is no number of milliseconds", name, v)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (p *metricPusher) run() {
	defer close(p.stopped)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	pause := p.interval
	for {
		select {
		case <-time.After(pause):
			any, err := p.push(ctx)
			if any && ctx.Err() == nil { // the final push includes it
				p.count(err)
			}
			pause = p.after(pause, err)
		case <-p.stop:
			return
		}
	}
}

// longestSilence is the longest interval between attempts to reach a silent receiver, unless the configured one is
// longer.
const longestSilence = time.Minute

// after returns the pause after a push.
func (p *metricPusher) after(last time.Duration, err error) time.Duration {
	if err == nil {
		return p.interval
	}
	return max(p.interval, min(2*last, longestSilence))
}

// push sends the current values, if any.
func (p *metricPusher) push(ctx context.Context) (any bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	for _, d := range p.l.snapshot() {
		any = true
		if err := p.e.Export(ctx, d.Message()); err != nil {
			return any, err
		}
	}
	return any, nil
}

func (p *metricPusher) count(err error) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if err != nil {
		p.l.res.PushesFailed++
		p.l.res.PushError = err
	} else {
		p.l.res.Pushed++
	}
}

// end sends the final values.
func (p *metricPusher) end(ctx context.Context) {
	close(p.stop)
	<-p.stopped
	if any, err := p.push(ctx); any {
		p.count(err)
	}
	_ = p.e.Shutdown(ctx)
}

// A metricServer serves Prometheus. It takes one snapshot a scrape. OpenTelemetry's SDK exports each resource, with its
// attributes as labels.
type metricServer struct {
	l        *Follower
	listener net.Listener
	server   *http.Server
	registry *prometheus.Registry

	mu        sync.Mutex // one scrape at a time
	producers map[*otlp.Resource]*producer
}

// A producer passes one resource's metrics to the SDK.
type producer struct{ metrics []metricdata.Metrics }

func (p *producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	return []metricdata.ScopeMetrics{{Scope: meter.MeterScope, Metrics: p.metrics}}, nil
}

func newMetricServer(l *Follower) (*metricServer, error) {
	s := &metricServer{l: l, registry: prometheus.NewRegistry(), producers: map[*otlp.Resource]*producer{}}
	var err error
	address := l.o.Prometheus
	if strings.HasPrefix(address, ":") {
		address = "localhost" + address // metrics name the program's kernels, so other hosts need an explicit address
	}
	if s.listener, err = net.Listen("tcp", address); err != nil {
		return nil, fmt.Errorf("serve metrics for Prometheus: %w", err)
	}
	tell := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.look(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		tell.ServeHTTP(w, r)
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	return s, nil
}

func (s *metricServer) run() { _ = s.server.Serve(s.listener) } // until close

func (s *metricServer) close() {
	_ = s.server.Close()
	_ = s.listener.Close()
}

// look updates the exported values.
func (s *metricServer) look() error {
	labels := []attribute.Key{semconv.ServiceNameKey, semconv.ServiceInstanceIDKey, semconv.HostNameKey, semconv.ProcessPIDKey,
		semconv.K8SNamespaceNameKey, semconv.K8SPodNameKey, semconv.K8SContainerNameKey, semconv.K8SNodeNameKey}
	for _, a := range s.l.rs.Extra() {
		labels = append(labels, a.Key)
	}
	for _, d := range s.l.snapshot() {
		p := s.producers[d.Resource]
		if p == nil {
			p = &producer{}
			e, err := otelprometheus.New(otelprometheus.WithRegisterer(s.registry), otelprometheus.WithProducer(p), otelprometheus.WithoutTargetInfo(),
				otelprometheus.WithoutScopeInfo(), otelprometheus.WithResourceAsConstantLabels(func(a attribute.KeyValue) bool { return slices.Contains(labels, a.Key) }))
			if err != nil {
				return err
			}
			sdkmetric.NewMeterProvider(sdkmetric.WithReader(e), sdkmetric.WithResource(sdkresource.NewWithAttributes(otlp.SchemaURL, d.Attrs...)))
			s.producers[d.Resource] = p
		}
		p.metrics = d.Metrics
	}
	return nil
}
