#!/bin/sh
# Builds Jaeger from its Go module into build/jaeger. The first run takes minutes.
set -eu
cd "$(dirname "$0")/.."
[ -x build/jaeger ] && exit 0
mkdir -p build
echo "building Jaeger from its Go module, some minutes the first time"
cd otelexport/jaeger
go build -trimpath -ldflags="-s -w" -o ../../build/jaeger github.com/jaegertracing/jaeger/cmd/jaeger
