#!/bin/sh
# Runs the tests with unmodified PyTorch. First makes a virtual environment in build/torch, once for each version of the pinned wheels.
# A machine that has no suitable Python or does not reach the package index skips them with the reason.
set -eu
cd "$(dirname "$0")/.."
pins=internal/torchtest
env=build/torch
log=build/torch.log

skip() {
	echo "test-torch: skipped: $1"
	exit 0
}

install() {
	"$env/bin/pip" install -q --disable-pip-version-check "$@" >"$log" 2>&1 && return
	grep -q "No matching distribution" "$log" && skip "the package index has no wheels for this machine: see $log"
	cat "$log" >&2
	exit 1
}

if ! cat $pins/requirements.txt $pins/plugin.txt | cmp -s - "$env/pins"; then
	rm -rf "$env"
	mkdir -p build
	python3 -m venv "$env" >"$log" 2>&1 || skip "python3 makes no virtual environment (Debian package python3-venv): see $log"
	"$env/bin/pip" download -q --no-deps --disable-pip-version-check --retries 1 -d "$env/index" pyyaml >"$log" 2>&1 || skip "the package index does not answer: see $log"
	install -r $pins/requirements.txt
	install --no-deps -r $pins/plugin.txt
	cat $pins/requirements.txt $pins/plugin.txt >"$env/pins"
fi
ACLTRACE_TORCH=$PWD/$env/bin/python
ACLTRACE_LIB=$PWD/lib
export ACLTRACE_TORCH ACLTRACE_LIB
go test -count=1 -timeout 30m "$@" ./$pins
go test -count=1 -timeout 30m -run TestTorchPages ./docs
