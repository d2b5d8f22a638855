#!/bin/sh
# Builds Prometheus's query engine from its Go modules into build/promql, for tests.
set -eu
cd "$(dirname "$0")/.."
[ build/promql -nt otelexport/promql/go.mod ] && [ build/promql -nt otelexport/promql/main.go ] && exit 0
mkdir -p build
echo "building Prometheus's query engine from its Go modules"
cd otelexport/promql
go build -trimpath -ldflags="-s -w" -o ../../build/promql .
