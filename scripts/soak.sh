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
go test -run Soak -timeout 120m ./...
# Configurations and faults of a serving engine, and the faults without a feature yet.
go test -run 'TestClean|TestFaults' -timeout 60m -v ./internal/servingtest
# Planted problems in each manner of a framework that can have them.
go test -run 'TestPlanted|TestClean' -timeout 60m -v ./internal/plantedtest
# What paths say that a step saves, in 200 random programs.
go test -run TestStepsSave -timeout 60m ./analyze/path
# Kills a writer 200 times, and cuts a large file at 10,000 offsets and damages it at 3,000.
go test -timeout 60m ./format
# Older C libraries, if they are available.
make -s cross
go test -run TestPartsRunWithOldC ./internal/artifacts
if ACLTRACE_OLD_ROOT=$(scripts/roots.sh build/roots bullseye-amd64 bullseye-arm64); then
	export ACLTRACE_OLD_ROOT
	go test -run OldRoot ./probe/shimtest
fi
# The release file in bare systems, and two builds of it.
if scripts/roots.sh build/roots bookworm-amd64 >/dev/null; then
	scripts/try-roots.sh bin/acltrace build/roots/bullseye-amd64 build/roots/bookworm-amd64
fi
scripts/reproduce.sh
ACLTRACE_SOAK= go test -count "${SOAK:-20}" -timeout 60m ./record ./replay ./probe/...
CGO_ENABLED=1 go test -race -count 5 -timeout 60m ./sim/acl
CGO_ENABLED=1 go test -race -count 5 -timeout 60m ./sim/acl -virtual
# Mutants that no test kills. They are long with ACLTRACE_SOAK.
ACLTRACE_SOAK= make -s mutants
