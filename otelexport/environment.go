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

// variable returns the value of a variable of traces, else of all signals, and its name.
func variable(name string) (value, origin string) {
	for _, p := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if v := strings.TrimSpace(os.Getenv(p + name)); v != "" {
			return v, p + name
		}
	}
	return "", ""
}

// checkEnvironment looks at the variables that the clients would ignore in silence.
func checkEnvironment() error {
	if v, name := variable("COMPRESSION"); v != "" && v != "gzip" && v != "none" {
		return fmt.Errorf("%s %q is neither gzip nor none", name, v)
	}
	if _, err := timeout(); err != nil {
		return err
	}
	if v, name := variable("INSECURE"); v != "" && !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
		return fmt.Errorf("%s %q is neither true nor false", name, v)
	}
	if v, name := variable("HEADERS"); v != "" {
		for _, h := range strings.Split(v, ",") {
			if k, _, ok := strings.Cut(h, "="); !ok || strings.TrimSpace(k) == "" {
				return fmt.Errorf("%s has %q, which is not key=value", name, h)
			}
		}
	}
	if v, name := variable("CERTIFICATE"); v != "" {
		b, err := os.ReadFile(v)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(b) {
			err = errors.New("no certificate in it")
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", name, v, err)
		}
	}
	cert, name := variable("CLIENT_CERTIFICATE")
	key, keyName := variable("CLIENT_KEY")
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
func timeout() (time.Duration, error) {
	v, name := variable("TIMEOUT")
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
	tracesPath          = "/v1/traces"
)

// target is where the spans go.
type target struct {
	url      *url.URL
	protocol string
}

// resolve finds out where the spans go, by the options, else by the environment.
func resolve(o *Options) (*target, error) {
	protocol := o.Protocol
	if protocol == "" {
		protocol, _ = variable("PROTOCOL")
	}
	if protocol != "" && protocol != GRPC && protocol != HTTP {
		return nil, fmt.Errorf("protocol %q is neither %s nor %s", protocol, GRPC, HTTP)
	}
	endpoint, origin, exact := o.Endpoint, "endpoint", false
	if endpoint == "" {
		if endpoint, origin = variable("ENDPOINT"); endpoint != "" {
			exact = strings.Contains(origin, "TRACES")
			if !strings.Contains(endpoint, "://") && protocol != HTTP { // as gRPC names hosts
				scheme := "https://"
				if v, _ := variable("INSECURE"); strings.EqualFold(v, "true") {
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
	if protocol == HTTP && !exact && !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = path.Join("/", u.Path, tracesPath)
	}
	return &target{u, protocol}, nil
}
