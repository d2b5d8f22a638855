package otelexport

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The variables of OpenTelemetry's specification, most of which the clients read themselves. They say nothing to the user of what
// they do not understand, so that it is looked at here.

// environment is what the variables say of resources.
type environment struct {
	service    string
	attributes []attribute.KeyValue
}

func readEnvironment() (environment, error) {
	var e environment
	r, err := sdkresource.New(context.Background(), sdkresource.WithFromEnv())
	if err != nil {
		return e, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES %q: %w", os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), err)
	}
	e.attributes = r.Attributes()
	if v, ok := r.Set().Value(semconv.ServiceNameKey); ok {
		e.service = v.AsString()
	}
	return e, nil
}

// A signal is what is sent: its part of the variables' names, and its path over HTTP.
type signal struct{ name, path string }

var (
	traces  = signal{"TRACES", "/v1/traces"}
	metrics = signal{"METRICS", "/v1/metrics"}
)

// variable returns the value of a variable of the signal, else of all signals, and its name.
func (s signal) variable(name string) (value, origin string) {
	for _, p := range []string{"OTEL_EXPORTER_OTLP_" + s.name + "_", "OTEL_EXPORTER_OTLP_"} {
		if v := strings.TrimSpace(os.Getenv(p + name)); v != "" {
			return v, p + name
		}
	}
	return "", ""
}

// check looks at the variables that the clients would ignore in silence.
func (s signal) check() error {
	if v, name := s.variable("COMPRESSION"); v != "" && v != "gzip" && v != "none" {
		return fmt.Errorf("%s %q is neither gzip nor none", name, v)
	}
	if _, err := s.timeout(); err != nil {
		return err
	}
	if v, name := s.variable("INSECURE"); v != "" && !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
		return fmt.Errorf("%s %q is neither true nor false", name, v)
	}
	if v, name := s.variable("HEADERS"); v != "" {
		for _, h := range strings.Split(v, ",") {
			if k, _, ok := strings.Cut(h, "="); !ok || strings.TrimSpace(k) == "" {
				return fmt.Errorf("%s has %q, which is not key=value", name, h)
			}
		}
	}
	if v, name := s.variable("CERTIFICATE"); v != "" {
		b, err := os.ReadFile(v)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(b) {
			err = errors.New("no certificate in it")
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", name, v, err)
		}
	}
	cert, name := s.variable("CLIENT_CERTIFICATE")
	key, keyName := s.variable("CLIENT_KEY")
	switch {
	case cert == "" && key == "":
	case cert == "" || key == "":
		return fmt.Errorf("%s stands alone: CLIENT_CERTIFICATE and CLIENT_KEY go together", cmp.Or(name, keyName))
	default:
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return fmt.Errorf("%s %s, %s %s: %w", name, cert, keyName, key, err)
		}
	}
	return nil
}

// patience is how long a request may take with all its repetitions. The specification's 10 s are for programs that can't wait.
const patience = time.Minute

// timeout returns how long a request may take.
func (s signal) timeout() (time.Duration, error) {
	v, name := s.variable("TIMEOUT")
	if v == "" {
		return patience, nil
	}
	ms, err := strconv.Atoi(v)
	if err != nil || ms < 0 {
		return 0, fmt.Errorf("%s %q is no number of milliseconds", name, v)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

const (
	defaultEndpoint     = "http://localhost:4317"
	defaultHTTPEndpoint = "http://localhost:4318"
)

// target is where a signal goes.
type target struct {
	url      *url.URL
	protocol string
}

// resolve finds out where the signal goes, by an endpoint and a protocol, else by the environment.
func (s signal) resolve(endpoint, protocol string) (*target, error) {
	if protocol == "" {
		protocol, _ = s.variable("PROTOCOL")
	}
	if protocol != "" && protocol != GRPC && protocol != HTTP {
		return nil, fmt.Errorf("protocol %q is neither %s nor %s", protocol, GRPC, HTTP)
	}
	origin, exact := "endpoint", false
	if endpoint == "" {
		if endpoint, origin = s.variable("ENDPOINT"); endpoint != "" {
			exact = strings.Contains(origin, s.name)
			if !strings.Contains(endpoint, "://") && protocol != HTTP { // as gRPC names hosts
				scheme := "https://"
				if v, _ := s.variable("INSECURE"); strings.EqualFold(v, "true") {
					scheme = "http://"
				}
				endpoint = scheme + endpoint
			}
		}
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
	if protocol == HTTP && !exact && !strings.HasSuffix(u.Path, s.path) {
		u.Path = path.Join("/", u.Path, s.path)
	}
	return &target{u, protocol}, nil
}
