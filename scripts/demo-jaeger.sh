#!/bin/sh
# Starts Jaeger on this machine with the demo's trace. Ctrl-C stops it.
set -eu
cd "$(dirname "$0")/.."
scripts/servers.sh
[ -f demo.aclt ] || bin/acltrace demo >/dev/null

# Uses the pages from scripts/jaeger-ui.sh if they are built.
ui=
[ ! -f build/jaeger-ui/index.html ] || ui="ui: {assets_path: \"$PWD/build/jaeger-ui\"}, "
config=$(mktemp --suffix=.yaml)
cat >"$config" <<YAML
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {receivers: [otlp], processors: [], exporters: [jaeger_storage_exporter]}
  telemetry: {metrics: {level: none}, logs: {level: info}}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 10000}}}}
  jaeger_query: {storage: {traces: memory}, ${ui}http: {endpoint: "127.0.0.1:16686"}, grpc: {endpoint: "127.0.0.1:16685"}}
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:4317"}, http: {endpoint: "127.0.0.1:4318"}}}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
YAML
log=$(mktemp)
OTEL_TRACES_SAMPLER=always_off build/jaeger --config "$config" >"$log" 2>&1 &
jaeger=$!
trap 'kill $jaeger 2>/dev/null; rm -f "$config" "$log"' EXIT INT TERM
# An answer at its port could be another program's.
until grep -q 'Everything is ready' "$log"; do
	kill -0 $jaeger 2>/dev/null || { cat "$log" >&2; echo "Jaeger does not start" >&2; exit 1; }
	sleep 0.1
done
bin/acltrace export otlp demo.aclt --endpoint http://127.0.0.1:4317
if command -v jq >/dev/null 2>&1; then
	echo
	echo "One step, as Jaeger has it:"
	curl -fs 'http://127.0.0.1:16686/api/traces?service=tiny_decoder&operation=step%203&limit=1' | jq -r --arg n 5 -f scripts/jaeger-tree.jq
fi
cat <<'TEXT'

Jaeger runs on this machine. Ask it for the spans:
  curl -s 'http://127.0.0.1:16686/api/services'
Its Go module has no pages to look at. To see the trace on a screen, run scripts/jaeger-ui.sh first, which builds them, and open http://127.0.0.1:16686 then;
or start a released Jaeger instead and run
  bin/acltrace export otlp demo.aclt --endpoint http://localhost:4317
Ctrl-C stops it.
TEXT
wait $jaeger
