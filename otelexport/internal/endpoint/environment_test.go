package endpoint

import "testing"

func TestEndpointDeterminesURLAndProtocol(t *testing.T) {
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
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "e:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": HTTP}, url: `invalid OTEL_EXPORTER_OTLP_ENDPOINT "e:4318": want a URL, for example http://localhost:4318`},
		{o: Options{Endpoint: "localhost:4317"}, url: "http://localhost:4317", proto: GRPC},
		{o: Options{Endpoint: "127.0.0.1:4318"}, url: "http://127.0.0.1:4318/v1/traces", proto: HTTP},
		{o: Options{Endpoint: "[::1]:9/own"}, url: "http://[::1]:9/own/v1/traces", proto: HTTP},
		{o: Options{Endpoint: "collector"}, url: "http://collector", proto: GRPC},
		{o: Options{Endpoint: "http://"}, url: `invalid endpoint "http://": want a URL, for example http://localhost:4318`},
		{o: Options{Endpoint: "grpc://c:4317"}, url: `invalid endpoint "grpc://c:4317": want a URL, for example http://localhost:4318`},
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
