#!/bin/sh
# Builds the servers of the tests from their Go modules: build/jaeger, which is a Jaeger and an OpenTelemetry collector, and build/promql,
# Prometheus's query engine. The first run takes minutes. The flags are those of bin/acltrace, so that common packages are compiled once.
set -eu
cd "$(dirname "$0")/.."
[ -x build/jaeger ] && [ -x build/promql ] && [ -z "$(find otelexport/servers -newer build/promql -type f)" ] && exit 0
mkdir -p build
echo "building Jaeger and Prometheus's query engine from their Go modules, some minutes the first time"
cd otelexport/servers
CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o ../../build/ ./jaeger ./promql
touch ../../build/promql
