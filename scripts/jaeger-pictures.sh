#!/bin/sh
# Makes the Jaeger pictures in README.md and docs/howto/jaeger.md: records two examples, sends them to a real Jaeger and opens its pages in Chromium.
# Needs build/jaeger (scripts/servers.sh), build/jaeger-ui (scripts/jaeger-ui.sh), build/viewers (scripts/viewers.sh) and Chromium.
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory build
T=$(mktemp -d)
cat >"$T/jaeger.yaml" <<YAML
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
  telemetry: {metrics: {level: none}, logs: {level: info}}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 10000}}}}
  jaeger_query: {storage: {traces: memory}, ui: {assets_path: "$PWD/build/jaeger-ui"}, http: {endpoint: "127.0.0.1:26686"}, grpc: {endpoint: "127.0.0.1:26685"}}
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:24317"}}}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
YAML
OTEL_TRACES_SAMPLER=always_off build/jaeger --config "$T/jaeger.yaml" >"$T/log" 2>&1 &
jaeger=$!
trap 'kill $jaeger 2>/dev/null; rm -rf "$T"' EXIT INT TERM
until grep -q 'Everything is ready' "$T/log"; do sleep 0.1; done

# record NAME PROGRAM … records a program, and prints the address of a step.
record() {
	name=$1
	shift
	bin/acltrace record --sim -q -f --device-time all -o "$T/$name.aclt" -- "$@" >/dev/null
	bin/acltrace export otlp "$T/$name.aclt" --endpoint http://127.0.0.1:24317 --ui http://127.0.0.1:26686 2>&1 | grep -o 'http://127.0.0.1:26686.*'
}
ACLSIM_KERNELS=bin/examples/decoder_kernels.so
export ACLSIM_KERNELS
demo=$(ACLSIM_CLOCK=virtual record demo bin/examples/tiny_decoder --tokens 16)
unset ACLSIM_KERNELS
pipeline=$(record pipeline bin/examples/matmul_pipeline)

page() { node scripts/jaeger-page.mjs "$@" >/dev/null; }
page "$demo" zoom=0:3 picture=docs/pictures/jaeger-demo.png
page "$demo" statistics picture=docs/pictures/jaeger-statistics.png
page "$pipeline" 'open=wait event#[0-9]+ .not measured.' tags picture=docs/pictures/jaeger-wait.png
page "$pipeline" 'find=acl.critical=true' picture=docs/pictures/jaeger-critical.png
