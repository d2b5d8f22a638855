#!/bin/sh
# Runs tests that take too long for `make test`: fuzzing and many repetitions.
set -eu
cd "$(dirname "$0")/.."
ACLTRACE_LIB=$PWD/lib
ACLTRACE_SOAK=1
export ACLTRACE_LIB ACLTRACE_SOAK
for f in FuzzOpen FuzzColumnDecode FuzzAssemble FuzzFile FuzzSites; do
	pkg=$(grep -rl "func $f(" format internal probe --include='*_test.go' | head -n 1)
	[ -n "$pkg" ] || continue
	go test -run '^$' -fuzz "^$f\$" -fuzztime "${FUZZTIME:-2m}" -fuzzminimizetime 1x "./$(dirname "$pkg")"
done
go test -run Soak -timeout 60m ./...
# Kills a writer 200 times, and cuts a large file at 10,000 offsets and damages it at 3,000.
go test -timeout 60m ./format
# Older C libraries, if they are available.
make -s cross
if ACLTRACE_OLD_ROOT=$(scripts/oldroots.sh build/roots); then
	export ACLTRACE_OLD_ROOT
	go test -run OldRoot ./probe/shimtest
fi
ACLTRACE_SOAK= go test -count "${SOAK:-20}" -timeout 60m ./record ./replay ./probe/...
CGO_ENABLED=1 go test -race -count 5 -timeout 60m ./sim/acl
CGO_ENABLED=1 go test -race -count 5 -timeout 60m ./sim/acl -virtual
