#!/bin/sh
# Runs all tests, for `make test` after the build.
set -eu
cd "$(dirname "$0")/.."
ACLTRACE_LIB=$PWD/lib
export ACLTRACE_LIB
# Profiles of real devices, if a folder beside the checkout has some.
: "${ACLTRACE_PROFILES=$PWD/../shared/data/msprof}"
[ ! -d "$ACLTRACE_PROFILES" ] || export ACLTRACE_PROFILES

# The flags of bin/acltrace and of build/jaeger, so that no package is compiled again for the tests.
CGO_ENABLED=0
GOFLAGS=-trimpath
export CGO_ENABLED GOFLAGS

# The limit is for hangs only: a busy machine may take ten times as long as an idle one. Vet has looked at everything before the tests run.
go vet ./...
CGO_ENABLED=1 go vet ./sim/libascendcl/... ./sim/opapi/compute
# More packages than cores, because tests wait often.
tests() { go test -vet=off -ldflags=-w -p $(($(nproc) + 2)) -timeout 60m "$@"; }

# The simulator's engine in virtual time, and under the race detector, beside the other tests.
more=$(mktemp)
trap 'rm -f "$more"' EXIT
(tests ./sim/acl -virtual && CGO_ENABLED=1 tests -race ./sim/acl && CGO_ENABLED=1 tests ./sim/opapi/compute) >"$more" 2>&1 &
beside=$!

# The longest ones first: at the end, one of them would leave the other cores idle.
failed=0
tests ./record ./replay ./cmd/acltrace ./... || failed=1
wait $beside || failed=1
cat "$more"
exit $failed
