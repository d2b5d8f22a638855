// Package endpoint finds OTLP receivers and connects to them. It reads OTEL_EXPORTER_OTLP_* variables, chooses URL and
// protocol, creates clients from OpenTelemetry's Go SDK, and decodes answers that reject a part of a request.
//
// Packages otelexport and live call it once before they send. Resolve refuses invalid variables that the SDK's
// clients would silently ignore. Target.Check refuses an address where nothing listens. The package encodes no data.
package endpoint

import (
	"cmp"
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
)

// The SDK's clients read most variables from OpenTelemetry's specification themselves, but ignore invalid values. This
// package checks them.

// Protocols.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// A signal is traces or metrics: its part in variable names, and its HTTP path.
type signal struct{ name, Path string }

var (
	Traces  = signal{"TRACES", "/v1/traces"}
	Metrics = signal{"METRICS", "/v1/metrics"}
)

// variable returns the value and name for the signal's variable, else for the variable that covers all signals.
func (s signal) variable(name string) (value, origin string) {
	for _, p := range []string{"OTEL_EXPORTER_OTLP_" + s.name + "_", "OTEL_EXPORTER_OTLP_"} {
		if v := strings.TrimSpace(os.Getenv(p + name)); v != "" {
			return v, p + name
		}
	}
	return "", ""
}

// check refuses values that the clients would ignore.
func (s signal) check() error {
	if v, name := s.variable("COMPRESSION"); v != "" && v != "gzip" && v != "none" {
		return fmt.Errorf("%s %q is neither gzip nor none", name, v)
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

// Patience is the default time for a request with its retries. The specification's 10 s are meant for programs that
// cannot wait.
const Patience = time.Minute

func (s signal) timeout() (time.Duration, error) {
	v, name := s.variable("TIMEOUT")
	if v == "" {
		return Patience, nil
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

// Target is a receiver's address and protocol.
type Target struct {
	URL      *url.URL
	Protocol string
	Timeout  time.Duration // for a request with its retries
}

// Resolve returns the signal's target from an endpoint, a URL or HOST:PORT, and a protocol. Empty values come from the
// environment, else from the defaults.
func (s signal) Resolve(endpoint, protocol string) (*Target, error) {
	if protocol == "" {
		protocol, _ = s.variable("PROTOCOL")
	}
	if protocol != "" && protocol != GRPC && protocol != HTTP {
		return nil, fmt.Errorf("protocol %q is neither %s nor %s", protocol, GRPC, HTTP)
	}
	origin, exact := "endpoint", false
	if endpoint != "" && !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	} else if endpoint == "" {
		if endpoint, origin = s.variable("ENDPOINT"); endpoint != "" {
			exact = strings.Contains(origin, s.name)
			if !strings.Contains(endpoint, "://") && protocol != HTTP { // gRPC addresses have no scheme
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
		return nil, fmt.Errorf("invalid %s %q: want a URL, for example http://localhost:4318", origin, endpoint)
	}
	if protocol == "" {
		protocol = GRPC
		if u.Port() == "4318" || strings.Trim(u.Path, "/") != "" {
			protocol = HTTP
		}
	}
	if protocol == HTTP && !exact && !strings.HasSuffix(u.Path, s.Path) {
		u.Path = path.Join("/", u.Path, s.Path)
	}
	limit, err := s.timeout()
	return &Target{u, protocol, limit}, errors.Join(err, s.check())
}
