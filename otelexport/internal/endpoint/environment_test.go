package endpoint

import "testing"

func TestResolve(t *testing.T) {
	type Options struct{ Endpoint, Protocol string }
	for _, c := range []struct {
		o          Options
		env        map[string]string
		url, proto string // or the error text
	}{
		{url: "http://localhost:4317", proto: GRPC},
		{o: Options{Protocol: HTTP}, url: "http://localhost:4318/v1/traces", proto: HTTP},
		{o: Options{Endpoint: "http://c:4318"}, url: "http://c:4318/v1/traces", proto: HTTP},
		{o: Options{Endpoint: "https://c/otlp"}, url: "https://c/otlp/v1/traces", proto: HTTP},
		{o: Options{Endpoint: "https://c/v1/traces"}, url: "https://c/v1/traces", proto: HTTP},
		{o: Options{Endpoint: "http://c:4318", Protocol: GRPC}, url: "http://c:4318", proto: GRPC},
		{o: Options{Endpoint: "http://[::1]:9"}, url: "http://[::1]:9", proto: GRPC},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318"}, url: "http://e:4318/v1/traces", proto: HTTP},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:4318/own"}, url: "http://t:4318/own", proto: HTTP},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": HTTP}, url: "http://localhost:4318/v1/traces", proto: HTTP},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, url: `protocol "http/json" is neither grpc nor http/protobuf`},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "e:4317"}, url: "https://e:4317", proto: GRPC},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "e:4317", "OTEL_EXPORTER_OTLP_TRACES_INSECURE": "True"}, url: "http://e:4317", proto: GRPC},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "e:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": HTTP}, url: `OTEL_EXPORTER_OTLP_ENDPOINT "e:4318" is no URL with http:// or https:// in front of the host`},
		{o: Options{Endpoint: "localhost:4317"}, url: `endpoint "localhost:4317" is no URL with http:// or https:// in front of the host`},
		{o: Options{Endpoint: "http://"}, url: `endpoint "http://" is no URL with http:// or https:// in front of the host`},
	} {
		t.Run(c.url, func(t *testing.T) {
			for _, k := range []string{"ENDPOINT", "TRACES_ENDPOINT", "PROTOCOL", "TRACES_PROTOCOL", "TRACES_INSECURE"} {
				t.Setenv("OTEL_EXPORTER_OTLP_"+k, c.env["OTEL_EXPORTER_OTLP_"+k])
			}
			got, err := Traces.Resolve(c.o.Endpoint, c.o.Protocol)
			if err != nil {
				if err.Error() != c.url {
					t.Error(err)
				}
			} else if got.URL.String() != c.url || got.Protocol != c.proto {
				t.Errorf("%s over %s, want %s over %s", got.URL, got.Protocol, c.url, c.proto)
			}
		})
	}
}
