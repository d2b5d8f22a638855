#!/bin/sh
# Builds an OpenTelemetry collector from its Go modules into build/collector. The first run takes minutes.
set -eu
cd "$(dirname "$0")/.."
[ build/collector -nt otelexport/collector/go.mod ] && [ build/collector -nt otelexport/collector/main.go ] && exit 0
mkdir -p build
echo "building an OpenTelemetry collector from its Go modules, some minutes the first time"
cd otelexport/collector
go build -trimpath -ldflags="-s -w" -o ../../build/collector .
