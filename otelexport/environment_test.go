package otelexport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
)

// The environment provides missing options. Variables for traces override those for all signals.
func TestEnvironmentProvidesMissingOptions(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		r := &oteltest.Receiver{Answer: accept}
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		url := r.Serve(t, protocol)
		if protocol == HTTP {
			url += endpoint.Traces.Path // a URL for traces is used unchanged
		}
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "none")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-test=other")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b,x-test=s%20ecret")
		t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
		res, err := send(t.Context(), testtrace.Small(t), nil)
		if err != nil || r.Spans != res.Spans || r.Header != "s ecret" || res.Protocol != protocol || r.Packed != "gzip" {
			t.Errorf("%+v, %v, %d spans, header %q, compressed by %q", res, err, r.Spans, r.Header, r.Packed)
		}
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none")
		if _, err := send(t.Context(), testtrace.Small(t), nil); err != nil || r.Packed == "gzip" {
			t.Errorf("%v, compressed by %q", err, r.Packed)
		}
	})
}

// issue writes name.pem and name.key for localhost, signed by another certificate, or self-signed if by is nil.
func issue(t *testing.T, name string, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: filepath.Base(name)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: by == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if by == nil {
		by, byKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

// The client trusts the certificate in the environment and presents its own.
func TestTLS(t *testing.T) {
	dir := t.TempDir() + "/"
	root, rootKey := issue(t, dir+"ca", nil, nil)
	issue(t, dir+"server", root, rootKey)
	issue(t, dir+"client", root, rootKey)
	serverPair, err := tls.LoadX509KeyPair(dir+"server.pem", dir+"server.key")
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(root)
	each(t, func(t *testing.T, protocol string) {
		r := &oteltest.Receiver{Answer: accept}
		o := &Options{Protocol: protocol, Endpoint: r.ServeTLS(t, protocol, &tls.Config{Certificates: []tls.Certificate{serverPair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted, NextProtos: []string{"h2"}})}
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000") // failed requests are retried until then
		if _, err := send(t.Context(), testtrace.Small(t), o); err == nil || !strings.Contains(err.Error(), "x509") {
			t.Errorf("whom nobody trusts: %v", err)
		}
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", dir+"ca.pem")
		if _, err := send(t.Context(), testtrace.Small(t), o); err == nil {
			t.Error("a client without a certificate was let in")
		}
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", dir+"client.pem")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", dir+"client.key")
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "20000")
		if res, err := send(t.Context(), testtrace.Small(t), o); err != nil || r.Spans != res.Spans || res.Spans == 0 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A value that the clients would ignore is an error that names the variable.
func TestBadEnvironment(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tl := testtrace.Small(t)
	o := serve(t, &oteltest.Receiver{Answer: accept}, GRPC)
	for _, c := range []struct{ name, value, want string }{
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", `OTEL_EXPORTER_OTLP_COMPRESSION "zstd" is neither gzip nor none`},
		{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s", `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT "10s" is no number of milliseconds`},
		{"OTEL_EXPORTER_OTLP_INSECURE", "yes", `OTEL_EXPORTER_OTLP_INSECURE "yes" is neither true nor false`},
		{"OTEL_EXPORTER_OTLP_HEADERS", "Authorization: x", `OTEL_EXPORTER_OTLP_HEADERS has "Authorization: x", which is not key=value`},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", empty, "OTEL_EXPORTER_OTLP_CERTIFICATE " + empty + ": no certificate in it"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", empty + ".gone", "no such file"},
		{"OTEL_EXPORTER_OTLP_CLIENT_KEY", empty, "OTEL_EXPORTER_OTLP_CLIENT_KEY stands alone"},
		{"OTEL_RESOURCE_ATTRIBUTES", "novalue", `OTEL_RESOURCE_ATTRIBUTES "novalue"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			if _, err := send(t.Context(), tl, o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %s", err, c.want)
			}
		})
	}
}

// Resources carry the environment's attributes, unless the recording has better ones.
func TestResourcesOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "llama")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=pro%20d,host.name=here,service.name=other")
	spans, _ := written(t, testtrace.Small(t), nil)
	services := map[any]bool{}
	for _, s := range spans {
		services[s.Resource["service.name"]] = true
		if s.Resource["deployment.environment.name"] != "pro d" || s.Resource["host.name"] != "node7" {
			t.Fatalf("resource %v", s.Resource)
		}
	}
	for _, want := range []string{"llama:0", "llama:1", "llama:0/npu:3"} {
		if !services[want] {
			t.Errorf("services %v, without %s", services, want)
		}
	}
}
